"""The controller's part: it counts reports, judges the run, writes its files and sweeps up."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import allowance, backend, runner, tags
from pytest_cwsandbox.annotation import STOPPED
from pytest_cwsandbox.counting import Counted
from pytest_cwsandbox.errors import HarnessError, UserError
from pytest_cwsandbox.first_use import FIRST_USE
from pytest_cwsandbox.items import runs_tests
from pytest_cwsandbox.recording import unwritable
from pytest_cwsandbox.report_hooks import ReportHooks
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.runs import journal, plan, summary
from pytest_cwsandbox.runs.gate import INCONCLUSIVE, UNFINISHED, Decision
from pytest_cwsandbox.runs.summary import summarise_run

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence
    from pathlib import Path

    from pytest_cwsandbox.gates import RunGates
    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.runs.lock import FolderLock
    from pytest_cwsandbox.settings import Settings


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
        self._decision = Decision(missed=False, inconclusive=False, lines=())
        self._summary = summarise_run(run.id, ())
        self._swept: list[str] = []
        self._trouble = [*notes]
        self._counted = Counted(
            run, gated=settings.gated, continued=bool(settings.resume), say=self.say
        )
        self.reports = ReportHooks(self._counted)
        self._page: Path | None = None
        self.has_workers_elsewhere = False

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.begin([item.nodeid for item in session.items])

    def begin(self, nodes: Iterable[str]) -> None:
        """Know what is selected; keep others from continuing this run meanwhile."""
        self._counted.select(nodes)
        folder = self._run.folder
        if (folder / plan.PLAN).exists():
            try:
                self._lock.take(folder)
            except OSError as error:
                self.say(unwritable(folder, error))

    # Counting

    def heard_of(self, nodeid: str) -> bool:
        """Whether an item has said whether it passed."""
        return self._counted.heard_of(nodeid)

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
        self._conclude(session, finished=not self._counted.lost or self._ran_all(session))
        return result

    def _only_lost(self, session: pytest.Session) -> bool:
        """Whether all that pytest counts as failed, and so all plugins do, was lost."""
        return 0 < self._counted.lost_reports == session.testsfailed

    def _ran_all(self, session: pytest.Session) -> bool:
        return self._counted.ran >= session.testscollected

    def _conclude(self, session: pytest.Session, *, finished: bool) -> None:
        if not runs_tests(session.config):
            self._counted.entries.clear()
            return
        first_use = session.config.stash[FIRST_USE]
        first_use.listen(late=True)
        if first_use.late:
            self._counted.recount(_reports_of(session.config))
        self._counted.complete()
        self._judge(finished=finished and not self._counted.missing)
        if self._decision.missed:
            session.testsfailed += 1  # pytest then ends with exit code 1

    def _judge(self, *, finished: bool) -> None:
        counted, settings = self._counted, self._settings
        records, planned = counted.records, counted.planned
        self._summary = summarise_run(
            self._run.id,
            records,
            keys=settings.group_by,
            ks=settings.pass_k,
            checks=counted.checks,
            planned=len(planned.keys() | counted.entries.keys()) if planned else 0,
            retries=counted.retries,
        )
        if not records and not settings.gated:
            return
        if finished:
            groups = {sample.group for sample in planned.values()}
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
            self.say(unwritable(self._run.folder, error))
        self._summarise_step(int(session.exitstatus))
        return result

    def _write(self, exit_status: int) -> None:
        if exit_status == pytest.ExitCode.USAGE_ERROR:
            return  # a run that cannot be continued with these problems stays as it was
        entries, findings = self._counted.entries, self._counted.findings
        if not entries and not findings:
            return
        folder = self._run.folder
        journal.merge(folder, entries.values())
        if findings:
            summary.write_findings(folder, findings.values())
        summary.write(folder, self._summary)
        if entries:
            self._write_page(exit_status)

    def _write_page(self, exit_status: int) -> None:
        """The report for people; a run is worth its exit code without one too."""
        from pytest_cwsandbox.reports import html

        try:
            self._page = html.write_report(self._run.folder, exit_status=exit_status)
        except (OSError, UserError) as error:
            self.say(f"{html.REPORT} could not be written: {error}")
        except Exception as error:  # noqa: BLE001 - whatever a page fails at, the verdict stands
            self.say(f"{html.REPORT} could not be written: {_bug(error)}")

    def _summarise_step(self, exit_status: int) -> None:
        if "GITHUB_STEP_SUMMARY" not in os.environ:
            return
        from pytest_cwsandbox.reports import github

        try:
            github.step_summary(
                os.environ,
                self._summary,
                self._counted.records,
                list(self._counted.findings.values()),
                folder=self._run.folder,
                reward=self._settings.reward,
                exit_status=exit_status,
            )
        except OSError as error:
            self.say(f"{github.VARIABLE}: {error.filename} cannot be written: {error.strerror}")
        except Exception as error:  # noqa: BLE001 - as for the page
            self.say(f"{github.VARIABLE}: nothing could be written: {_bug(error)}")

    def say(self, line: str) -> None:
        """Tell people at the end."""
        if line not in self._trouble:
            self._trouble.append(line)

    # What people see

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        from pytest_cwsandbox.reports import sections

        counted = self._counted
        if counted.entries or self._decision.lines:
            sections.rates(
                terminalreporter,
                self._summary,
                counted.records,
                self._run.folder,
                unsaid=counted.unsaid,
                replayed=len(counted.replayed),
                page=self._page,
            )
        if counted.findings:
            sections.validation_of(
                terminalreporter, self._settings.reward, list(counted.findings.values())
            )
        sections.compared(terminalreporter, self._summary.comparison)
        sections.sandboxes(terminalreporter, allowance.said(terminalreporter.config))
        sections.verdict(terminalreporter, self._decision.lines)
        sections.trouble(terminalreporter, self._swept, [*counted.notices, *self._trouble])

    # The end

    def sweep(self, wanted: list[str]) -> None:
        """Remove sandboxes with these tags that nobody removed, if the run had any at all."""
        try:
            unseen = self.has_workers_elsewhere and self._counted.uses_ours
            if not (backend.used(self._run.folder) or unseen):
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


def _reports_of(config: pytest.Config) -> Iterator[pytest.TestReport]:
    """Those that the terminal keeps, for its own summary."""
    terminal = config.pluginmanager.getplugin("terminalreporter")
    for kept in terminal.stats.values() if terminal else ():
        yield from (report for report in kept if isinstance(report, pytest.TestReport))


def _bug(error: Exception) -> str:
    """What to say of an error of ours that must not cost a run its verdict."""
    what = f"{type(error).__name__}: {error}"
    return f"{what}; please report it; `pytest-cwsandbox report` shows it again"
