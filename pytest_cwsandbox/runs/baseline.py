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
    rows = [
        f"    {json.dumps(record.id)}: " + json.dumps(_row(record)) for record in baseline.records
    ]
    about = [
        f"  {json.dumps(name)}: {json.dumps(value)},"
        for name, value in {"kind": KIND, "schema": SCHEMA, **baseline.origin}.items()
    ]
    text = "\n".join(["{", *about, '  "samples": {', ",\n".join(rows), "  }", "}"]) + "\n"
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
    samples = content.get("samples")
    if not isinstance(samples, dict) or not samples:
        raise ProblemFileError(f'{file}: "samples" must hold the samples by id; {REMEDY}')
    origin = {k: v for k, v in content.items() if k in {"run", "model", "date"}}
    return Baseline(
        {name: str(value) for name, value in origin.items()},
        tuple(_record(file, name, row) for name, row in samples.items()),
    )


def _row(record: SampleRecord) -> dict[str, object]:
    return {"group": record.group, "problem": record.problem, "reward": record.reward}


def _record(file: Path, name: str, row: object) -> SampleRecord:
    match row:
        case {
            "group": str(group),
            "problem": str(problem),
            "reward": int() | float() as reward,
        } if not isinstance(reward, bool) and math.isfinite(reward):
            return SampleRecord(name, group, problem, 0, float(reward))
    raise ProblemFileError(
        f'{file}: sample "{name}" must have a group, a problem and a number as its reward; {REMEDY}'
    )
