"""What tests ask for beside sandboxes. Everything heavy is imported when first used."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest

from pytest_cwsandbox import opened, prewarming, recording
from pytest_cwsandbox.first_use import FIRST_USE
from pytest_cwsandbox.settings import SETTINGS
from pytest_cwsandbox.shares import SHARE

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from cwsandbox import OperationRef, Session

    from pytest_cwsandbox.grading import ExitCodeGrader, Grader
    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.problems import Problem


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
def record_reward(request: pytest.FixtureRequest) -> Generator[RecordReward]:
    """Records the item's reward, which makes it a sample: an outcome of ``grade``, or a number.

    None says that the infrastructure failed. A second call replaces the first. ``metadata``
    goes with the sample, numbers and bools as texts, for ``--cwsandbox-group-by`` among others.
    """
    request.config.stash[FIRST_USE].happen(late=True)  # if the test did not say that it uses it
    with opened.at_turn(request.node, recording_rewards) as record:
        yield record


@contextmanager
def recording_rewards(item: pytest.Item) -> Generator[RecordReward]:
    """The value of ``record_reward``."""

    def record(
        value: Outcome | float | None,
        *,
        detail: str = "",
        metadata: Mapping[str, str | float] | None = None,
    ) -> None:
        recording.record(item, value, detail, metadata)

    yield record


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
        concurrency=pytestconfig.stash[SHARE].sandboxes,
        raise_infrastructure=True,
    )
    with prewarming.starting(pytestconfig, lambda items: grader.expect(sum(map(_grades, items)))):
        yield grader
    grader.close()


def _grades(item: pytest.Item) -> bool:
    return "grade" in getattr(item, "fixturenames", ())


@pytest.fixture
def grade(_cwsandbox_grader: Grader, request: pytest.FixtureRequest) -> Generator[Grade]:
    """Grades a completion; the result is awaited, or had with ``.result()``.

    Raises ``ConfigurationError`` for a problem that cannot be graded, ``InfrastructureError`` when
    the sandboxes failed after every retry.
    """
    with opened.at_turn(request.node, grading, _cwsandbox_grader) as start:
        yield start


@contextmanager
def grading(item: pytest.Item, grader: Grader) -> Generator[Grade]:
    """The value of ``grade``."""
    from pytest_cwsandbox.awaited import Awaited, check_awaited

    refs: list[Awaited[Outcome]] = []

    def start(
        problem: Problem, completion: str, *, held_out: bool = False
    ) -> OperationRef[Outcome]:
        ref = Awaited.of(grader.grade(problem, completion, held_out=held_out), "grade")
        refs.append(ref)
        recording.note_grade(
            item,
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
        concurrency=pytestconfig.stash[SHARE].sandboxes,
        raise_infrastructure=True,
    )
    yield grader
    grader.close()


@pytest.fixture
def grade_exit_code(
    _cwsandbox_exit_code_grader: ExitCodeGrader, request: pytest.FixtureRequest
) -> Generator[GradeExitCode]:
    """Runs a program: full reward if and only if it exits 0. The naive pattern; easily fooled."""
    with opened.at_turn(request.node, grading_exit_codes, _cwsandbox_exit_code_grader) as start:
        yield start


@contextmanager
def grading_exit_codes(item: pytest.Item, grader: ExitCodeGrader) -> Generator[GradeExitCode]:
    """The value of ``grade_exit_code``."""
    from pytest_cwsandbox.awaited import Awaited, check_awaited

    refs: list[Awaited[Outcome]] = []

    def start(code: str) -> OperationRef[Outcome]:
        ref = Awaited.of(grader.grade(code), "grade_exit_code")
        refs.append(ref)
        recording.note_grade(item, ref.future, grader="exit_code", completion=code)
        return ref

    yield start
    check_awaited(refs)
