"""What tests ask for. Everything heavy is imported when a fixture is first used."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_cwsandbox import backend, recording, tags
from pytest_cwsandbox.errors import InfrastructureError, UserError, one_line
from pytest_cwsandbox.runs.identity import RUN
from pytest_cwsandbox.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from cwsandbox import OperationRef, Sandbox, SandboxDefaults, Session

    from pytest_cwsandbox.grading import ExitCodeGrader, Grader
    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.pool import Counting
    from pytest_cwsandbox.problems import Problem

LIFETIME_SECONDS = 3600.0  # at the service: nothing outlives a run that could not clean up by much


class Grade(Protocol):
    """The type of the ``grade`` fixture."""

    def __call__(
        self, problem: Problem, completion: str, *, held_out: bool = False
    ) -> OperationRef[Outcome]: ...


class GradeExitCode(Protocol):
    """The type of the ``grade_exit_code`` fixture."""

    def __call__(self, code: str) -> OperationRef[Outcome]: ...


class RecordReward(Protocol):
    """The type of the ``record_reward`` fixture."""

    def __call__(
        self,
        value: Outcome | float | None,
        *,
        detail: str = "",
        metadata: Mapping[str, str | float] | None = None,
    ) -> None: ...


class SandboxFactory(Protocol):
    """The type of the ``sandbox_factory`` fixture; keywords as of ``cwsandbox.Session.sandbox``."""

    def __call__(self, **options: object) -> Sandbox: ...


@pytest.fixture(scope="session")
def _cwsandbox_backend(pytestconfig: pytest.Config) -> Generator[backend.Backend]:
    run = pytestconfig.stash[RUN]
    options = pytestconfig.stash[SETTINGS].backend_options
    try:
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


@pytest.fixture
def problem(request: pytest.FixtureRequest) -> Problem:
    """The item's problem; needs ``@pytest.mark.problems``."""
    pytest.fail(
        f"{request.node.name} asks for `problem`: mark it with @pytest.mark.problems()",
        pytrace=False,
    )


@pytest.fixture
def sample() -> int:
    """The item's sample number, from 0; ``@pytest.mark.problems(samples=N)`` makes N of them."""
    return 0


@pytest.fixture
def record_reward(request: pytest.FixtureRequest) -> RecordReward:
    """Records the item's reward, which makes it a sample: an outcome of ``grade``, or a number.

    None says that the infrastructure failed. A second call replaces the first. ``metadata``
    goes with the sample, numbers and bools as texts, for ``--cwsandbox-group-by`` among others.
    """

    def record(
        value: Outcome | float | None,
        *,
        detail: str = "",
        metadata: Mapping[str, str | float] | None = None,
    ) -> None:
        recording.record(request.node, value, detail, metadata)

    return record


@pytest.fixture(scope="session")
def _cwsandbox_grading_session(cwsandbox_defaults: SandboxDefaults) -> Generator[Session]:
    from cwsandbox import Session

    # Its own session: execs per sandbox in W&B then count the agent's only.
    session = Session(cwsandbox_defaults, report_to=[])
    yield session
    _close(session)


@pytest.fixture(scope="session")
def _cwsandbox_grader(
    _cwsandbox_grading_session: Session, pytestconfig: pytest.Config
) -> Iterator[Grader]:
    from pytest_cwsandbox.grading import Grader, Limits

    settings = pytestconfig.stash[SETTINGS]
    grader = Grader(
        _cwsandbox_grading_session,
        limits=Limits(settings.cpu_limit, settings.wall_limit, settings.memory_limit),
        retries=settings.retries,
        raise_infrastructure=True,
    )
    yield grader
    grader.close()


@pytest.fixture
def grade(_cwsandbox_grader: Grader, request: pytest.FixtureRequest) -> Generator[Grade]:
    """Grades a completion; the result is awaited, or had with ``.result()``.

    Raises ``ConfigurationError`` for a problem that cannot be graded, ``InfrastructureError`` when
    the sandboxes failed after every retry.
    """
    from pytest_cwsandbox.awaited import Awaited, check_awaited

    refs: list[Awaited[Outcome]] = []

    def start(
        problem: Problem, completion: str, *, held_out: bool = False
    ) -> OperationRef[Outcome]:
        ref = Awaited.of(_cwsandbox_grader.grade(problem, completion, held_out=held_out), "grade")
        refs.append(ref)
        recording.note_grade(
            request.node,
            ref.future,
            grader="completion",
            completion=completion,
            problem=problem.id,
            held_out=held_out,
        )
        return ref

    yield start
    check_awaited(refs)


@pytest.fixture(scope="session")
def _cwsandbox_exit_code_grader(
    _cwsandbox_grading_session: Session, pytestconfig: pytest.Config
) -> Iterator[ExitCodeGrader]:
    from pytest_cwsandbox.grading import ExitCodeGrader, Limits

    settings = pytestconfig.stash[SETTINGS]
    grader = ExitCodeGrader(
        _cwsandbox_grading_session,
        limits=Limits(settings.cpu_limit, settings.wall_limit, settings.memory_limit),
        retries=settings.retries,
        raise_infrastructure=True,
    )
    yield grader
    grader.close()


@pytest.fixture
def grade_exit_code(
    _cwsandbox_exit_code_grader: ExitCodeGrader, request: pytest.FixtureRequest
) -> Generator[GradeExitCode]:
    """Runs a program: full reward if and only if it exits 0. The naive pattern; easily fooled."""
    from pytest_cwsandbox.awaited import Awaited, check_awaited

    refs: list[Awaited[Outcome]] = []

    def start(code: str) -> OperationRef[Outcome]:
        ref = Awaited.of(_cwsandbox_exit_code_grader.grade(code), "grade_exit_code")
        refs.append(ref)
        recording.note_grade(request.node, ref.future, grader="exit_code", completion=code)
        return ref

    yield start
    check_awaited(refs)
