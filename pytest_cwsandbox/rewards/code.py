"""The reward for code: the hardened grade of each completion, in parallel."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.grading import Grader, Limits
from pytest_cwsandbox.rewards.columns import problems_of, text_of
from pytest_cwsandbox.rewards.session import shared_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.rewards.columns import Completion


class CodeReward:
    """A reward function for TRL's trainers: 1.0 for code that passes its tests, else 0.0.

    Each completion with code is graded in a sandbox of its own, all in parallel; one without code
    earns 0.0 without a sandbox. Where the sandboxes fail after every retry the reward is None,
    which TRL leaves out of its group, or ``InfrastructureError`` with
    ``on_infrastructure="raise"``.
    ``held_out`` adds a problem's ``challenge_test_list`` to its asserts, where it has one.
    """

    def __init__(
        self,
        *,
        held_out: bool = True,
        limits: Limits | None = None,
        retries: int = 2,
        concurrency: int = 32,
        on_infrastructure: Literal["none", "raise"] = "none",
        backend: BackendOptions | None = None,
    ) -> None:
        if on_infrastructure not in {"none", "raise"}:
            raise ValueError(
                f'on_infrastructure must be "none" or "raise", not {on_infrastructure!r}'
            )
        self.__name__ = "code_reward"  # what trainers log the reward as
        self._held_out = held_out
        self._limits = limits
        self._retries = retries
        self._concurrency = concurrency
        self._on_infrastructure = on_infrastructure
        self._backend = backend
        self._lock = threading.Lock()
        self._graders: dict[int, Grader] = {}  # by process: none survives a fork

    def __call__(
        self,
        prompts: Sequence[object],
        completions: Sequence[Completion],
        **columns: object,
    ) -> list[float | None]:
        """Rewards of ``completions``, in their order; ``columns`` as of ``problems_of``."""
        del prompts
        return [outcome.reward for outcome in self.outcomes(completions, **columns)]

    def outcomes(self, completions: Sequence[Completion], **columns: object) -> list[Outcome]:
        """What lies behind the rewards: verdicts and details."""
        problems = problems_of(columns, len(completions))
        grader = self._grader()
        refs = [
            grader.grade(problem, text_of(completion), held_out=self._held_out)
            for problem, completion in zip(problems, completions, strict=True)
        ]
        return [ref.result() for ref in refs]

    def _grader(self) -> Grader:
        with self._lock:
            if os.getpid() not in self._graders:
                self._graders[os.getpid()] = Grader(
                    shared_session(self._backend),
                    limits=self._limits,
                    retries=self._retries,
                    concurrency=self._concurrency,
                    raise_infrastructure=self._on_infrastructure == "raise",
                )
            return self._graders[os.getpid()]


_default = CodeReward()


def code_reward(
    prompts: Sequence[object],
    completions: Sequence[Completion],
    **columns: object,
) -> list[float | None]:
    """``CodeReward`` with its defaults."""
    return _default(prompts, completions, **columns)
