"""The sandbox sessions of a process that trains, started at first need and ended with it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from cwsandbox import Session


@dataclass(frozen=True, slots=True)
class Sessions:
    """Of one backend: ``agents`` is the one that W&B counts, ``judge`` grades beside it."""

    agents: Session
    judge: Session


_lock = threading.Lock()
_sessions: dict[tuple[BackendOptions, tuple[str, ...]], Sessions] = {}
_open = contextlib.ExitStack()
_forked = False


def shared_session(options: BackendOptions | None = None, tags: tuple[str, ...] = ()) -> Session:
    """This process's session for grades; as ``shared_sessions``."""
    return shared_sessions(options, tags).judge


def shared_sessions(options: BackendOptions | None = None, tags: tuple[str, ...] = ()) -> Sessions:
    """This process's sessions for a backend, with these tags; raises ``BackendError``.

    Without an account it starts the local runner, which ends with the process. Ranks that are
    started, as ``accelerate launch`` does, have their own. A process forked after the first use has
    none: the SDK's threads and connections do not survive a fork.
    """
    if _forked:
        raise BackendError(
            "this process was forked from one that already used sandboxes, and cannot use them: "
            "start processes by spawn, or fork before the first reward is computed"
        )
    key = (options or BackendOptions(), tags)
    with _lock:
        if not _sessions:
            atexit.register(close)
        if key not in _sessions:
            _sessions[key] = _start(*key)
        return _sessions[key]


def _start(options: BackendOptions, tags: tuple[str, ...]) -> Sessions:
    from pytest_cwsandbox.sessions import agent_session, judge_session

    defaults = _open.enter_context(connected(options, sandbox_tags=tags))
    agents = _open.enter_context(agent_session(defaults))
    return Sessions(agents, _open.enter_context(judge_session(agents)))


def close() -> None:
    """End this process's sessions; a later need starts new ones."""
    with _lock:
        _sessions.clear()
        _open.close()
        atexit.unregister(close)


def _after_fork() -> None:
    """Leave the parent's sessions to the parent: the child must neither use nor end them.

    To end them, as the SDK does at exit too, is to wait for a thread that only the parent has.
    """
    global _lock, _open, _forked  # noqa: PLW0603 - they are this process's, and it is a new one
    _lock = threading.Lock()
    if not _sessions:
        return
    from cwsandbox import _cleanup

    _forked = True
    _sessions.clear()
    # What is never freed is never finalised, which would run the ends of the blocks in it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(_open))
    _open = contextlib.ExitStack()
    atexit.unregister(close)
    atexit.unregister(_cleanup._cleanup)  # noqa: SLF001 - the SDK offers no other way


os.register_at_fork(after_in_child=_after_fork)
