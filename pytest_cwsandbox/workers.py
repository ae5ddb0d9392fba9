"""The workers of xdist, for the controller: what they are told, how they are fed, how they die."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import allowance, processes, tags
from pytest_cwsandbox.reports import junit
from pytest_cwsandbox.shares import Share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.remote import Producer
    from xdist.scheduler import Scheduling
    from xdist.workermanage import WorkerController

    from pytest_cwsandbox.controller import Controller
    from pytest_cwsandbox.runs.identity import Run


class XdistHooks:
    """Registered in the controller when xdist is there.

    A worker that dies while it runs ahead takes many items with it, and xdist blames the one that
    was to be reported next. Here nobody is blamed: xdist starts a replacement, which runs tests in
    order, and there the item that kills its process is the one that xdist names.
    """

    def __init__(
        self, config: pytest.Config, controller: Controller, run: Run, share: Share
    ) -> None:
        self._config = config
        self._controller = controller
        self._run = run
        self._share = share
        self._deaths = 0
        self._excused: list[WorkerController] = []

    def pytest_configure_node(self, node: WorkerController) -> None:
        elsewhere = processes.is_elsewhere(self._config, node.gateway.spec)
        self._controller.has_workers_elsewhere |= elsewhere
        self._run.tell(node.workerinput, elsewhere=elsewhere)
        # xdist makes all its workers before any can die: later ones are replacements.
        share = replace(self._share, in_flight=1) if self._deaths else self._share
        share.tell(node.workerinput)

    @pytest.hookimpl(trylast=True)  # a project's own scheduler is worth more, xdist's less
    def pytest_xdist_make_scheduler(
        self, config: pytest.Config, log: Producer
    ) -> Scheduling | None:
        if config.option.dist != "load" or self._share.in_flight == 1:
            return None
        from pytest_cwsandbox.scheduling import DeepScheduling

        return DeepScheduling(config, log, self._replaced)

    @pytest.hookimpl(tryfirst=True)
    def pytest_xdist_node_collection_finished(self, ids: Sequence[str]) -> None:
        self._controller.begin(ids)

    def pytest_testnodedown(self, node: WorkerController, error: object) -> None:
        allowance.hear(self._config, getattr(node, "workeroutput", {}))
        if error:
            self._deaths += 1
            worker = node.workerinput["workerid"]
            self._controller.sweep([tags.run_tag(self._run.id), tags.worker_tag(worker)])

    def _replaced(self) -> bool:
        """Whether the worker that has just died gets a replacement."""
        from xdist.dsession import get_default_max_worker_restart

        most: int | None = get_default_max_worker_restart(self._config)
        return most is None or self._deaths <= most

    @pytest.hookimpl(trylast=True)
    def pytest_handlecrashitem(
        self, crashitem: str, report: pytest.TestReport, sched: Scheduling
    ) -> None:
        node: WorkerController = report.node
        ran_ahead = Share.from_controller(node.workerinput).in_flight > 1
        left_by_itself = hasattr(node, "workeroutput")  # by pytest.exit, say: the item did that
        if not ran_ahead or left_by_itself:
            return
        if self._controller.heard_of(crashitem) or not self._replaced():
            return
        outcome: str = report.outcome
        if outcome != "rerun" and not _run_again(sched, crashitem):  # by a plugin for reruns
            return
        self._excused.append(node)
        # As little as a report can say to pytest, to us, and to whoever else listens.
        report.when, report.outcome, report.longrepr = "setup", "passed", None
        report.cwsandbox = json.dumps({"status": "requeued"})  # type: ignore[attr-defined]  # as in annotation
        self._controller.say(
            f"worker {node.workerinput['workerid']} died with up to {self._share.in_flight} tests "
            "under way: those that it had not finished ran again, one at a time"
        )

    @pytest.hookimpl(tryfirst=True)  # before the file is written
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        junit.forget(session.config, self._excused)


def _run_again(sched: Scheduling, item: str) -> bool:
    """Have a scheduler run an item again; whether it does."""
    if hasattr(sched, "workqueue"):  # those by scope have put it back themselves
        return True
    try:
        sched.mark_test_pending(item)
    except NotImplementedError:  # as in --dist=each
        return False
    return True
