"""A baseline: the rewards of a run in one small, sorted file that is committed.

docs/gates.md describes the file.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs.lines import natural
from pytest_cwsandbox.runs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCHEMA = 1
KIND = "pytest-cwsandbox baseline"
REMEDY = "write one with `pytest-cwsandbox baseline RUN -o PATH`"


@dataclass(frozen=True, slots=True)
class Baseline:
    """``origin`` says where it came from: the run's id, and its model and date where known."""

    origin: Mapping[str, str]
    records: tuple[SampleRecord, ...]

    @classmethod
    def of(cls, records: Iterable[SampleRecord], origin: Mapping[str, str]) -> Self:
        """The samples with a reward, in the order of their ids."""
        kept = [record for record in records if record.reward is not None]
        return cls(origin, tuple(sorted(kept, key=lambda record: natural(record.id))))


def write(file: Path, baseline: Baseline) -> None:
    """Write the file, a line per sample; raises ``UserError`` where it cannot be written."""
    groups: dict[str, list[str]] = {}
    for record in baseline.records:
        row = {"problem": record.problem, "reward": record.reward}
        line = f"      {json.dumps(record.id)}: {json.dumps(row)}"
        groups.setdefault(record.group, []).append(line)
    about = [
        f"  {json.dumps(name)}: {json.dumps(value)},"
        for name, value in {"kind": KIND, "schema": SCHEMA, **baseline.origin}.items()
    ]
    blocks = [
        f"    {json.dumps(group)}: {{\n" + ",\n".join(groups[group]) + "\n    }"
        for group in sorted(groups)
    ]
    text = "\n".join(["{", *about, '  "groups": {', ",\n".join(blocks), "  }", "}"]) + "\n"
    unfinished = file.with_name(f"{file.name}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(redact(text))
        unfinished.replace(file)
    except OSError as error:
        raise UserError(f"{file}: cannot be written: {error.strerror}") from error


def read(file: Path) -> Baseline:
    """Read what ``write`` wrote; raises ``ProblemFileError`` for anything else."""
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise ProblemFileError(f"{file}: cannot be read: {error.strerror}; {REMEDY}") from error
    except (ValueError, RecursionError) as error:
        raise ProblemFileError(f"{file}: no baseline, not valid JSON: {error}; {REMEDY}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ProblemFileError(f'{file}: no baseline, it has no "kind": "{KIND}"; {REMEDY}')
    schema = content.get("schema")
    if schema != SCHEMA:
        newer = isinstance(schema, int) and schema > SCHEMA
        raise ProblemFileError(
            f"{file}: schema {schema!r:.20}, and this version of pytest-cwsandbox reads schema "
            f"{SCHEMA}: {'upgrade it' if newer else REMEDY}"
        )
    groups = content.get("groups")
    if not (isinstance(groups, dict) and all(isinstance(of, dict) for of in groups.values())):
        raise ProblemFileError(f'{file}: "groups" must hold the samples of each; {REMEDY}')
    origin = {k: v for k, v in content.items() if k in {"run", "model", "date"}}
    return Baseline(
        {name: str(value) for name, value in origin.items()},
        tuple(
            _record(file, group, name, row)
            for group, of in groups.items()
            for name, row in of.items()
        ),
    )


def _record(file: Path, group: str, name: str, row: object) -> SampleRecord:
    match row:
        case {"problem": str(problem), "reward": int() | float() as reward} if not isinstance(
            reward, bool
        ) and math.isfinite(reward):
            return SampleRecord(name, group, problem, 0, float(reward))
    raise ProblemFileError(
        f'{file}: sample "{name}" must have a problem and a number as its reward; {REMEDY}'
    )
