"""Backends outside pytest: a process shares one local runner, which ends with its last user."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import secrets
import shutil
import socket
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_cwsandbox import backend, runner, tags
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cwsandbox import SandboxDefaults, Session

    from pytest_cwsandbox.backend import Backend

# A forked child cannot use gRPC, and what gRPC does for it at the fork crashes one child in five.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

LIFETIME_SECONDS = 3600.0
FOLDER = "cwsandbox-grade-"
LOG = logging.getLogger(__name__)

Key = tuple[str, str, str, str]


@dataclass(slots=True)
class _Connection:
    """A backend in use. The SDK reads the process's environment at every call: it is set once."""

    folder: Path
    reached: Backend
    started: bool  # a runner of its own
    owner: int
    users: int = 1
    over: bool = False

    def end(self) -> None:
        if self.over or self.owner != os.getpid():
            return
        self.over = True
        self.reached.restore()
        runner.stop(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)

    def lost(self) -> bool:
        """Whether the runner that was started for it has ended."""
        if not self.started or self.over:
            return self.over
        parts = urlsplit(self.reached.base_url)
        try:
            socket.create_connection(
                (parts.hostname, parts.port), timeout=runner.REACH_SECONDS
            ).close()
        except ConnectionRefusedError:
            return True
        except OSError:  # too busy to answer is not gone
            return False
        return False


_lock = threading.Lock()
_connections: dict[Key, _Connection] = {}
_faulty: list[str] = []  # addresses of runners that inject faults
_lost: set[str] = set()  # addresses of runners that others have replaced
_used = False
_forked = False


@contextlib.contextmanager
def connected(
    options: BackendOptions | None = None,
    *,
    faults: Sequence[str] = (),
    sandbox_tags: tuple[str, ...] = (),
) -> Iterator[SandboxDefaults]:
    """Defaults of sandboxes outside pytest.

    The local runner starts with the first of a process that needs it and ends with the last.
    ``faults`` are injected by a runner of its own, as its ``--fault`` takes them, and strike who
    connects while it is there, whoever else is connected; ``sandbox_tags`` replace the usual ones.
    Raises ``BackendError``, also in a process that was forked after the first use: the SDK's
    threads and connections do not survive a fork.
    """
    refuse_forked()
    options = options or BackendOptions()
    own = tags.sandbox_tags(run=f"cwsandbox-{secrets.token_hex(8)}", worker="main")
    with _alone(options, faults) if faults else _together(options) as reached:
        yield reached.defaults(
            tags=sandbox_tags or own,
            max_lifetime_seconds=LIFETIME_SECONDS,
        )


@contextlib.contextmanager
def _alone(options: BackendOptions, faults: Sequence[str]) -> Iterator[Backend]:
    connection = _connect(options, faults)
    address = connection.reached.base_url
    with _lock:
        _faulty.append(address)
    try:
        yield connection.reached
    finally:
        with _lock:
            _faulty.remove(address)
        connection.end()


@contextlib.contextmanager
def _together(options: BackendOptions) -> Iterator[Backend]:
    kind = options.choose(os.environ)
    with _lock:
        faulty = _faulty[-1] if _faulty and kind == "local" else ""
        key = (kind, options.base_url, options.auth, faulty)
        if key in _connections and _connections[key].lost():
            # First, since the environment leads to it. Its users find that it failed.
            dead = _connections.pop(key)
            _lost.add(dead.reached.base_url)
            dead.end()
        if key in _connections:
            _connections[key].users += 1
        else:
            _connections[key] = _connect(options)
        connection = _connections[key]
    try:
        yield _with_image(connection.reached, options)
    finally:
        with _lock:
            connection.users -= 1
            if not connection.users:
                if _connections.get(key) is connection:
                    del _connections[key]
                connection.end()


def lost(defaults: SandboxDefaults) -> bool:
    """Whether the local runner that this process started for these sandboxes has ended."""
    address = str(defaults.base_url)
    with _lock:
        return address in _lost or any(
            connection.reached.base_url == address and connection.lost()
            for connection in _connections.values()
        )


def _with_image(reached: Backend, options: BackendOptions) -> Backend:
    """The same backend for one who asks for another image."""
    from dataclasses import replace

    if not options.image or options.image == reached.image:
        return reached
    if reached.kind == "local":
        backend.check_image(options.image)
    return replace(reached, image=options.image)


def _connect(options: BackendOptions, faults: Sequence[str] = ()) -> _Connection:
    # Made only if a runner is started here, which removes it whatever ends this process.
    folder = Path(tempfile.gettempdir(), f"{FOLDER}{secrets.token_hex(8)}")
    try:
        reached = backend.connect(options, folder, lifeline=os.getpid(), faults=faults)
    except BaseException:
        runner.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
        raise
    global _used  # noqa: PLW0603 - the process's
    _used = True
    _lost.discard(reached.base_url)
    return _Connection(folder, reached, started=folder.exists(), owner=os.getpid())


def rendezvous() -> list[Path]:
    """Those of the live local runners that this user's processes started on this machine.

    The folder is everybody's: what others have put there is not read.
    """
    files = sorted(Path(tempfile.gettempdir()).glob(f"{FOLDER}*/{runner.RENDEZVOUS}"))
    return [file for file in files if _is_own(file) and _is_served(file)]


def _is_own(file: Path) -> bool:
    try:
        owners = {path.lstat().st_uid for path in (file, file.parent)}
    except OSError:  # it ended just now
        return False
    return owners == {os.getuid()} and not file.is_symlink() and not file.parent.is_symlink()


def _is_served(file: Path) -> bool:
    """Not left behind: another runner may have its address by now."""
    try:
        command = Path(f"/proc/{runner.read(file).pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return False
    return os.fsencode(file) in command.split(b"\0")


@contextlib.contextmanager
def ended(session: Session, defaults: SandboxDefaults | None = None) -> Iterator[Session]:
    """The session, closed at the end; what cannot be removed must not cost the results.

    A fork leaves it to its parent. Where the runner of its ``defaults`` has died, its sandboxes
    have too, and nobody waits for them.
    """
    from cwsandbox import CWSandboxError

    owner = os.getpid()
    try:
        yield session
    finally:
        try:
            closing = session.close() if os.getpid() == owner else None
            if closing and not (defaults and lost(defaults)):
                closing.result()
        except CWSandboxError as error:
            LOG.warning("sandboxes were not removed: %s", " ".join(str(error).split()))


@contextlib.contextmanager
def grading_session(
    options: BackendOptions | None = None,
    *,
    faults: Sequence[str] = (),
    sandbox_tags: tuple[str, ...] = (),
) -> Iterator[Session]:
    """A tagged SDK session outside pytest that reports to nobody; see ``connected``."""
    from pytest_cwsandbox.sessions import silent_session

    with (
        connected(options, faults=faults, sandbox_tags=sandbox_tags) as defaults,
        ended(silent_session(defaults), defaults) as session,
    ):
        yield session


def refuse_forked() -> None:
    """Raise ``BackendError`` in a process forked from one that had used sandboxes."""
    if _forked:
        raise BackendError(
            "this process was forked from one that already used sandboxes, and cannot use them: "
            "start processes by spawn, or fork before the first sandbox or reward is needed"
        )


def _after_fork() -> None:
    """Leave the parent's connections to the parent: the child must neither use nor end them.

    To end sandboxes, as the SDK does at exit, is to wait for a thread that only the parent has.
    """
    global _lock, _forked  # noqa: PLW0603 - they are this process's, and it is a new one
    _lock = threading.Lock()
    if not _used:
        return
    from cwsandbox import _cleanup

    _forked = True
    _connections.clear()
    atexit.unregister(_cleanup._cleanup)  # noqa: SLF001 - the SDK offers no other way


os.register_at_fork(after_in_child=_after_fork)
