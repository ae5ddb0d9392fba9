"""Progress while tests run: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pytest

from pytest_cwsandbox.items import runs_tests
from pytest_cwsandbox.reports.bottom_line import BottomLine
from pytest_cwsandbox.reports.live import Live
from pytest_cwsandbox.runs import plan
from pytest_cwsandbox.runs.redaction import sample_id

if TYPE_CHECKING:
    from collections.abc import Collection, Generator

    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.settings import Settings

LINE_SECONDS = 30.0

Result = Literal["passed", "low", "infra", "none"]


@dataclass(slots=True)
class Tally:
    """What became of the planned samples so far; ``none`` recorded no reward.

    ``replayed`` samples are done at once: they say nothing about how long the others take. Once it
    is ``stopping`` no more are run.
    """

    planned: Collection[str] = ()
    started: float = 0.0
    results: dict[str, Result] = field(default_factory=dict)
    replayed: set[str] = field(default_factory=set)
    stopping: bool = False

    def note(self, report: pytest.TestReport) -> bool:
        """Take a report in; whether it is the last of a planned sample."""
        node = sample_id(report.nodeid)
        if node not in self.planned:
            return False
        if report.when == "setup":  # perhaps of another attempt
            self.results.pop(node, None)
            return False
        if report.when == "call":
            return False
        text = getattr(report, "cwsandbox", None)
        told = json.loads(text) if text else {}
        # Any other phase than teardown is that of a worker that died.
        sample = told.get("sample") if report.when == "teardown" else {"reward": None}
        if "replayed" in told:
            self.replayed.add(node)
        if sample is None:
            self.results[node] = "none"
        elif sample["reward"] is None:
            self.results[node] = "infra"
        else:
            self.results[node] = "passed" if sample["reward"] >= 1 else "low"
        return True

    def line(self, now: float, sandboxes: int | None = None) -> str:
        """For people; ``sandboxes`` is how many are running, where that is known.

        None is not worth a word: between samples that use one for a moment there mostly is none.
        """
        results = list(self.results.values())
        done, passed = len(results), results.count("passed")
        rated = passed + results.count("low")
        rate = f"{passed / rated:.1%}" if rated else "-"
        parts = [f"{done}/{len(self.planned)} samples", f"pass rate {rate}"]
        parts.append(f"infra {results.count('infra')}")
        if sandboxes:
            parts.append(f"sandboxes {sandboxes}")
        ran, left = done - len(self.replayed), len(self.planned) - done
        if self.stopping:
            parts.append("stopping")
        elif ran > 0 and left > 0:
            parts.append(f"ETA {duration((now - self.started) / ran * left)}")
        return "cwsandbox: " + ", ".join(parts)


def duration(seconds: float) -> str:
    """Such as 45s, 2m05s, 1h02m."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


class Progress:
    """Registered in the controller with the first use of ours, and idle without samples."""

    def __init__(self, config: pytest.Config, settings: Settings, run: Run) -> None:
        self._config = config
        self._settings = settings
        self._run = run
        self._tally: Tally | None = None
        self._said = 0.0  # when the last plain line was
        self._live: Live | None = None

    @staticmethod
    def wanted(config: pytest.Config, settings: Settings) -> bool:
        """Whether there may be something to show."""
        if not runs_tests(config):
            return False
        loud = config.get_verbosity() > -2
        return settings.progress == "on" or (settings.progress == "auto" and loud)

    @pytest.hookimpl(trylast=True)  # below the terminal's own line
    def pytest_runtest_logstart(self) -> None:
        """Begin with the first test: by then the plan is written, by whichever process."""
        if self._tally is None:
            self._tally = self._begin(time.monotonic())

    def _begin(self, now: float) -> Tally:
        tally = Tally(plan.read(self._run.folder).keys(), now)
        say = self._terminal()
        if not tally.planned or say is None:
            return tally
        self._said = now - LINE_SECONDS if self._settings.progress == "on" else now
        if say.isatty() and os.environ.get("TERM", "dumb") != "dumb":
            descriptor = say._tw._file.fileno()  # noqa: SLF001 - pytest offers its file nowhere else
            line = BottomLine(descriptor, markup=say.hasmarkup)
            self._live = Live(line, tally.line, self._settings.backend_options, self._run)
        return tally

    @pytest.hookimpl(trylast=True)  # behind the terminal's own word
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        now = time.monotonic()
        if self._tally is None:  # whoever runs items again may not say that they start
            self._tally = self._begin(now)
        if not self._tally.note(report):
            return
        if self._live is not None:
            self._live.changed()
        elif now - self._said >= LINE_SECONDS:
            self._said = now
            self._say(self._tally.line(now))

    def _say(self, line: str) -> None:
        """Print a line between pytest's own, which go on as if it were not there."""
        say = self._terminal()
        if say is None:
            return
        writer = say._tw  # noqa: SLF001 - write_line breaks off a line of dots only without xdist
        if writer.width_of_current_line:
            writer.line()
        if say.showlongtestinfo and say.currentfspath:
            writer.write(line, flush=True)  # the next line begins with a newline
        else:
            writer.line(line)
            say.flush()

    def _terminal(self) -> pytest.TerminalReporter | None:
        found: pytest.TerminalReporter | None
        found = self._config.pluginmanager.getplugin("terminalreporter")
        return found

    def pytest_keyboard_interrupt(self) -> None:
        """Go on to show the line, as by pytest.exit too: fixtures are still to be torn down."""
        if self._tally is not None and self._live is not None:
            self._tally.stopping = True
            self._live.changed()

    @pytest.hookimpl(wrapper=True)  # outside of what is torn down, inside of the terminal's summary
    def pytest_sessionfinish(self) -> Generator[None, object, object]:
        if self._tally is None or not self._tally.stopping:
            self._end()
        try:
            return (yield)
        finally:
            self._end()

    def pytest_enter_pdb(self) -> None:
        if self._live is not None:
            self._live.pause()

    def pytest_leave_pdb(self) -> None:
        if self._live is not None:
            self._live.resume()

    def pytest_unconfigure(self) -> None:
        self._end()

    def _end(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
