"""The sandbox sessions of a process that trains, started at first need and ended with it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import logging
import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected, ended, lost, refuse_forked

if TYPE_CHECKING:
    from cwsandbox import SandboxDefaults, Session


@dataclass(frozen=True, slots=True)
class Sessions:
    """Of one backend: ``agents`` is the one that W&B counts, ``judge`` grades beside it."""

    agents: Session
    judge: Session


@dataclass(frozen=True, slots=True)
class _Started:
    sessions: Sessions
    defaults: SandboxDefaults
    open: contextlib.ExitStack


LOG = logging.getLogger(__name__)

Key = tuple[BackendOptions, tuple[str, ...]]

_lock = threading.Lock()
_started: dict[Key, _Started] = {}
_outlived: list[_Started] = []  # their runner died; grades that were under way still fail there


def shared_session(options: BackendOptions | None = None, tags: tuple[str, ...] = ()) -> Session:
    """This process's session for grades; as ``shared_sessions``."""
    return shared_sessions(options, tags).judge


def shared_sessions(options: BackendOptions | None = None, tags: tuple[str, ...] = ()) -> Sessions:
    """This process's sessions for a backend, with these tags; raises ``BackendError``.

    Without an account it starts the local runner, which ends with the process; where it ended
    before, a new one is started, with new sessions. Ranks that are started, as ``accelerate
    launch`` does, have their own. A process forked after the first use has none: the SDK's threads
    and connections do not survive a fork.
    """
    refuse_forked()
    key = (options or BackendOptions(), tags)
    with _lock:
        if not _started:
            atexit.register(close)
        if key in _started and lost(_started[key].defaults):
            LOG.warning("the local runner has ended: another is started")
            _outlived.append(_started.pop(key))
        if key not in _started:
            _started[key] = _start(*key)
        return _started[key].sessions


def _start(options: BackendOptions, tags: tuple[str, ...]) -> _Started:
    from pytest_cwsandbox.sessions import agent_session, judge_session

    with contextlib.ExitStack() as stack:
        defaults = stack.enter_context(connected(options, sandbox_tags=tags))
        agents = stack.enter_context(ended(agent_session(defaults), defaults))
        judge = stack.enter_context(ended(judge_session(agents), defaults))
        return _Started(Sessions(agents, judge), defaults, stack.pop_all())


def outlived(session: Session) -> bool:
    """Whether its runner died and others were started: what it still grades fails by itself."""
    with _lock:
        return any(session is started.sessions.judge for started in _outlived)


def close() -> None:
    """End this process's sessions; a later need starts new ones."""
    with _lock, contextlib.ExitStack() as all_of_them:
        for started in (*_outlived, *_started.values()):
            all_of_them.push(started.open)
        _outlived.clear()
        _started.clear()
        atexit.unregister(close)


def _after_fork() -> None:
    """Leave the parent's sessions to the parent: the child must neither use nor end them."""
    global _lock, _started, _outlived  # noqa: PLW0603 - they are this process's, and it is a new one
    _lock = threading.Lock()
    if not _started:
        return
    # What is never freed is never finalised, which would run the ends of the blocks in it.
    for kept in (_started, _outlived):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))
    _started, _outlived = {}, []
    atexit.unregister(close)


os.register_at_fork(after_in_child=_after_fork)
