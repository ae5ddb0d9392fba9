"""The sandboxes that tests ask for, and the SDK sessions that they are of."""

from __future__ import annotations

import platform
import sys
import threading
import warnings
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_cwsandbox import backend, opened, prewarming, recording, tags
from pytest_cwsandbox.admission import PROCESS, Kind
from pytest_cwsandbox.background import Background
from pytest_cwsandbox.errors import (
    ConfigurationError,
    InfrastructureError,
    UserError,
    one_line,
)
from pytest_cwsandbox.first_use import FIRST_USE
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence

    from cwsandbox import Sandbox, SandboxDefaults, Session

LIFETIME_SECONDS = 3600.0  # at the service: nothing outlives a run that could not clean up by much


class SandboxFactory(Protocol):
    """The type of the ``sandbox_factory`` fixture; keywords as of ``cwsandbox.Session.sandbox``."""

    def __call__(self, **options: object) -> Sandbox: ...


@pytest.fixture(scope="session")
def _cwsandbox_backend(pytestconfig: pytest.Config) -> Generator[backend.Backend]:
    pytestconfig.stash[FIRST_USE].happen(late=True)  # if the test did not say that it uses it
    run = pytestconfig.stash[RUN]
    options = pytestconfig.stash[SETTINGS].backend_options
    try:
        if run.elsewhere:
            backend.check_elsewhere(options, f"worker {run.worker} on {platform.node()}")
        connected = backend.connect(options, run.folder, lifeline=run.controller, controlled=True)
    except UserError as error:
        pytest.fail(f"cwsandbox: {error}", pytrace=False)
    yield connected
    connected.restore()


@pytest.fixture(scope="session")
def cwsandbox_defaults(
    _cwsandbox_backend: backend.Backend, pytestconfig: pytest.Config
) -> SandboxDefaults:
    """Image, tags and limits of every sandbox; override it to change them.

    An override takes the fixture of the same name and returns ``defaults.with_overrides(...)``.
    """
    settings = pytestconfig.stash[SETTINGS]
    run = pytestconfig.stash[RUN]
    return _cwsandbox_backend.defaults(
        tags=tags.sandbox_tags(run=run.id, worker=run.worker, extra=settings.tags),
        max_lifetime_seconds=max(LIFETIME_SECONDS, 4 * settings.wall_limit),
    )


@pytest.fixture(scope="session")
def cwsandbox_report_to() -> list[str] | None:
    """Where the metrics of ``cwsandbox_session`` go, as the SDK takes it; override it to change it.

    None: to the active W&B run, if there is one.
    """
    return None


@pytest.fixture(scope="session")
def cwsandbox_session(
    cwsandbox_defaults: SandboxDefaults, cwsandbox_report_to: list[str] | None
) -> Generator[Session]:
    """The SDK session of this process; its sandboxes are tagged, and removed when the run ends."""
    from pytest_cwsandbox.sessions import agent_session

    session = agent_session(cwsandbox_defaults, cwsandbox_report_to)
    yield session
    _close(session)


@pytest.fixture(scope="session")
def _cwsandbox_grading_session(cwsandbox_defaults: SandboxDefaults) -> Generator[Session]:
    from pytest_cwsandbox.sessions import silent_session

    # Its own session: execs per sandbox in W&B then count the agent's only.
    session = silent_session(cwsandbox_defaults)
    yield session
    _close(session)


def _close(session: Session) -> None:
    """Remove the session's sandboxes; what cannot be removed is swept at the end, or said there."""
    from cwsandbox import CWSandboxError

    try:
        session.close().result()
    except CWSandboxError as error:
        warnings.warn(f"cwsandbox: {one_line(error)}", stacklevel=2)


OURS = ("sandbox", "sandbox_factory", "cwsandbox_session")


class Sandboxes:
    """The tests' own sandboxes, started on a loop in the background; some of them ahead."""

    def __init__(self, session: Session, *, retries: int) -> None:
        self._background = Background()
        self._pool = SandboxPool(session, size=sys.maxsize, retries=retries, kind=Kind.TEST)
        self._admission = PROCESS
        self._given: set[str] = set()

    def start(
        self, item: pytest.Item, options: Mapping[str, object] | None = None, *, held: int = 0
    ) -> Future[Sandbox]:
        """Start one for an item that holds ``held`` already; the result raises as a pool does."""
        self._check(held)
        self._given.add(item.nodeid)
        starting: Future[Sandbox] = Future()
        wanted = {**_usual(item), **(options or {})}
        take = partial(self._pool.take, wanted, tally=recording.of(item), urgent=held > 0)
        work = self._background.start(self._hand_over(take, starting))
        starting.add_done_callback(lambda starting: starting.cancelled() and work.cancel())
        work.add_done_callback(lambda _: starting.cancel())  # if it has not come to its end
        return starting

    async def _hand_over(
        self, take: Callable[[], Awaitable[Sandbox]], starting: Future[Sandbox]
    ) -> None:
        """Take a sandbox, and give it back if nobody waits for it any more.

        A future of the loop's would lose one that comes at the moment at which it is cancelled.
        """
        try:
            sandbox = await take()
        except Exception as error:  # noqa: BLE001 - whoever waits is to see it
            if starting.set_running_or_notify_cancel():
                starting.set_exception(error)
            return
        if starting.set_running_or_notify_cancel():
            starting.set_result(sandbox)
        else:
            self._pool.give_back(sandbox)

    def remove(self, started: Sequence[Future[Sandbox]]) -> None:
        """Remove them, at once; a failure to do so is no failure of the test that used them."""
        for removal in [*map(self.begin_removal, started)]:
            _end_removal(removal)

    def begin_removal(self, started: Future[Sandbox]) -> Future[None] | None:
        """None where there is none to remove; one that is still on its way is taken back."""
        if started.cancel() or started.exception() is not None:
            return None
        return self._background.start(self._pool.remove(started.result()))

    def start_ahead(self, items: Sequence[pytest.Item]) -> None:
        """Begin to start what ``sandbox`` will give to these items; drop what others left."""
        wanted = [
            _usual(item) for item in items if _is_ours(item) and item.nodeid not in self._given
        ]
        self._background.start(self._pool.prepare(wanted))

    def close(self) -> None:
        self._background.start(self._pool.close()).result()
        self._background.close()

    def _check(self, held: int) -> None:
        most = self._admission.most_of(Kind.TEST)
        if most is not None and held >= most:
            raise ConfigurationError(
                f"the test holds {held} sandboxes and asks for another, but --cwsandbox-max-"
                f"sandboxes allows one process {most} for its tests: raise it, or use fewer "
                "processes"
            )


def _end_removal(removal: Future[None] | None) -> None:
    from cwsandbox import CWSandboxError

    try:
        if removal is not None:
            removal.result()
    except CWSandboxError as error:
        warnings.warn(f"cwsandbox: a sandbox was not removed: {one_line(error)}", stacklevel=2)


def _is_ours(item: pytest.Item) -> bool:
    """Whether it asks for our ``sandbox``, made of our other fixtures."""
    names = getattr(item, "fixturenames", ())
    known = getattr(item, "_fixtureinfo", None)
    if "sandbox" not in names or known is None:
        return False
    definitions = [known.name2fixturedefs[name][-1] for name in OURS if name in names]
    return all(definition.func.__module__ == __name__ for definition in definitions)


def _usual(item: pytest.Item) -> dict[str, object]:
    return {"annotations": {tags.TEST_ANNOTATION: item.nodeid}}


@pytest.fixture(scope="session")
def _cwsandbox_sandboxes(
    cwsandbox_session: Session, pytestconfig: pytest.Config
) -> Generator[Sandboxes]:
    sandboxes = Sandboxes(cwsandbox_session, retries=pytestconfig.stash[SETTINGS].retries)
    with prewarming.starting(pytestconfig, sandboxes.start_ahead):
        yield sandboxes
    sandboxes.close()


@pytest.fixture
def sandbox_factory(
    _cwsandbox_sandboxes: Sandboxes, request: pytest.FixtureRequest
) -> Generator[SandboxFactory]:
    """Starts sandboxes that are removed when the test ends.

    Raises ``InfrastructureError`` when none starts after ``--cwsandbox-retries`` more attempts.
    """
    started: list[Future[Sandbox]] = []
    one_at_a_time = threading.Lock()

    def start(**options: object) -> Sandbox:
        with one_at_a_time:  # those that a test's threads wait for count too
            held = len(started) - sum(map(_failed, started))
            starting = _cwsandbox_sandboxes.start(request.node, options, held=held)
            started.append(starting)
        return _wait(starting)

    yield start
    _cwsandbox_sandboxes.remove(started)


def _failed(starting: Future[Sandbox]) -> bool:
    return starting.done() and (starting.cancelled() or starting.exception() is not None)


def _wait(starting: Future[Sandbox]) -> Sandbox:
    from cwsandbox import CWSandboxAuthenticationError

    try:
        return starting.result()
    except InfrastructureError as error:
        if isinstance(error.__cause__, CWSandboxAuthenticationError):
            raise error.__cause__ from None
        raise
    except BaseException:
        starting.cancel()  # the test is interrupted
        raise


class Starting:
    """The sandbox of a test that runs ahead: on its way, there, or gone again."""

    def __init__(self, item: pytest.Item, sandboxes: Sandboxes) -> None:
        self.future = sandboxes.start(item)
        self._sandboxes = sandboxes
        self._removal: Future[None] | None = None

    def let_go(self) -> None:
        """Begin to remove it: the test has ended, and is not to keep it until its turn."""
        if self._removal is None:
            self._removal = self._sandboxes.begin_removal(self.future)

    def close(self) -> None:
        self.let_go()
        _end_removal(self._removal)


@contextmanager
def starting(item: pytest.Item, sandboxes: Sandboxes) -> Generator[Starting]:
    """The value of ``sandbox`` for a test that runs ahead."""
    sandbox = Starting(item, sandboxes)
    yield sandbox
    sandbox.close()


@pytest.fixture
def sandbox(sandbox_factory: SandboxFactory, request: pytest.FixtureRequest) -> Generator[Sandbox]:
    """A started sandbox of the test's own, removed when the test ends."""
    if not opened.is_open(request.node, starting):
        yield sandbox_factory()
        return
    sandboxes: Sandboxes = request.getfixturevalue("_cwsandbox_sandboxes")
    with opened.at_turn(request.node, starting, sandboxes) as started:
        yield _wait(started.future)
