"""One run at a time in a run's folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import UserError

if TYPE_CHECKING:
    from io import FileIO
    from pathlib import Path

LOCK = "run.lock"


def held(folder: Path) -> bool:
    """Whether a process is at work in this folder: its run still goes on."""
    try:
        stream = (folder / LOCK).open("rb")
    except OSError:
        return False
    with stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class FolderLock:
    """Held by the controller of a run from its first file on; it ends with the process."""

    def __init__(self) -> None:
        self._file: Path | None = None
        self._stream: FileIO | None = None

    def take(self, folder: Path) -> None:
        """Hold the folder, if this lock does not yet; ``UserError`` where another process does."""
        file = folder / LOCK
        while self._stream is None:
            stream = file.open("a+b", buffering=0)
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with stream:
                    stream.seek(0)
                    process = stream.read().decode() or "unknown"
                raise UserError(
                    f"{folder} is of a run that is still going on (process {process}): wait for "
                    "its end, or end it"
                ) from None
            if file.exists() and os.path.samestat(file.stat(), os.fstat(stream.fileno())):
                # The lock holds without it, where the disk takes no more.
                with contextlib.suppress(OSError):
                    stream.truncate(0)
                    stream.write(str(os.getpid()).encode())
                self._file, self._stream = file, stream
            else:  # who held it has just removed it
                stream.close()

    def release(self) -> None:
        """Let go of the folder, and leave nothing in it."""
        if self._file is not None and self._stream is not None:
            with contextlib.suppress(OSError):  # whoever took the folder away took the file too
                self._file.unlink(missing_ok=True)
            self._stream.close()
            self._file = self._stream = None
