"""The sandboxes that tests ask for, and the SDK sessions that they are of."""

from __future__ import annotations

import platform
import time
import warnings
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_cwsandbox import backend, recording, tags
from pytest_cwsandbox.errors import InfrastructureError, UserError, one_line
from pytest_cwsandbox.first_use import FIRST_USE
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Generator

    from cwsandbox import Sandbox, SandboxDefaults, Session

    from pytest_cwsandbox.pool import Counting

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
    from cwsandbox import Session

    # Its own session: execs per sandbox in W&B then count the agent's only.
    session = Session(cwsandbox_defaults, report_to=[])
    yield session
    _close(session)


def _close(session: Session) -> None:
    """Remove the session's sandboxes; what cannot be removed is swept at the end, or said there."""
    from cwsandbox import CWSandboxError

    try:
        session.close().result()
    except CWSandboxError as error:
        warnings.warn(f"cwsandbox: {one_line(error)}", stacklevel=2)


@pytest.fixture
def sandbox_factory(
    cwsandbox_session: Session, request: pytest.FixtureRequest
) -> Generator[SandboxFactory]:
    """Starts sandboxes that are removed when the test ends.

    Raises ``InfrastructureError`` when none starts after ``--cwsandbox-retries`` more attempts.
    """
    started: list[Sandbox] = []
    retries = request.config.stash[SETTINGS].retries

    def start(**options: object) -> Sandbox:
        sandbox = _start(
            cwsandbox_session,
            retries,
            {"annotations": {tags.TEST_ANNOTATION: request.node.nodeid}, **options},
            recording.of(request.node),
        )
        started.append(sandbox)
        return sandbox

    yield start
    _stop(started)


def _stop(sandboxes: list[Sandbox]) -> None:
    """Remove sandboxes, at once; a failure to do so is no failure of the test that used them."""
    from cwsandbox import CWSandboxError

    stops = [box.stop(graceful_shutdown_seconds=0, missing_ok=True) for box in sandboxes]
    for stop in stops:
        try:
            stop.result()
        except CWSandboxError as error:
            warnings.warn(f"cwsandbox: a sandbox was not removed: {one_line(error)}", stacklevel=2)


def _start(session: Session, retries: int, options: dict[str, object], tally: Counting) -> Sandbox:
    from cwsandbox import CWSandboxAuthenticationError, CWSandboxError

    for attempt in range(retries + 1):
        sandbox = session.sandbox(**options)  # type: ignore[arg-type]  # checked by the SDK itself
        try:
            sandbox.wait()
        except CWSandboxAuthenticationError:
            raise
        except CWSandboxError as error:
            sandbox.stop(graceful_shutdown_seconds=0, missing_ok=True)
            if attempt == retries:
                raise InfrastructureError(
                    f"no sandbox started in {attempt + 1} attempts: {one_line(error)}"
                ) from error
            time.sleep(0.2 * 2**attempt)
        else:
            tally.retries += attempt
            return sandbox
    raise AssertionError("unreachable")


@pytest.fixture
def sandbox(sandbox_factory: SandboxFactory) -> Sandbox:
    """A started sandbox of the test's own, removed when the test ends."""
    return sandbox_factory()
