"""The journal of a run: every sample, on disk as soon as its grade lands.

Each process appends to a ``samples-<worker>.jsonl`` of its own; the controller merges them into
``samples.jsonl`` when the run ends. docs/runs.md describes the lines.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, Self, cast, get_args

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs import baseline, lines
from pytest_cwsandbox.runs.redaction import redact
from pytest_cwsandbox.runs.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

SCHEMA = 1
MERGED = "samples.jsonl"
LISTED = 10  # contradictions that are told one by one
State = Literal["graded", "ended", "lost"]
Ending = Literal["", "passed", "failed", "skipped", "xfailed"]
_ORDER = {state: place for place, state in enumerate(get_args(State))}
_ENDINGS = frozenset(get_args(Ending))
_OF_THE_RECORD = frozenset(field.name for field in fields(SampleRecord))
_TYPES: dict[str, type | tuple[type, ...]] = {
    "id": str,
    "group": str,
    "problem": str,
    "sample": int,
    "verdict": str,
    "detail": str,
    "seconds": (int, float),
    "worker": str,
    "metadata": dict,
    "grader": str,
    "completion": str,
    "held_out": bool,
    "retries": int,
    "attempt": int,
    "state": str,
    "ending": str,
    "failure": str,
    "asserted": bool,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A sample and how far its item got.

    ``state`` is "graded" once the reward is known, "ended" once the item has, "lost" when it ended
    because the infrastructure failed. ``attempt`` counts runs of the item that are in the journal,
    from 1: of its entries the latest attempt counts, and of that the latest state. An attempt that
    "ended" without a reward takes back what earlier ones recorded. ``ending`` is what became of
    the test, ``failure`` its error as pytest shows it, or why it was skipped or expected to fail;
    ``asserted`` says whether it was an AssertionError of the test function.
    """

    record: SampleRecord
    state: State
    attempt: int = 1
    ending: Ending = ""
    failure: str = ""
    asserted: bool = False

    @property
    def finished(self) -> bool:
        """Whether a resumed run has nothing left to do for it."""
        return self.state == "ended" and self.record.reward is not None

    @property
    def void(self) -> bool:
        """Whether it says that the item recorded nothing after all."""
        return self.state == "ended" and self.record.reward is None

    def failed(self, *, gated: bool) -> bool:
        """Whether its test has: an assertion below full reward is data where a gate is set."""
        reward = self.record.reward
        low = self.asserted and reward is not None and reward < 1
        return self.ending == "failed" and not (gated and low)

    @property
    def rank(self) -> tuple[int, int]:
        """Of two entries of a sample the one of higher rank counts."""
        return self.attempt, _ORDER[self.state]

    def contradicts(self, other: Entry) -> bool:
        """Whether both claim to be the end of the same attempt, with another result.

        A reward may be recorded again. How the item ended is written down when its coroutine ends,
        and again when its teardown has failed after that.
        """
        same = self.rank == other.rank and self.state != "graded"
        return same and self.record != other.record

    def to_json(self) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            **self.record.to_json(),
            "state": self.state,
            "attempt": self.attempt,
            "ending": self.ending,
            "failure": self.failure,
            "asserted": self.asserted,
        }

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form; ``TypeError`` or ``ValueError`` for any other."""
        if "schema" not in row:
            raise ValueError('no sample of a run: it has no "schema"')
        check_schema(row["schema"], SCHEMA, remedy="use the version that wrote the run")
        for name, kind in _TYPES.items():
            if name not in row:
                raise TypeError(f'missing field "{name}"')
            value = row[name]
            if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
                raise TypeError(f'field "{name}" cannot be {value!r:.40}')
        if row["state"] not in _ORDER or row["ending"] not in _ENDINGS:
            raise ValueError(f'unknown state "{row["state"]}" or ending "{row["ending"]}"')
        reward = row.get("reward", "missing")
        if reward is not None and not _is_finite(reward):
            raise TypeError('field "reward" must be a finite number or null')
        _check_values(row)
        record = SampleRecord.from_json({k: v for k, v in row.items() if k in _OF_THE_RECORD})
        return cls(
            record,
            cast("State", row["state"]),
            cast("int", row["attempt"]),
            cast("Ending", row["ending"]),
            str(row["failure"]),
            bool(row["asserted"]),
        )


def _check_values(row: Mapping[str, object]) -> None:
    """Raise ``TypeError`` for what has the right type and is no such value all the same."""
    if not _is_finite(row["seconds"]):
        raise TypeError('field "seconds" must be a finite number')
    for name, least in (("seconds", 0), ("retries", 0), ("attempt", 1)):
        if cast("float", row[name]) < least:
            raise TypeError(f'field "{name}" must be at least {least}')
    for name, value in cast("dict[str, object]", row["metadata"]).items():
        if not isinstance(value, str):
            raise TypeError(f'field "metadata": "{name}" must be a text')


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is larger than any float
        return False


def append(folder: Path, worker: str, entry: Entry) -> None:
    """Add a line to the worker's journal in a run's folder, which is made when missing."""
    lines.append(folder / f"samples-{worker}.jsonl", entry.to_json())


def read(path: Path, warn: Callable[[str], None]) -> dict[str, Entry]:
    """The latest entry of every sample of a run's folder, or of one file of it, by sample id.

    Two results of one attempt, and a cut-off last line, are said through ``warn``. Raises
    ``ProblemFileError`` for any other line that is no entry.
    """
    return samples(latest(path, warn))


def samples(entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Those of ``latest`` that are samples."""
    return {name: entry for name, entry in entries.items() if not entry.void}


def latest(path: Path, warn: Callable[[str], None]) -> dict[str, Entry]:
    """As ``read``, with the attempts that recorded nothing after all."""
    found: dict[str, tuple[Entry, str]] = {}
    contradictions = 0
    for file in files(path):
        for where, row in lines.read(file, warn):
            try:
                entry = Entry.from_json(row)
            except (TypeError, ValueError) as error:
                raise ProblemFileError(f"{where}: {error}") from None
            known = found.get(entry.record.id)
            if known is not None and entry.contradicts(known[0]):
                contradictions += 1
                if contradictions <= LISTED:
                    warn(
                        f'{where}: sample "{entry.record.id}" is also in {known[1]}, with another '
                        "result of the same attempt: the later is taken"
                    )
            if known is None or entry.rank >= known[0].rank:
                found[entry.record.id] = (entry, where)
    if contradictions > LISTED:
        warn(f"{path}: {contradictions - LISTED} more samples have two results of one attempt")
    return {name: entry for name, (entry, _) in found.items()}


def exists(folder: Path) -> bool:
    """Whether the folder holds samples."""
    return next(folder.glob("samples*.jsonl"), None) is not None


def files(path: Path) -> list[Path]:
    """The files that hold a run's samples, merged ones first; ``UserError`` where none are.

    Usually either has all. A disk that was full for a while leaves some to the merged file.
    """
    if not path.is_dir():
        if baseline.is_one(path):
            raise UserError(
                f"{path}: is a baseline, which `pytest-cwsandbox compare` and "
                "--cwsandbox-baseline read: give a run's folder or id"
            )
        return [path]
    journals = sorted(path.glob("samples-*.jsonl"), key=lines.natural)
    merged = path / MERGED
    if not journals and not merged.exists():
        raise UserError(
            f"{path}: holds no samples; tests record them through the fixtures rollout and "
            "record_reward"
        )
    return [merged, *journals] if merged.exists() else journals


def merge(folder: Path, entries: Iterable[Entry]) -> None:
    """Write ``samples.jsonl``: one line per sample, in the order of the ids."""
    ordered = sorted(entries, key=lambda entry: lines.natural(entry.record.id))
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{MERGED}.part"
    with unfinished.open("w") as file:
        file.writelines(redact(json.dumps(entry.to_json())) + "\n" for entry in ordered)
    unfinished.replace(folder / MERGED)
