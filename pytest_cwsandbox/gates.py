"""The gates of a run: what they are compared with, and whether the groups they name are there."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.items import runs_tests
from pytest_cwsandbox.runs import baseline, journal, plan
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.gate import decide

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterable, Sequence

    from xdist.workermanage import WorkerController

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.baseline import Baseline
    from pytest_cwsandbox.runs.comparison import Comparison
    from pytest_cwsandbox.runs.gate import Decision
    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.runs.summary import Summary
    from pytest_cwsandbox.settings import Settings


class RunGates:
    """Registered in the controller."""

    def __init__(self, settings: Settings, run: Run, earlier: Baseline | None) -> None:
        self._settings = settings
        self._run = run
        self._baseline = earlier
        self._broken = False  # a file that could not be collected may hold the group

    @classmethod
    def of(cls, config: pytest.Config, settings: Settings, run: Run) -> Self:
        """Read the baseline, before anything runs; raises ``pytest.UsageError`` if that fails."""
        if settings.baseline is None or config.option.help or not runs_tests(config):
            return cls(settings, run, None)
        try:
            return cls(settings, run, baseline.read(settings.baseline))
        except UserError as error:
            raise pytest.UsageError(f"--cwsandbox-baseline: {error}") from error

    # Groups that are not there

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._broken = self._broken or report.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        if session.items and runs_tests(session.config):  # xdist's controller has none
            self._check([item.nodeid for item in session.items])
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(
        self, node: WorkerController, ids: Sequence[str]
    ) -> None:
        if node.workerinput["workerid"] == "gw0":  # which wrote the plan before it said so
            self._check(ids)

    def _check(self, ids: Iterable[str]) -> None:
        """Raise ``pytest.UsageError`` for a group on the command line that no item belongs to."""
        if self._broken:
            return
        planned = {planned.group for planned in plan.read(self._run.folder).values()}
        if journal.exists(self._run.folder):  # of a run that is continued
            earlier = journal.read(self._run.folder, lambda _: None)
            planned |= {entry.record.group for entry in earlier.values()}
        # An item may also record a reward through a fixture that it asks for as it runs.
        known = planned | {plan.group_of(name) for name in ids}
        gates = self._settings.gates
        for option, thresholds in (
            ("--cwsandbox-min-pass-rate", gates.pass_rate),
            ("--cwsandbox-min-pass-rate-lower", gates.pass_rate_lower),
        ):
            unknown = [name for name in thresholds.groups if name not in known]
            if unknown and not thresholds.lenient:
                there = f"its groups are {', '.join(sorted(planned))}" if planned else "it has none"
                raise pytest.UsageError(f'{option}: this run has no group "{unknown[0]}": {there}')

    # The verdict

    def judge(
        self, summary: Summary, records: Sequence[SampleRecord], collected: Collection[str]
    ) -> tuple[Decision, Comparison | None]:
        """The verdict of the run, and the comparison with its baseline.

        ``collected`` are the groups of the samples that were to run.
        """
        compared = None
        if self._baseline is not None:
            names = (os.path.relpath(str(self._settings.baseline)), self._run.id)
            compared = compare(self._baseline.records, records, names=names)
        gates = self._settings.gates
        return decide(summary.groups, summary.pooled, gates, compared, collected), compared
