"""A plugin of the runs inside tests: writes down all that they report, as JSON.

Loaded with ``-p observer``; in xdist's workers it tells only how many coroutines were under way.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import warnings
    from collections.abc import Generator

FOLDER = "OBSERVED"  # the environment's name for where to write


class Observer:
    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.events: list[list[str]] = []
        self.items: dict[str, list[dict[str, Any]]] = {}
        self.warnings: dict[str, list[list[str]]] = {}

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.events.append(["start", nodeid])

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.events.append(["finish", nodeid])

    @pytest.hookimpl(tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[object]) -> None:
        if not fixturedef.func.__module__.startswith(("_pytest", "pytest_")):
            self.events.append(["set up", fixturedef.argname])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.events.append([report.when, report.nodeid])
        seen = {
            "when": report.when,
            "outcome": report.outcome,
            "xfail": getattr(report, "wasxfail", None),
            "error": report.longreprtext,
            "sections": [list(section) for section in report.sections],
            "properties": [list(pair) for pair in report.user_properties],
            "keywords": sorted(report.keywords),
            "location": list(report.location),
            "told": getattr(report, "cwsandbox", None),
            "subtest": getattr(getattr(report, "context", None), "msg", None),
        }
        self.items.setdefault(report.nodeid, []).append(seen)

    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        seen = [when, warning_message.category.__name__, str(warning_message.message)]
        self.warnings.setdefault(nodeid, []).append(seen)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self) -> Generator[None]:
        yield
        terminal = self.config.pluginmanager.get_plugin("terminalreporter")
        assert terminal is not None
        seen = {
            "events": self.events,
            "items": self.items,
            "warnings": self.warnings,
            "counts": {name: len(reports) for name, reports in terminal.stats.items() if name},
        }
        Path(os.environ[FOLDER], "seen.json").write_text(json.dumps(seen))


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Observer(config), "observes")


def pytest_unconfigure() -> None:
    pace = sys.modules.get("pace")
    if pace is not None:  # the project's module, where this process imported it
        Path(os.environ[FOLDER], f"most-{os.getpid()}").write_text(str(pace.most))
