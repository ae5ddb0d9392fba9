"""The controller's part: it counts reports, judges the run, writes its files and sweeps up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import pytest

from pytest_cwsandbox import backend, runner, tags
from pytest_cwsandbox.errors import HarnessError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.outcome import SampleRecord, Verdict
from pytest_cwsandbox.recording import STOPPED
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.runs.gate import INCONCLUSIVE, Decision, decide
from pytest_cwsandbox.runs.statistics import by_group, summarise

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.workermanage import WorkerController

    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.settings import Settings


class Told(TypedDict):
    """The JSON on a report; see ``recording.annotate``."""

    status: str
    group: str
    detail: str
    sample: dict[str, object] | None
    finding: dict[str, object] | None


CRASHED = "???"  # xdist's phase for the item that a dead worker was running


class Controller:
    """Registered in the controller only, under xdist as without it."""

    def __init__(self, settings: Settings, run: Run) -> None:
        self._settings = settings
        self._run = run
        self._samples: dict[str, SampleRecord] = {}
        self._groups: dict[str, str] = {}  # of the items that use fixtures of ours
        self._lost: dict[str, str] = {}  # node id: what of the infrastructure failed
        self._findings: dict[str, Finding] = {}
        self._checks: dict[str, bool] = {}  # node id: whether every phase passed
        self._skipped: set[str] = set()
        self._failed = False  # something failed that is neither infrastructure nor data
        self._decision = Decision(missed=False, inconclusive=False, lines=())
        self._swept: list[str] = []
        self._trouble: list[str] = []

    # Counting

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        told = told_by(report)
        self._note_failure(report, told)
        node = report.nodeid
        if report.when == "teardown" and told["sample"]:
            self._samples[node] = SampleRecord.from_json(told["sample"])
        if report.when == "teardown" and told["finding"]:
            self._findings[node] = Finding.from_json(told["finding"])
        if report.skipped:
            self._skipped.add(node)
        elif report.when == "call" or report.failed:
            self._checks[node] = not report.failed and self._checks.get(node, True)

    def _note_failure(self, report: pytest.TestReport, told: Told) -> None:
        """Tell what is lost to infrastructure from what has failed."""
        node = report.nodeid
        if told["group"]:
            self._groups[node] = told["group"]
        if told["status"] == "infra":
            self._lost[node] = told["detail"]
        elif report.when == CRASHED and node in self._groups:
            self._lost[node] = "the worker process died while it ran this item"
        elif report.failed:
            self._failed = True
        if report.when == "setup":  # of another attempt, where items are run again
            self._samples.pop(node, None)
            if told["status"] != "infra":
                self._lost.pop(node, None)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        status = told_by(report)["status"]
        if status == "infra" or (report.when == CRASHED and report.nodeid in self._groups):
            return "infra", "I", "INFRA"
        if status == "low reward":
            return "low reward", "r", "LOW REWARD"
        return None

    def _complete(self) -> None:
        """Make records of the lost items that did not get to send one."""
        for node, detail in self._lost.items():
            if node not in self._samples:
                function = node.rpartition("::")[2].partition("[")[0]
                self._samples[node] = SampleRecord(
                    id=node,
                    group=self._groups.get(
                        node, f"{Path(node.partition('::')[0]).stem}/{function}"
                    ),
                    problem="",
                    sample=0,
                    reward=None,
                    verdict=Verdict.INFRASTRUCTURE_ERROR.value,
                    detail=detail,
                )

    # The verdict

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        try:
            return (yield)
        finally:
            self._complete()
            records = list(self._samples.values())
            if records or (self._settings.gated and _runs_tests(session.config)):
                self._decision = decide(
                    summarise("all", records),
                    min_pass_rate=self._settings.min_pass_rate,
                    max_infra_rate=self._settings.max_infra_rate,
                )
            if self._decision.missed:
                session.testsfailed += 1  # pytest then ends with exit code 1

    @pytest.hookimpl(wrapper=True, trylast=True)  # innermost: before the terminal's summary
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        only_lost = session.exitstatus == pytest.ExitCode.TESTS_FAILED and not (
            self._failed or self._decision.missed
        )
        if only_lost or session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = INCONCLUSIVE if self._decision.inconclusive else 0
        self.sweep([tags.run_tag(self._run.id)])
        try:
            self._write()
        except OSError as error:
            self._trouble.append(
                f"the results could not be written to {self._run.folder}: {error.strerror}; "
                "choose another folder with --cwsandbox-report-dir"
            )
        return result

    def _write(self) -> None:
        if not self._samples:
            return
        records = sorted(self._samples.values(), key=lambda record: record.id)
        folder = self._run.folder
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "samples.jsonl").open("w") as file:
            file.writelines(json.dumps(record.to_json()) + "\n" for record in records)
        checks = self._checks_alone()
        summary = {
            "run": self._run.id,
            "groups": [group.to_json() for group in by_group(records)],
            "all": summarise("all", records).to_json(),
            "checks": {"passed": sum(checks), "failed": len(checks) - sum(checks)},
            "gates": list(self._decision.lines),
        }
        (folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")

    def _checks_alone(self) -> list[bool]:
        others = self._skipped | self._samples.keys()
        return [good for node, good in self._checks.items() if node not in others]

    # What people see

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        say = terminalreporter
        if self._samples or self._decision.lines:
            say.section("cwsandbox pass rates")
        if self._samples:
            self._rates(say)
        if self._findings:
            self._validation(say)
        for line in self._decision.lines:
            bad = line.endswith(("MISSED", "INCONCLUSIVE", "not judged"))
            say.write_line(line, red=bad, green=not bad)
        if self._swept:
            say.write_line(
                f"cwsandbox: removed {len(self._swept)} sandboxes that were left over: "
                + ", ".join(self._swept[:5])
                + (", ..." if len(self._swept) > 5 else ""),
                yellow=True,
            )
        for line in self._trouble:
            say.write_line(f"cwsandbox: {line}", yellow=True)

    def _validation(self, say: pytest.TerminalReporter) -> None:
        from pytest_cwsandbox.reports import validation

        findings = list(self._findings.values())
        say.section("reward validation")
        width = say._tw.fullwidth  # noqa: SLF001 - as above
        say.write_line(validation.table(findings, width=width, color=say.hasmarkup))
        for line in [*validation.exploits(findings), *validation.complaints(findings)]:
            say.write_line(line, red=True)
        for line in [*validation.survivors(findings), *validation.costs(findings)]:
            say.write_line(line)
        ready, line = validation.verdict(self._settings.reward, findings)
        say.write_line(line, green=ready, red=not ready, bold=True)

    def _rates(self, say: pytest.TerminalReporter) -> None:
        from pytest_cwsandbox.reports import terminal

        records = list(self._samples.values())
        groups = by_group(records)
        width = say._tw.fullwidth  # noqa: SLF001 - pytest offers the width of its terminal nowhere else
        say.write_line(
            terminal.table(groups, summarise("all", records), width=width, color=say.hasmarkup)
        )
        if counted := terminal.verdicts(groups):
            say.write_line(f"verdicts: {counted}")
        for line in terminal.models(records):
            say.write_line(line)
        for line in terminal.low_rewards(records):
            say.write_line(line)
        for line in terminal.losses(records):
            say.write_line(line, yellow=True)
        checks = self._checks_alone()
        say.write_line(f"checks: {sum(checks)} passed, {len(checks) - sum(checks)} failed")
        say.write_line(f"results: {_from_here(self._run.folder)}")

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

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        if error:
            worker = node.workerinput["workerid"]
            self._controller.sweep([tags.run_tag(self._run.id), tags.worker_tag(worker)])


def _runs_tests(config: pytest.Config) -> bool:
    """Whether this run is for running tests, and not only for showing what it would do."""
    option = config.option
    return not (option.collectonly or option.setuponly or option.setupplan)


def _from_here(path: Path) -> Path:
    """The path as people type it where they are."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


NOTHING: Told = {"status": "", "group": "", "detail": "", "sample": None, "finding": None}


def told_by(report: pytest.TestReport) -> Told:
    """What ``recording.annotate`` put on the report."""
    text = getattr(report, "cwsandbox", None)
    return json.loads(text) if text else NOTHING
