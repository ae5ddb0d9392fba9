"""The hooks that pytest calls per report, in the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.counting import told_by

if TYPE_CHECKING:
    from pytest_cwsandbox.counting import Counted


class ReportHooks:
    """Registered with the first use of the plugin."""

    def __init__(self, counted: Counted) -> None:
        self._counted = counted

    @pytest.hookimpl(tryfirst=True)  # as pytest's own counting, before anybody changes the report
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._counted.note(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        told = told_by(report)
        status = told.get("status", "")
        died = self._counted.died(report)
        if died and self._counted.ended(report):
            return "", "", ""  # nothing is lost
        if status == "infra" or died:
            return "infra", "I", "INFRA"
        if status == "low reward":
            return "low reward", "r", "LOW REWARD"
        if "replayed" in told and report.passed and report.when == "call":
            return "replayed", "p", "REPLAYED"
        return None
