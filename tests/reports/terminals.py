"""A terminal for a program to run in: a real pty, and the screen that its output draws."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

pyte = pytest.importorskip("pyte", reason="needs the [dev] extra")

PATIENCE_SECONDS = 120.0  # only a program that hangs takes as long


class Terminal:
    """A program in a terminal of this size."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        environ: Mapping[str, str],
        *,
        columns: int = 100,
        rows: int = 20,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self.output = b""
        self._stream = pyte.ByteStream(self.screen)
        self._controller, terminal = pty.openpty()
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env=dict(environ),
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            start_new_session=True,
        )
        os.close(terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._controller)

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.screen.resize(rows, columns)

    def type(self, text: str) -> None:
        os.write(self._controller, text.encode())

    def wait_for(self, seen: Callable[[], bool]) -> None:
        """Read what the program prints until this is so."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not seen():
            assert time.monotonic() < deadline, "\n".join(self.lines)
            assert self._read(), "\n".join(self.lines)

    def wait_for_end(self) -> int:
        """Read everything that the program prints; its exit code."""
        while self._read():
            pass
        return self.process.wait(PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Whether the program may have more to say."""
        if not select.select([self._controller], [], [], PATIENCE_SECONDS)[0]:
            return False
        try:
            read = os.read(self._controller, 1 << 16)
        except OSError:  # nobody has the other end any more
            return False
        self.output += read
        self._stream.feed(read)
        return bool(read)

    @property
    def lines(self) -> list[str]:
        """Everything that was printed and is not overwritten, also what has scrolled away."""
        columns = self.screen.columns
        gone = [
            "".join(line[column].data for column in range(columns)).rstrip()
            for line in self.screen.history.top
        ]
        return gone + self.shown

    @property
    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    def typing_at(self, prompt: str) -> bool:
        """Whether the cursor stands behind this prompt."""
        row: int = self.screen.cursor.y
        return self.shown[row] == prompt

    @property
    def bottom(self) -> str:
        return self.shown[-1]

    @property
    def region(self) -> tuple[int, int] | None:
        """The rows that scroll, where not all do."""
        margins = self.screen.margins
        return (margins.top, margins.bottom) if margins else None
