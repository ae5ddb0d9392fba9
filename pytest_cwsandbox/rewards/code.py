"""The reward for code: the hardened grade of each completion, in parallel."""

from __future__ import annotations

import asyncio
import itertools
import threading
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.errors import ConfigurationError, check_count
from pytest_cwsandbox.grading import Grader, Limits, OutputGrader
from pytest_cwsandbox.rewards.columns import expected_outputs_of, problems_of, texts_of
from pytest_cwsandbox.rewards.log import report
from pytest_cwsandbox.rewards.session import outlived, shared_session
from pytest_cwsandbox.rewards.versions import check_trl

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cwsandbox import OperationRef, Session

    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rewards.columns import Completion

    Graders = tuple[Grader, OutputGrader]


class Grades:
    """What the reward functions of this room share: outcomes of completions, a sandbox each.

    Each completion with code is graded in a sandbox of its own, ``concurrency`` at once; one
    without code earns 0.0 without a sandbox. Where the sandboxes fail after every retry the reward
    is None, which TRL leaves out of its group, or ``InfrastructureError`` is raised, with
    ``on_infrastructure="raise"``.
    ``held_out`` adds a problem's ``challenge_test_list`` to its asserts, where it has one. ``tags``
    replace the usual ones of the sandboxes.

    A row without asserts, held-out ones counted if asked for, is graded by ``expected_output``:
    what its program prints. That is weaker than asserts, since a program may print a constant.

    Safe to use from several threads, and in every process of a training run that was not forked
    from one that had used it.
    """

    _name = "code_reward"
    _count_asserts = False

    def __init__(
        self,
        *,
        held_out: bool = True,
        limits: Limits | None = None,
        retries: int = 2,
        concurrency: int = 32,
        on_infrastructure: Literal["none", "raise"] = "none",
        backend: BackendOptions | None = None,
        tags: Sequence[str] = (),
    ) -> None:
        if on_infrastructure not in {"none", "raise"}:
            raise ValueError(
                f'on_infrastructure must be "none" or "raise", not {on_infrastructure!r}'
            )
        check_count("retries", retries, at_least=0)
        check_count("concurrency", concurrency, at_least=1)
        if not isinstance(backend, BackendOptions | None):
            raise ConfigurationError(
                f'backend must be BackendOptions, such as BackendOptions("local"), got {backend!r}'
            )
        if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
            raise ConfigurationError(f"tags must be a tuple of strings, got {tags!r}")
        self.__name__ = self._name  # what trainers log the reward as
        self._held_out = held_out
        self._limits = limits
        self._retries = retries
        self._concurrency = concurrency
        self._on_infrastructure = on_infrastructure
        self._backend = backend
        self._tags = tuple(tags)
        self._lock = threading.Lock()
        self._calls = itertools.count(1)
        self._used: tuple[Session, Graders] | None = None

    def outcomes(self, completions: Sequence[Completion], **columns: object) -> list[Outcome]:
        """What lies behind the rewards: verdicts and details."""
        return [ref.result() for ref in self._start(completions, columns)]

    def check(self, row: Mapping[str, object]) -> None:
        """Raise ``ConfigurationError`` for a row of the dataset that cannot be graded."""
        problem, output = _read(row)
        if self._output(problem, output) is None:
            self._graders()[0].check(problem, held_out=self._held_out)

    def grade(
        self, text: str, row: Mapping[str, object], *, is_code: bool = False
    ) -> OperationRef[Outcome]:
        """Grade one completion, or what is code already, by one row of the dataset."""
        return self._grade(self._graders(), *_read(row), text, is_code=is_code)

    def _start(
        self, completions: Sequence[Completion], columns: Mapping[str, object]
    ) -> list[OperationRef[Outcome]]:
        texts = texts_of(completions)
        problems = problems_of(columns, len(texts))
        outputs = expected_outputs_of(columns, len(texts))
        graders = self._graders()
        return [
            self._grade(graders, problem, output, text)
            for problem, output, text in zip(problems, outputs, texts, strict=True)
        ]

    def _grade(
        self,
        graders: Graders,
        problem: Problem,
        output: str | None,
        text: str,
        *,
        is_code: bool = False,
    ) -> OperationRef[Outcome]:
        by_asserts, by_output = graders
        output = self._output(problem, output)
        if output is None:
            grade = by_asserts.grade_code if is_code else by_asserts.grade
            return grade(problem, text, held_out=self._held_out)
        return (by_output.grade_code if is_code else by_output.grade)(text, output)

    def _output(self, problem: Problem, output: str | None) -> str | None:
        """What the program should print; None where there are asserts, which say more."""
        if problem.test_list or (self._held_out and problem.challenge_test_list):
            return None
        if output is not None and not output.strip():
            raise ConfigurationError(
                f"problem {problem.task_id}: there are no asserts, and expected_output is empty, "
                "which a program that does nothing prints: add asserts or output"
            )
        return output

    def _graders(self) -> Graders:
        """Those of the process's session; new ones where it was closed or its runner died."""
        session = shared_session(self._backend, self._tags)
        with self._lock:
            if self._used is not None and self._used[0] is session:
                return self._used[1]
            if self._used is not None and not outlived(self._used[0]):
                for grader in self._used[1]:
                    grader.close()
            raising = self._on_infrastructure == "raise"
            graders = (
                Grader(
                    session,
                    limits=self._limits,
                    retries=self._retries,
                    concurrency=self._concurrency,
                    raise_infrastructure=raising,
                    count_asserts=self._count_asserts,
                ),
                OutputGrader(
                    session,
                    limits=self._limits,
                    retries=self._retries,
                    concurrency=self._concurrency,
                    raise_infrastructure=raising,
                ),
            )
            self._used = (session, graders)
            return graders

    def _rewards(
        self, outcomes: Sequence[Outcome], columns: Mapping[str, object]
    ) -> list[float | None]:
        report(self.__name__, next(self._calls), outcomes, columns)
        return [self._reward(outcome) for outcome in outcomes]

    def _reward(self, outcome: Outcome) -> float | None:
        return outcome.reward


class CodeReward(Grades):
    """A reward function for TRL's trainers: 1.0 for code that passes its tests, else 0.0."""

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[Completion],
        **columns: object,
    ) -> list[float | None]:
        """Rewards of ``completions``, in their order; ``columns`` as of ``problems_of``."""
        del prompts
        check_trl()
        return self._rewards(self.outcomes(completions, **columns), columns)


class AsyncCodeReward(Grades):
    """``CodeReward`` as a coroutine: TRL awaits it beside its other asynchronous rewards."""

    async def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[Completion],
        **columns: object,
    ) -> list[float | None]:
        """Rewards of ``completions``, in their order; ``columns`` as of ``problems_of``."""
        del prompts
        check_trl()
        refs = await asyncio.to_thread(self._start, completions, columns)  # may start a runner
        return self._rewards(await asyncio.gather(*refs), columns)


class FractionReward(CodeReward):
    """The fraction of a problem's asserts that hold: from 0.0, over partly right, to 1.0.

    Each assert counts the same, held-out ones too. So a lookup table of the asserts in the prompt
    earns their share of all asserts, and a constant the share of those that happen to expect it:
    without held-out asserts the lookup table earns 1.0 here as it does of ``CodeReward``. A program
    that does not load, takes too long or leaves early earns 0.0.
    """

    _name = "fraction_reward"
    _count_asserts = True

    def _reward(self, outcome: Outcome) -> float | None:
        if outcome.reward is None or not outcome.asserts:
            return outcome.reward
        return outcome.passed_asserts / outcome.asserts


def _read(row: Mapping[str, object]) -> tuple[Problem, str | None]:
    columns = {name: [value] for name, value in row.items()}
    return problems_of(columns, 1)[0], expected_outputs_of(columns, 1)[0]


_code = CodeReward()
_async_code = AsyncCodeReward()
_fraction = FractionReward()


def code_reward(
    prompts: Sequence[object],
    completions: Sequence[Completion],
    **columns: object,
) -> list[float | None]:
    """``CodeReward`` with its defaults."""
    return _code(prompts, completions, **columns)


async def async_code_reward(
    prompts: Sequence[object],
    completions: Sequence[Completion],
    **columns: object,
) -> list[float | None]:
    """``AsyncCodeReward`` with its defaults."""
    return await _async_code(prompts, completions, **columns)


def fraction_reward(
    prompts: Sequence[object],
    completions: Sequence[Completion],
    **columns: object,
) -> list[float | None]:
    """``FractionReward`` with its defaults."""
    return _fraction(prompts, completions, **columns)
