"""A run in numbers: what summary.json holds and the reports show."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.runs import lines
from pytest_cwsandbox.runs.redaction import redact
from pytest_cwsandbox.runs.statistics import by_group, by_metadata, metadata_keys, summarise

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.comparison import Comparison
    from pytest_cwsandbox.runs.gate import Judged
    from pytest_cwsandbox.runs.statistics import GroupSummary

SUMMARY = "summary.json"
FINDINGS = "findings.jsonl"


@dataclass(frozen=True, slots=True)
class Checks:
    """Ordinary tests: everything that is no sample."""

    passed: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class Summary:
    """``by`` holds the rates by the metadata keys asked for; ``gates`` are the verdict's lines.

    ``judged`` holds them as data, ``verdict`` is the word for all of it.
    ``planned`` counts the samples that were collected, 0 where that is not known; ``retries`` the
    failures of the infrastructure that were made good, in samples and checks.
    """

    run: str
    groups: tuple[GroupSummary, ...]
    pooled: GroupSummary
    by: tuple[GroupSummary, ...] = ()
    keys: tuple[str, ...] = ()
    checks: Checks = field(default_factory=Checks)
    planned: int = 0
    retries: int = 0
    gates: tuple[str, ...] = ()
    verdict: str = ""
    judged: tuple[Judged, ...] = ()
    comparison: Comparison | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "run": self.run,
            "groups": [group.to_json() for group in self.groups],
            "all": self.pooled.to_json(),
            "by": {"keys": list(self.keys), "groups": [group.to_json() for group in self.by]},
            "checks": {"passed": self.checks.passed, "failed": self.checks.failed},
            "planned": self.planned,
            "retries": self.retries,
            "gates": list(self.gates),
            "verdict": self.verdict or None,
            "judged": [judged.to_json() for judged in self.judged],
            "comparison": self.comparison.to_json() if self.comparison else None,
        }


def summarise_run(
    run: str,
    records: Sequence[SampleRecord],
    *,
    keys: Sequence[str] = (),
    ks: Sequence[int] = (),
    checks: Checks | None = None,
    planned: int = 0,
    retries: int = 0,
) -> Summary:
    """The numbers of these records; ``ks`` are those of pass@k and pass^k.

    Of ``keys`` those that no sample has group nothing: the report says so.
    """
    there = set(metadata_keys(records))
    known = [key for key in dict.fromkeys(keys) if key in there]
    return Summary(
        run=run,
        groups=tuple(by_group(records, ks)),
        pooled=summarise("all", records, ks),
        by=tuple(by_metadata(records, known, ks)) if known else (),
        keys=tuple(keys),
        checks=checks or Checks(),
        planned=planned,
        retries=retries,
    )


def write(folder: Path, summary: Summary) -> None:
    """Write ``summary.json`` into the run's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{SUMMARY}.part"
    unfinished.write_text(redact(json.dumps(summary.to_json(), indent=2)) + "\n")
    unfinished.replace(folder / SUMMARY)


def write_findings(folder: Path, findings: Iterable[Finding]) -> None:
    """Write what a validation found into the run's folder, a line per finding."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / FINDINGS).open("w") as file:
        file.writelines(redact(json.dumps(finding.to_json())) + "\n" for finding in findings)


def read(folder: Path) -> Mapping[str, object]:
    """What ``write`` wrote; empty for a run that did not get to its end.

    Raises ``ProblemFileError`` for anything else.
    """
    file = folder / SUMMARY
    try:
        told = json.loads(file.read_bytes())
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ProblemFileError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProblemFileError(f"{file}: not valid JSON: {error}") from None
    if not _is_summary(told):
        raise ProblemFileError(f"{file}: no summary of a run, or one of another version")
    return cast("Mapping[str, object]", told)


def read_findings(folder: Path, warn: Callable[[str], None]) -> list[Finding]:
    """What ``write_findings`` wrote; empty where nothing was.

    A last line that was cut off is said through ``warn``. Raises ``ProblemFileError`` for any other
    row that is none.
    """
    from pytest_cwsandbox.findings import Finding

    found = []
    for where, row in lines.read(folder / FINDINGS, warn) if (folder / FINDINGS).exists() else ():
        try:
            found.append(Finding.from_json(row))
        except TypeError as error:
            raise ProblemFileError(f"{where}: no finding: {error}") from None
    return found


def _is_summary(told: object) -> bool:
    """Whether it has what reports take from it; they compute the rest."""
    match told:
        case {
            "run": str(),
            "gates": list(gates),
            "checks": {"passed": int(), "failed": int()},
            "retries": int(),
            "planned": int(),
            "by": {"keys": list(keys)},
            "all": {"samples": int(), "infrastructure_errors": int(), "pass_at": dict(ks)},
            "comparison": compared,
        }:
            texts = all(isinstance(text, str) for text in [*gates, *keys])
            return texts and all(_is_k(k) for k in ks) and _is_comparison(compared)
    return False


def _is_k(text: str) -> bool:
    return text.isascii() and text.isdecimal() and 0 < len(text) < 10


def _is_comparison(told: object) -> bool:
    match told:
        case None:
            return True
        case {
            "before": str(),
            "all": {
                "pairs": int(),
                "test": str(),
                "p_value": int() | float() | None,
                "rate_before": int() | float() | None,
                "rate_after": int() | float() | None,
            },
            "missing": int(),
            "lost": int(),
            "new": int(),
            "regressed": list(worse),
            "improved": list(better),
        }:
            return all(map(_is_flip, [*worse, *better]))
    return False


def _is_flip(told: object) -> bool:
    match told:
        case {"problem": str(), "before": int(), "after": int(), "pairs": int()}:
            return True
    return False
