"""What is known of a run's samples and checks: from the plan, from reports, from the journals."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.outcome import SampleRecord, Verdict
from pytest_cwsandbox.recording import unwritable
from pytest_cwsandbox.runs import journal, lines, plan
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.redaction import sample_id
from pytest_cwsandbox.runs.summary import Checks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    import pytest

    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.runs.plan import Planned

LISTED = 8  # names of a notice
CRASHED = "???"  # xdist's phase for the item that a dead worker was running


class Told(TypedDict, total=False):
    """The JSON on a report; see ``annotation.annotate``."""

    status: str
    group: str
    detail: str
    sample: dict[str, object]
    finding: dict[str, object]
    retries: int
    replayed: bool
    trouble: str
    notices: list[tuple[str, str]]


def told_by(report: pytest.TestReport) -> Told:
    """What ``annotation.annotate`` put on the report."""
    text = getattr(report, "cwsandbox", None)
    return json.loads(text) if text else {}


class Counted:
    """Counts what a run's reports tell. Nodes are ids of samples; ``say`` takes lines for people.

    ``lost_reports`` is how many of the failures that pytest counts are lost to infrastructure.
    """

    def __init__(
        self, run: Run, *, gated: bool, continued: bool, say: Callable[[str], None]
    ) -> None:
        self._run = run
        self._gated = gated
        self._continued = continued
        self._say = say
        self.entries: dict[str, Entry] = {}
        self.findings: dict[str, Finding] = {}
        self.replayed: set[str] = set()
        self.lost_reports = 0
        self._groups: dict[str, str] = {}  # of the items that use fixtures of ours
        self._lost: dict[str, str] = {}  # node: what of the infrastructure failed
        self._checks: dict[str, bool] = {}  # node: whether every phase passed
        self._skipped: set[str] = set()
        self._selected: set[str] = set()  # of all that was collected now
        self._retries: dict[str, int] = {}  # of checks
        self._notices: dict[str, list[str]] = {}  # what is told, and of what
        self._earlier = plan.read(run.folder).keys() if continued else frozenset[str]()

    def select(self, nodes: Iterable[str]) -> None:
        """Know what was collected to be run, of a run that is continued."""
        if self._continued:
            self._selected |= set(map(sample_id, nodes))

    @cached_property
    def planned(self) -> dict[str, Planned]:
        """The run's plan, read when it is first needed."""
        try:
            return plan.read(self._run.folder, self._say)
        except UserError as error:
            self._say(str(error))
            return {}

    # From reports

    def note(self, report: pytest.TestReport) -> None:
        """Take a report in."""
        told = told_by(report)
        node = sample_id(report.nodeid)
        self._note_failure(report, node, told)
        if report.when == "teardown":
            self._note_end(node, told)
        if report.skipped:
            self._skipped.add(node)
        elif report.when == "call" or report.failed:
            self._checks[node] = not report.failed and self._checks.get(node, True)

    def recount(self, reports: Iterable[pytest.TestReport]) -> None:
        """Take all reports of the run in, of which some came before they were of use."""
        self.lost_reports = 0
        for report in sorted(reports, key=lambda report: report.start):
            self.note(report)

    def _note_end(self, node: str, told: Told) -> None:
        """What the last report of an item tells."""
        if "sample" in told:
            self.entries[node] = Entry.from_json(told["sample"])
        if "finding" in told:
            self.findings[node] = Finding.from_json(told["finding"])
        if "retries" in told and "sample" not in told:
            self._retries[node] = told["retries"]
        if "replayed" in told:
            self.replayed.add(node)
        if "trouble" in told:
            self._say(told["trouble"])
        for notice, of in told.get("notices", []):
            names = self._notices.setdefault(notice, [])
            if of not in names:
                names.append(of)

    def _note_failure(self, report: pytest.TestReport, node: str, told: Told) -> None:
        """Tell what is lost to infrastructure from what has failed."""
        if "group" in told:
            self._groups[node] = told["group"]
        if told.get("status") == "infra":
            self._lost[node] = told["detail"]
        elif self.died(report):
            self._lost[node] = "the worker process died while it ran this item"
        if told.get("status") == "infra" or self.died(report):
            self.lost_reports += report.failed and not hasattr(report, "wasxfail")
        if report.when == "setup":  # of another attempt, where items are run again
            self.entries.pop(node, None)
            if told.get("status") != "infra":
                self._lost.pop(node, None)

    def died(self, report: pytest.TestReport) -> bool:
        """Whether its process died before or in an item of ours."""
        if report.when != CRASHED:
            return False
        node = sample_id(report.nodeid)
        return node in self._groups or node in self.planned

    def ended(self, report: pytest.TestReport) -> bool:
        """Whether the item of this report had said all before."""
        return sample_id(report.nodeid) in self.entries

    @property
    def uses_ours(self) -> bool:
        """Whether any item used fixtures of ours."""
        return bool(self._groups)

    def heard_of(self, nodeid: str) -> bool:
        """Whether a report said whether the item passed."""
        return sample_id(nodeid) in self._checks.keys() | self._skipped

    # From the journals

    def complete(self) -> None:
        """Take in what the journals know, and note the lost items that did not get to say so."""
        told = self.entries
        written = self._written()
        self.entries = journal.samples(written)
        for node, entry in told.items():  # what a disk that took no more does not know
            if node not in written or written[node].rank < entry.rank:
                self.entries[node] = entry
        for node, detail in self._lost.items():
            if node not in told:
                self._note_lost(node, detail, written.get(node))
        places = {node: place for place, node in enumerate(self.planned)}
        in_order = sorted(
            self.entries, key=lambda node: (places.get(node, len(places)), lines.natural(node))
        )
        # Whatever became of the processes: sums of floats depend on their order.
        self.entries = {node: self.entries[node] for node in in_order}
        self._say_what_is_missing()
        self._say_what_was_left(told.keys() | self._lost.keys())

    def _written(self) -> dict[str, Entry]:
        folder = self._run.folder
        try:
            return journal.latest(folder, self._say) if journal.exists(folder) else {}
        except UserError as error:
            self._say(str(error))
            return {}

    def _note_lost(self, node: str, detail: str, known: Entry | None) -> None:
        if known is not None and known.finished:  # its process died before it could say so
            self.lost_reports -= known.failed(gated=self._gated)
            return
        entry = _lost(node, detail, self.planned.get(node), self._groups, known)
        self.entries[node] = entry
        try:
            journal.append(self._run.folder, self._run.worker, entry)
        except OSError as error:
            self._say(unwritable(self._run.folder, error))

    def _say_what_is_missing(self) -> None:
        if missing := self.missing:
            self._say(
                f"{missing} of {len(self.planned)} planned samples did not run; continue with "
                f"--cwsandbox-resume={self._run.id}"
            )
        kept = len(self.entries.keys() - self._selected) if self._continued else 0
        if kept:
            self._say(f"{kept} samples of the journal are not selected now; they are kept")

    def _say_what_was_left(self, samples: set[str]) -> None:
        """To do, of a run that is continued; ``samples`` are those that ran or were replayed."""
        if self._earlier and (new := len(self.planned.keys() - self._earlier)):
            self._say(f"{new} samples are new to the run: it had not planned them before")
        elif samples and samples == self.replayed and not self.missing:
            self._say(f"the run was complete: {len(samples)} samples replayed")

    @property
    def notices(self) -> list[str]:
        """Lines for people who wonder."""
        return [
            f"{notice}: {', '.join(of[:LISTED])}{', ...' * (len(of) > LISTED)}"
            for notice, of in self._notices.items()
        ]

    # The counts

    @property
    def missing(self) -> int:
        """How many samples did not run that were to."""
        ran = self.entries.keys() | self._checks.keys() | self._skipped
        return len(self.planned.keys() - ran)

    @property
    def ran(self) -> int:
        """How many items ran, or were skipped."""
        return len(self._checks.keys() | self._skipped)

    @property
    def lost(self) -> bool:
        """Whether any item was lost."""
        return bool(self._lost)

    @property
    def records(self) -> list[SampleRecord]:
        return [entry.record for entry in self.entries.values()]

    @property
    def checks(self) -> Checks:
        others = self._skipped | self.entries.keys()
        alone = [good for node, good in self._checks.items() if node not in others]
        return Checks(sum(alone), len(alone) - sum(alone))

    @property
    def retries(self) -> int:
        """Failures of the infrastructure that were made good, in samples and checks."""
        return sum(record.retries for record in self.records) + sum(self._retries.values())

    @property
    def unsaid(self) -> list[SampleRecord]:
        """The samples that pytest's own summary does not list as failures."""
        return [
            entry.record
            for entry in self.entries.values()
            if entry.ending != "failed" or (self._gated and entry.asserted)
        ]


def _lost(
    node: str,
    detail: str,
    planned: Planned | None,
    groups: Mapping[str, str],
    known: Entry | None,
) -> Entry:
    """The entry of a sample whose item did not get to say that it is lost."""
    group = groups.get(node) or plan.group_of(node)
    record = SampleRecord(
        id=node,
        group=planned.group if planned else group,
        problem=planned.problem if planned else "",
        sample=planned.sample if planned else 0,
        reward=None,
        verdict=Verdict.INFRASTRUCTURE_ERROR.value,
        detail=detail,
    )
    attempt = 1
    if known is not None:  # what has no reward was an earlier attempt
        attempt = known.attempt + (known.record.reward is None)
    return Entry(record, "lost", attempt)
