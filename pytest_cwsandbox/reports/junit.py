"""What a sample is worth, as properties of its test case in the file of ``--junitxml``.

pytest writes what a report carries in ``user_properties``; under xdist it travels with the report.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import recording
from pytest_cwsandbox.runs.redaction import redact_text

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.settings import Settings


class Junit:
    """Registered in every process of a run that writes such a file."""

    @staticmethod
    def wanted(config: pytest.Config, settings: Settings) -> bool:
        return settings.junit_properties and bool(config.getoption("xmlpath", None))

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # outermost: what became of the item is known
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        # pytest takes those of the teardown; where that fails too, of each a test case of its own.
        if call.when != "setup" and (entry := recording.entry_of(item)):
            report.user_properties.extend(properties(entry.record))
        return report


def forget(config: pytest.Config, workers: Collection[object]) -> None:
    """Leave out the test cases that these workers began and that others ran from the start."""
    for plugin in config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "LogXML" and hasattr(plugin, "node_reporters_ordered"):
            begun = [key for key in plugin.node_reporters if key[1] in workers]
            for key in begun:
                plugin.node_reporters_ordered.remove(plugin.node_reporters.pop(key))


def properties(record: SampleRecord) -> list[tuple[str, object]]:
    """By name; what is empty is left out, so that a sample without a reward has none here."""
    values = {
        **record.metadata,
        "group": record.group,
        "problem": record.problem,
        "sample": str(record.sample),
        "reward": "" if record.reward is None else f"{record.reward:g}",
        "verdict": record.verdict,
        "detail": record.detail,
    }
    return [(_name(name), _value(value)) for name, value in values.items() if value]


def _name(name: str) -> str:
    """A name without secrets as it may stand in XML: pytest sees to that for values only."""
    return "".join(letter if letter.isprintable() else "?" for letter in redact_text(name))


def _value(value: str) -> str:
    """A value without secrets that xdist can send: half of a surrogate pair it cannot."""
    return redact_text(value).encode("utf-8", "backslashreplace").decode()
