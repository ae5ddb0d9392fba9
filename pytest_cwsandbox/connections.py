"""Backends outside pytest: a process shares one local runner, which ends with its last user."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import shutil
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox import backend, runner, tags
from pytest_cwsandbox.backend import BackendOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cwsandbox import SandboxDefaults, Session

    from pytest_cwsandbox.backend import Backend

# A forked child cannot use gRPC, and what gRPC does for it at the fork crashes one child in five.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

LIFETIME_SECONDS = 3600.0
LOG = logging.getLogger(__name__)

Key = tuple[str, str, str]


@dataclass(slots=True)
class _Connection:
    """A backend in use. The SDK reads the process's environment at every call: it is set once."""

    folder: Path
    reached: Backend
    users: int = 1

    def end(self) -> None:
        self.reached.restore()
        runner.stop(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)


_lock = threading.Lock()
_connections: dict[Key, _Connection] = {}


@contextlib.contextmanager
def connected(
    options: BackendOptions | None = None,
    *,
    faults: Sequence[str] = (),
    sandbox_tags: tuple[str, ...] = (),
) -> Iterator[SandboxDefaults]:
    """Defaults of sandboxes outside pytest.

    The local runner starts with the first of a process that needs it and ends with the last.
    ``faults`` are injected by a runner of its own, as its ``--fault`` takes them; ``sandbox_tags``
    replace the usual ones. Raises ``BackendError``.
    """
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
    try:
        yield connection.reached
    finally:
        connection.end()


@contextlib.contextmanager
def _together(options: BackendOptions) -> Iterator[Backend]:
    key = (options.choose(os.environ), options.base_url, options.auth)
    with _lock:
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
                del _connections[key]
                connection.end()


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
    folder = Path(tempfile.gettempdir(), f"cwsandbox-grade-{secrets.token_hex(8)}")
    try:
        return _Connection(
            folder, backend.connect(options, folder, lifeline=os.getpid(), faults=faults)
        )
    except BaseException:
        runner.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
        raise


@contextlib.contextmanager
def ended(session: Session) -> Iterator[Session]:
    """The session, closed at the end; what cannot be removed must not cost the results."""
    from cwsandbox import CWSandboxError

    try:
        yield session
    finally:
        try:
            session.close().result()
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
    from cwsandbox import Session

    with (
        connected(options, faults=faults, sandbox_tags=sandbox_tags) as defaults,
        ended(Session(defaults, report_to=[])) as session,
    ):
        yield session
