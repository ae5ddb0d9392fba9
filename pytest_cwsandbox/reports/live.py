"""The threads behind the live line: one draws it, one asks how many sandboxes are running."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from pytest_cwsandbox import backend, tags
from pytest_cwsandbox.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.reports.bottom_line import BottomLine
    from pytest_cwsandbox.runs.identity import Run

DRAW_SECONDS = 0.2
UNCHANGED_SECONDS = 1.0  # the time left changes by itself
ASK_SECONDS = 3.0


class Live:
    """Draws ``text(now, sandboxes)`` until it is stopped."""

    def __init__(
        self,
        line: BottomLine,
        text: Callable[[float, int | None], str],
        options: BackendOptions,
        run: Run,
    ) -> None:
        self._line = line
        self._text = text
        self._options = options
        self._run = run
        self._sandboxes: int | None = None
        self._changed = threading.Event()
        self._stopped = threading.Event()
        self._drawing = threading.Thread(target=self._draw, name="cwsandbox-progress", daemon=True)
        self._drawing.start()
        threading.Thread(target=self._ask, name="cwsandbox-sandboxes", daemon=True).start()

    def changed(self) -> None:
        self._changed.set()

    def pause(self) -> None:
        """Leave the terminal to a debugger."""
        self._line.hide()

    def resume(self) -> None:
        self._line.show()

    def stop(self) -> None:
        """Give the terminal back. A question under way is left to itself."""
        self._stopped.set()
        self._changed.set()
        self._drawing.join()
        self._line.close()

    def _draw(self) -> None:
        while not self._stopped.is_set():
            try:
                self._line.draw(self._text(time.monotonic(), self._sandboxes))
            except OSError:
                return  # the terminal is gone, and nobody looks
            self._changed.wait(UNCHANGED_SECONDS)
            self._changed.clear()
            self._stopped.wait(DRAW_SECONDS)

    def _ask(self) -> None:
        while not self._stopped.wait(ASK_SECONDS):
            try:
                self._sandboxes = running(self._options, self._run)
            except (HarnessError, OSError, ValueError, TypeError):
                self._sandboxes = None  # no number is shown; the run itself says what it lacks
            self._changed.set()


def running(options: BackendOptions, run: Run) -> int | None:
    """How many sandboxes of the run are running; None while it uses no service."""
    service = backend.in_use(options, run.folder) if backend.used(run.folder) else None
    if service is None:
        return None
    from cwsandbox import SandboxStatus

    from pytest_cwsandbox.monitoring.sandboxes import Service, find

    found = find(Service(*service), [tags.run_tag(run.id)])
    return sum(sandbox.status is SandboxStatus.RUNNING for sandbox in found)
