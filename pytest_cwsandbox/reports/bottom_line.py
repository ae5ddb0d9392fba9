"""A line at the bottom of a terminal, below everything that is printed meanwhile.

The last row is taken out of the region that scrolls, as `apt` does: whoever prints, this process,
its workers or a program that a test starts, prints above it and needs to know nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading

SMALLEST = (20, 3)  # columns and rows

_SAVE, _RESTORE = "\x1b7", "\x1b8"  # where the cursor is, and its colours
_EVERYTHING_SCROLLS = "\x1b[r"
_DOWN_AND_UP = "\x1bD\x1b[A"  # the cursor leaves the last row; what is there scrolls up
_CLEAR_ROW = "\x1b[2K"


class BottomLine:
    """Draws on the terminal of this descriptor, until it is closed.

    ``draw`` raises ``OSError`` where the terminal is gone.
    """

    def __init__(self, descriptor: int, *, markup: bool) -> None:
        self._descriptor = os.dup(descriptor)  # tests may have the original redirected
        self._style = ("\x1b[7m", "\x1b[0m") if markup else ("", "")
        self._size: os.terminal_size | None = None  # for which the last row is reserved
        self._lock = threading.Lock()
        self._hidden = False
        self._closed = False

    def draw(self, text: str) -> None:
        """Show this text, as much of it as there is room for."""
        with self._lock:
            if self._hidden or self._closed:
                return
            size = os.get_terminal_size(self._descriptor)
            if size.columns < SMALLEST[0] or size.lines < SMALLEST[1]:
                return
            first, last = self._style
            shown = f" {text} "[: size.columns - 1]
            self._write(
                (self._reserve(size) if size != self._size else "")
                + f"{_SAVE}\x1b[{size.lines};1H{_CLEAR_ROW}{first}{shown}{last}{_RESTORE}"
            )
            self._size = size

    def hide(self) -> None:
        """Give the row back until ``show``."""
        with self._lock:
            self._hidden = True
            self._release()

    def show(self) -> None:
        """Let ``draw`` take the row again."""
        with self._lock:
            self._hidden = False

    def close(self) -> None:
        """Give the row back for good."""
        with self._lock:
            if not self._closed:
                self._release()
                self._closed = True
                os.close(self._descriptor)

    def _reserve(self, size: os.terminal_size) -> str:
        everything = f"{_SAVE}{_EVERYTHING_SCROLLS}{_RESTORE}{_DOWN_AND_UP}"
        return f"{everything}{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}"

    def _release(self) -> None:
        if self._size is None or self._closed:
            return
        self._size = None
        with contextlib.suppress(OSError):  # the terminal is gone, and its row with it
            last = os.get_terminal_size(self._descriptor).lines
            self._write(f"{_SAVE}{_EVERYTHING_SCROLLS}\x1b[{last};1H{_CLEAR_ROW}{_RESTORE}")

    def _write(self, text: str) -> None:
        """In one piece, so that nothing of another writer gets in between."""
        os.write(self._descriptor, text.encode("ascii", "replace"))
