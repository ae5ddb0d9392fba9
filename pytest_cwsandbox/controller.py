"""The controller's part: it counts reports, judges the run, writes its files and sweeps up."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

import pytest

from pytest_cwsandbox import backend, runner, tags
from pytest_cwsandbox.annotation import STOPPED
from pytest_cwsandbox.errors import HarnessError, UserError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.outcome import SampleRecord, Verdict
from pytest_cwsandbox.recording import runs_tests, unwritable
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.runs import journal, lines, plan, summary
from pytest_cwsandbox.runs.gate import INCONCLUSIVE, UNFINISHED, Decision
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.redaction import sample_id
from pytest_cwsandbox.runs.summary import Checks, summarise_run

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping, Sequence
    from pathlib import Path

    from xdist.workermanage import WorkerController

    from pytest_cwsandbox.gates import RunGates
    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.runs.lock import FolderLock
    from pytest_cwsandbox.runs.plan import Planned
    from pytest_cwsandbox.settings import Settings


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


CRASHED = "???"  # xdist's phase for the item that a dead worker was running


class Controller:
    """Registered in the controller only, under xdist as without it."""

    def __init__(
        self,
        settings: Settings,
        run: Run,
        gates: RunGates,
        lock: FolderLock,
        notes: Sequence[str] = (),
    ) -> None:
        """``lock`` is for the run's folder; ``notes`` are said at the end."""
        self._settings = settings
        self._lock = lock
        self._gates = gates
        self._run = run
        self._entries: dict[str, Entry] = {}
        self._groups: dict[str, str] = {}  # of the items that use fixtures of ours
        self._lost: dict[str, str] = {}  # node id: what of the infrastructure failed
        self._findings: dict[str, Finding] = {}
        self._checks: dict[str, bool] = {}  # node id: whether every phase passed
        self._skipped: set[str] = set()
        self._selected: set[str] = set()  # of all that was collected now
        self._retries: dict[str, int] = {}  # of checks
        self._replayed: set[str] = set()
        self._earlier = plan.read(run.folder).keys() if settings.resume else frozenset[str]()
        self._lost_reports = 0  # of the failures that pytest counts
        self._decision = Decision(missed=False, inconclusive=False, lines=())
        self._summary = summarise_run(run.id, ())
        self._swept: list[str] = []
        self._trouble = [*notes]
        self._page: Path | None = None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.begin([item.nodeid for item in session.items])

    def begin(self, nodes: Iterable[str]) -> None:
        """Know what is selected; keep others from continuing this run meanwhile."""
        self._selected |= set(map(sample_id, nodes))
        folder = self._run.folder
        if (folder / plan.PLAN).exists():
            try:
                self._lock.take(folder)
            except OSError as error:
                self._say(unwritable(folder, error))

    @cached_property
    def _planned(self) -> dict[str, Planned]:
        try:
            return plan.read(self._run.folder, self._say)
        except UserError as error:
            self._say(str(error))
            return {}

    # Counting

    @pytest.hookimpl(tryfirst=True)  # as pytest's own counting, before anybody changes the report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = told_by(report)
        self._note_failure(report, told)
        node = sample_id(report.nodeid)
        if report.when == "teardown":
            self._note(node, told)
        if report.skipped:
            self._skipped.add(node)
        elif report.when == "call" or report.failed:
            self._checks[node] = not report.failed and self._checks.get(node, True)

    def _note(self, node: str, told: Told) -> None:
        """What the last report of an item tells."""
        if "sample" in told:
            self._entries[node] = Entry.from_json(told["sample"])
        if "finding" in told:
            self._findings[node] = Finding.from_json(told["finding"])
        if "retries" in told and "sample" not in told:
            self._retries[node] = told["retries"]
        if "replayed" in told:
            self._replayed.add(node)
        if "trouble" in told:
            self._say(told["trouble"])

    def _note_failure(self, report: pytest.TestReport, told: Told) -> None:
        """Tell what is lost to infrastructure from what has failed."""
        node = sample_id(report.nodeid)
        if "group" in told:
            self._groups[node] = told["group"]
        if told.get("status") == "infra":
            self._lost[node] = told["detail"]
        elif self._died(report):
            self._lost[node] = "the worker process died while it ran this item"
        if told.get("status") == "infra" or self._died(report):
            self._lost_reports += report.failed and not hasattr(report, "wasxfail")
        if report.when == "setup":  # of another attempt, where items are run again
            self._entries.pop(node, None)
            if told.get("status") != "infra":
                self._lost.pop(node, None)

    def _died(self, report: pytest.TestReport) -> bool:
        """Whether its process died before or in an item of ours."""
        node = sample_id(report.nodeid)
        return report.when == CRASHED and (node in self._groups or node in self._planned)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        told = told_by(report)
        status = told.get("status", "")
        if self._died(report) and sample_id(report.nodeid) in self._entries:
            return "", "", ""  # it had ended: nothing is lost
        if status == "infra" or self._died(report):
            return "infra", "I", "INFRA"
        if status == "low reward":
            return "low reward", "r", "LOW REWARD"
        if "replayed" in told and report.passed and report.when == "call":
            return "replayed", "p", "REPLAYED"
        return None

    # The verdict

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        try:
            result = yield
        except pytest.UsageError:  # nothing ran
            raise
        except session.Failed:  # -x: the run ends as one that failed, and not with pytest's own 2
            self._conclude(session, finished=self._ran_all(session))
            raise
        except KeyboardInterrupt:  # xdist's word for -x too
            only_lost = session.shouldfail and self._only_lost(session)
            self._conclude(session, finished=bool(only_lost) and self._ran_all(session))
            if only_lost:
                raise session.Failed(session.shouldfail) from None
            raise
        except BaseException:
            self._conclude(session, finished=False)
            raise
        # Workers that died and were not replaced leave items without an exception.
        self._conclude(session, finished=not self._lost or self._ran_all(session))
        return result

    def _only_lost(self, session: pytest.Session) -> bool:
        """Whether all that pytest counts as failed, and so all plugins do, was lost."""
        return 0 < self._lost_reports == session.testsfailed

    def _ran_all(self, session: pytest.Session) -> bool:
        return len(self._checks.keys() | self._skipped) >= session.testscollected

    def _conclude(self, session: pytest.Session, *, finished: bool) -> None:
        if not runs_tests(session.config):
            self._entries.clear()
            return
        self._complete()
        self._judge(finished=finished and not self._missing)
        if self._decision.missed:
            session.testsfailed += 1  # pytest then ends with exit code 1

    def _complete(self) -> None:
        """Take in what the journals know, and note the lost items that did not get to say so."""
        folder = self._run.folder
        try:
            written = journal.latest(folder, self._say) if journal.exists(folder) else {}
        except UserError as error:
            written = {}
            self._say(str(error))
        planned = self._planned
        told = self._entries
        self._entries = journal.samples(written)
        for node, entry in told.items():  # what a disk that took no more does not know
            if node not in written or written[node].rank < entry.rank:
                self._entries[node] = entry
        for node, detail in self._lost.items():
            if node in told:
                continue
            known = written.get(node)
            if known is not None and known.finished:  # its process died before it could say so
                self._lost_reports -= known.failed(gated=self._settings.gated)
            else:
                entry = _lost(node, detail, planned.get(node), self._groups, known)
                self._entries[node] = entry
                try:
                    journal.append(folder, self._run.worker, entry)
                except OSError as error:
                    self._say(unwritable(folder, error))
        places = {node: place for place, node in enumerate(planned)}
        in_order = sorted(
            self._entries,
            key=lambda node: (places.get(node, len(places)), lines.natural(node)),
        )
        # Whatever became of the processes: sums of floats depend on their order.
        self._entries = {node: self._entries[node] for node in in_order}
        self._say_what_is_missing()
        self._say_what_was_left(told.keys() | self._lost.keys())

    @property
    def _missing(self) -> int:
        """How many samples did not run that were to."""
        ran = self._entries.keys() | self._checks.keys() | self._skipped
        return len(self._planned.keys() - ran)

    def _say_what_is_missing(self) -> None:
        planned = self._planned.keys()
        if missing := self._missing:
            self._say(
                f"{missing} of {len(planned)} planned samples did not run; continue with "
                f"--cwsandbox-resume={self._run.id}"
            )
        kept = len(self._entries.keys() - self._selected)
        if kept and self._settings.resume:
            self._say(f"{kept} samples of the journal are not selected now; they are kept")

    def _say_what_was_left(self, samples: set[str]) -> None:
        """To do, of a run that is continued; ``samples`` are those that ran or were replayed."""
        if self._earlier and (new := len(self._planned.keys() - self._earlier)):
            self._say(f"{new} samples are new to the run: it had not planned them before")
        elif samples and samples == self._replayed:
            self._say(f"the run was complete: {len(samples)} samples replayed")

    def _judge(self, *, finished: bool) -> None:
        records = [entry.record for entry in self._entries.values()]
        settings = self._settings
        self._summary = summarise_run(
            self._run.id,
            records,
            keys=settings.group_by,
            ks=settings.pass_k,
            checks=self._checks_alone(),
            planned=len(self._planned.keys() | self._entries.keys()) if self._planned else 0,
            retries=sum(record.retries for record in records) + sum(self._retries.values()),
        )
        if not records and not settings.gated:
            return
        if finished:
            groups = {planned.group for planned in self._planned.values()}
            self._decision, compared = self._gates.judge(self._summary, records, groups)
        else:
            self._decision, compared = UNFINISHED, None
        decision = self._decision
        self._summary = replace(
            self._summary,
            gates=decision.lines,
            verdict=decision.word,
            judged=decision.judged,
            comparison=compared,
        )

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost: before the terminal's summary
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        self.sweep([tags.run_tag(self._run.id)])
        if not runs_tests(session.config):
            return result
        failed = session.exitstatus == pytest.ExitCode.TESTS_FAILED
        if (failed and self._only_lost(session)) or session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = INCONCLUSIVE if self._decision.inconclusive else 0
        try:
            self._write(int(session.exitstatus))
        except OSError as error:
            self._say(unwritable(self._run.folder, error))
        self._summarise_step(int(session.exitstatus))
        return result

    def _write(self, exit_status: int) -> None:
        if exit_status == pytest.ExitCode.USAGE_ERROR:
            return  # a run that cannot be continued with these problems stays as it was
        if not self._entries and not self._findings:
            return
        folder = self._run.folder
        journal.merge(folder, self._entries.values())
        if self._findings:
            summary.write_findings(folder, self._findings.values())
        summary.write(folder, self._summary)
        if self._entries:
            self._write_page(exit_status)

    def _write_page(self, exit_status: int) -> None:
        """The report for people; a run is worth its exit code without one too."""
        from pytest_cwsandbox.reports import html

        try:
            self._page = html.write_report(self._run.folder, exit_status=exit_status)
        except (OSError, UserError) as error:
            self._say(f"{html.REPORT} could not be written: {error}")
        except Exception as error:  # noqa: BLE001 - whatever a page fails at, the verdict stands
            self._say(f"{html.REPORT} could not be written: {_bug(error)}")

    def _summarise_step(self, exit_status: int) -> None:
        from pytest_cwsandbox.reports import github

        try:
            github.step_summary(
                os.environ,
                self._summary,
                [entry.record for entry in self._entries.values()],
                list(self._findings.values()),
                folder=self._run.folder,
                reward=self._settings.reward,
                exit_status=exit_status,
            )
        except OSError as error:
            self._say(f"{github.VARIABLE}: {error.filename} cannot be written: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - as for the page
            self._say(f"{github.VARIABLE}: nothing could be written: {_bug(error)}")

    def _checks_alone(self) -> Checks:
        others = self._skipped | self._entries.keys()
        alone = [good for node, good in self._checks.items() if node not in others]
        return Checks(sum(alone), len(alone) - sum(alone))

    def _say(self, line: str) -> None:
        if line not in self._trouble:
            self._trouble.append(line)

    # What people see

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_cwsandbox.reports import sections

        if self._entries or self._decision.lines:
            sections.rates(
                terminalreporter,
                self._summary,
                [entry.record for entry in self._entries.values()],
                self._run.folder,
                unsaid=self._unsaid(),
                replayed=len(self._replayed),
                page=self._page,
            )
        if self._findings:
            sections.validation_of(
                terminalreporter, self._settings.reward, list(self._findings.values())
            )
        sections.compared(terminalreporter, self._summary.comparison)
        sections.verdict(terminalreporter, self._decision.lines)
        sections.trouble(terminalreporter, self._swept, self._trouble)

    def _unsaid(self) -> list[SampleRecord]:
        """The samples that pytest's own summary does not list as failures."""
        gated = self._settings.gated
        return [
            entry.record
            for entry in self._entries.values()
            if entry.ending != "failed" or (gated and entry.asserted)
        ]

    # The end

    def sweep(self, wanted: list[str]) -> None:
        """Remove sandboxes with these tags that nobody removed, if the run had any at all."""
        try:
            if not backend.used(self._run.folder):
                return
            self._swept += backend.sweep(self._settings.backend_options, self._run.folder, wanted)
        except HarnessError as error:
            self._trouble.append(str(error))

    def pytest_unconfigure(self) -> None:
        backend.forget(self._run.folder)
        if self._run.folder.is_dir():
            (self._run.folder / STOPPED).unlink(missing_ok=True)
        scripted.stop(self._run.folder)
        runner.stop(self._run.folder)


class XdistHooks:
    """Registered in the controller when xdist is there."""

    def __init__(self, controller: Controller, run: Run) -> None:
        self._controller = controller
        self._run = run

    def pytest_configure_node(self, node: WorkerController) -> None:
        self._run.tell(node.workerinput)

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._controller.begin(ids)

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error:
            worker = node.workerinput["workerid"]
            self._controller.sweep([tags.run_tag(self._run.id), tags.worker_tag(worker)])


def _bug(error: Exception) -> str:
    """What to say of an error of ours that must not cost a run its verdict."""
    what = f"{type(error).__name__}: {error}"
    return f"{what}; please report it; `pytest-cwsandbox report` shows it again"


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


def told_by(report: pytest.TestReport) -> Told:
    """What ``annotation.annotate`` put on the report."""
    text = getattr(report, "cwsandbox", None)
    return json.loads(text) if text else {}
