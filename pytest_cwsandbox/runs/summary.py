"""A run in numbers: what summary.json holds and the reports show."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs.redaction import redact
from pytest_cwsandbox.runs.statistics import by_group, by_metadata, metadata_keys, summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.comparison import Comparison
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
    """What ``write`` wrote; empty for a run that did not get to its end."""
    file = folder / SUMMARY
    return json.loads(file.read_text()) if file.exists() else {}
