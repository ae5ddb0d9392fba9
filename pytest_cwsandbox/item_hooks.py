"""The hooks that pytest calls per item and collected object, in the processes that run tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import annotation, parametrize, recording
from pytest_cwsandbox.counting import told_by
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Generator


class ItemHooks:
    """Registered with the first use of the plugin."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_pycollect_makeitem(self, collector: pytest.Collector, obj: object) -> None:
        """Let pytest-asyncio run coroutine tests of ours in its strict mode too."""
        if collector.config.pluginmanager.hasplugin("asyncio"):
            parametrize.mark_coroutine(collector, obj)

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        parametrize.parametrize(metafunc, metafunc.config.stash[SETTINGS])

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        recording.begin(item)

    @pytest.hookimpl(tryfirst=True)  # pytest would fail the item of a failed subtest
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        lost = report.passed and told_by(report).get("status") == "subtest lost"
        return ("", "", "") if lost else None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        annotation.annotate(item, call, report, gated=item.config.stash[SETTINGS].gated)
        return report
