"""One sandbox session per process for the rewards, started at first need and ended with it."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.batch import grading_session

if TYPE_CHECKING:
    from cwsandbox import Session

_lock = threading.Lock()
_sessions: dict[tuple[int, BackendOptions], Session] = {}
_open = contextlib.ExitStack()


def shared_session(options: BackendOptions | None = None) -> Session:
    """This process's session for a backend; raises ``BackendError``.

    Without an account it starts the local runner, which ends with the process. A forked child has
    its own: sessions do not survive a fork.
    """
    key = (os.getpid(), options or BackendOptions())
    with _lock:
        if key not in _sessions:
            if not any(pid == key[0] for pid, _ in _sessions):
                atexit.register(close)
            _sessions[key] = _open.enter_context(grading_session(key[1]))
        return _sessions[key]


def close() -> None:
    """End this process's sessions; a later need starts new ones."""
    with _lock:
        for key in [key for key in _sessions if key[0] == os.getpid()]:
            del _sessions[key]
        _open.close()
