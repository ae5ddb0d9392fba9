"""A baseline: the rewards of a run in one small, sorted file that is committed.

docs/gates.md describes the file.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs.lines import natural
from pytest_cwsandbox.runs.redaction import redact
from pytest_cwsandbox.runs.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCHEMA = 1
KIND = "pytest-cwsandbox baseline"
HUGE = 300  # digits; a float holds 308
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


def is_one(file: Path) -> bool:
    """Whether the file begins as one of ``write`` does."""
    try:
        with file.open("rb") as stream:
            return json.dumps(KIND).encode() in stream.readline(1024) + stream.readline(1024)
    except OSError:
        return False  # whoever reads it says why


def read(file: Path) -> Baseline:
    """Read what ``write`` wrote; raises ``ProblemFileError`` for anything else."""
    if file.is_dir():
        raise ProblemFileError(f"{file}: is a run's folder and no baseline; {REMEDY}")
    try:
        content = json.loads(file.read_bytes(), object_pairs_hook=_once, parse_int=_number)
    except OSError as error:
        raise ProblemFileError(f"{file}: cannot be read: {error.strerror}; {REMEDY}") from error
    except _TwiceError as error:
        raise ProblemFileError(f"{file}: no baseline, {error} is there twice; {REMEDY}") from None
    except (ValueError, RecursionError) as error:
        raise ProblemFileError(f"{file}: no baseline, not valid JSON: {error}; {REMEDY}") from None
    if not isinstance(content, dict) or content.get("kind") != KIND:
        raise ProblemFileError(f'{file}: no baseline, it has no "kind": "{KIND}"; {REMEDY}')
    try:
        check_schema(content.get("schema"), SCHEMA, remedy=REMEDY)
    except ValueError as error:
        raise ProblemFileError(f"{file}: {error}") from None
    groups = content.get("groups")
    if not (isinstance(groups, dict) and all(isinstance(of, dict) for of in groups.values())):
        raise ProblemFileError(f'{file}: "groups" must hold the samples of each; {REMEDY}')
    ids = [name for of in groups.values() for name in of]
    if twice := next((name for name, times in Counter(ids).items() if times > 1), None):
        raise ProblemFileError(f'{file}: sample "{twice}" is in two groups; {REMEDY}')
    origin = {k: v for k, v in content.items() if k in {"run", "model", "date"}}
    return Baseline(
        {name: str(value) for name, value in origin.items()},
        tuple(
            _record(file, group, name, row)
            for group, of in groups.items()
            for name, row in of.items()
        ),
    )


class _TwiceError(ValueError):
    """An object has this name twice; JSON's own reader would take the later, and not say so."""


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = Counter(name for name, _ in pairs)
    if twice := next((name for name, times in names.items() if times > 1), None):
        raise _TwiceError(f'"{twice}"')
    return dict(pairs)


def _number(digits: str) -> float:
    """An integer as it stands, or infinity for one that no float holds: no reward is."""
    return int(digits) if len(digits) < HUGE else float(digits)


def _record(file: Path, group: str, name: str, row: object) -> SampleRecord:
    match row:
        case {"problem": str(problem), "reward": int() | float() as reward} if not isinstance(
            reward, bool
        ) and math.isfinite(reward):
            return SampleRecord(name, group, problem, 0, float(reward))
    raise ProblemFileError(
        f'{file}: sample "{name}" must have a problem and a number as its reward; {REMEDY}'
    )
