"""What a report is made of: everything that a run's folder holds, however far the run got."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.runs import journal, lines, lock, plan, provenance, summary
from pytest_cwsandbox.runs.summary import SUMMARY, read_findings, summarise_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.runs.journal import Entry
    from pytest_cwsandbox.runs.summary import Summary


@dataclass(frozen=True, slots=True)
class Source:
    """A run. ``entries`` are in the order of their ids; ``numbers`` are the rates.

    ``summary`` has summary.json's form, with what only the end of the run knew.
    ``ended`` is False for a run that was killed or still goes on, which ``going_on`` tells apart:
    its summary is then of the samples so far, without a verdict. ``exit_status`` is pytest's,
    where it is known. ``notes`` say what of the folder could not be read.
    """

    folder: Path
    entries: list[Entry]
    numbers: Summary
    summary: Mapping[str, object]
    ended: bool
    planned: int
    problems: dict[str, Problem]
    provenance: Mapping[str, object]
    findings: list[Finding]
    notes: list[str]
    exit_status: int | None = None
    going_on: bool = False

    @property
    def rescored_from(self) -> str:
        """The run whose completions these are, "" for a run of its own."""
        return str(self.provenance.get("rescored_from") or "")

    @property
    def records(self) -> list[SampleRecord]:
        return [entry.record for entry in self.entries]


def read(path: Path, *, keys: Sequence[str] = (), ks: Sequence[int] = ()) -> Source:
    """Read a run's folder, or one file of its samples with what is beside it.

    ``keys`` and ``ks`` are those of ``summarise_run``, in place of those that the run had. Raises
    ``UserError`` where there are neither samples nor findings.
    """
    folder = path if path.is_dir() else path.parent
    notes: list[str] = []
    findings = read_findings(folder, notes.append)
    if findings and path.is_dir() and not journal.exists(path):
        entries = []
    else:
        entries = sorted(
            journal.read(path, notes.append).values(),
            key=lambda entry: lines.natural(entry.record.id),
        )
    records = [entry.record for entry in entries]
    planned = len(plan.read(folder, notes.append))
    told = _told(folder, notes)
    ended = bool(told) and _tells_of(told, len(entries))
    if told and not ended:
        notes.append(f"{SUMMARY} is of an earlier end of this run and is left out")
    had_keys, had_ks = _asked(told) if ended else ((), ())
    numbers = summarise_run(
        folder.resolve().name,
        records,
        keys=keys or had_keys,
        ks=ks or had_ks,
        planned=planned,
        retries=sum(record.retries for record in records),
    )
    if ended:
        numbers = replace(numbers, gates=tuple(cast("list[str]", told["gates"])))
    computed = json.loads(json.dumps(numbers.to_json()))
    kept = ("run", "checks", "planned", "retries", "comparison") if ended else ()
    made = _provenance(folder, notes)
    status = made.get("exit_status")
    return Source(
        folder=folder,
        entries=entries,
        numbers=numbers,
        summary={**computed, **{name: told[name] for name in kept}},
        ended=ended,
        planned=planned,
        problems=plan.read_problems(folder, notes.append),
        provenance=made,
        findings=findings,
        notes=notes,
        exit_status=status if isinstance(status, int) else None,
        going_on=not ended and lock.held(folder),
    )


def _asked(told: Mapping[str, object]) -> tuple[list[str], list[int]]:
    """The keys and the k's that a summary was made with."""
    by = cast("Mapping[str, list[str]]", told["by"])
    pooled = cast("Mapping[str, Mapping[str, float | None]]", told["all"])
    return by["keys"], [int(k) for k in pooled["pass_at"]]


def _tells_of(told: Mapping[str, object], samples: int) -> bool:
    """Whether the summary counts all the samples: a run that is continued has more."""
    pooled = cast("Mapping[str, int]", told["all"])
    return pooled["samples"] + pooled["infrastructure_errors"] == samples


def _told(folder: Path, notes: list[str]) -> Mapping[str, object]:
    """The summary; one that is damaged is noted, as the rates are computed anyway."""
    try:
        return summary.read(folder)
    except UserError as error:
        notes.append(f"{error}; the rates are computed again, the gates' verdict is left out")
        return {}


def _provenance(folder: Path, notes: list[str]) -> Mapping[str, object]:
    """Everything that run.json says; of a form that is not known it is left out, and noted."""
    file = folder / provenance.FILE
    try:
        told = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, RecursionError) as error:
        notes.append(f"{file}: cannot be read, and is left out: {error}")
        return {}
    if not isinstance(told, dict):
        notes.append(f"{file}: must be a JSON object, and is left out: {type(told).__name__}")
        return {}
    schema = told.get("schema", provenance.SCHEMA)
    if schema != provenance.SCHEMA:
        notes.append(
            f"{file}: schema {schema!r:.20}, and this version of pytest-cwsandbox reads schema "
            f"{provenance.SCHEMA}: it is left out"
        )
        return {}
    return told
