"""An environment for TRL's ``environment_factory``: an agent with a sandbox, and its reward."""

from __future__ import annotations

import json
import os
import weakref
from functools import cache
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.admission import Kind
from pytest_cwsandbox.background import Background
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.pool import SandboxPool
from pytest_cwsandbox.rewards.code import CodeReward
from pytest_cwsandbox.rewards.log import warn_of_losses
from pytest_cwsandbox.rewards.session import shared_sessions
from pytest_cwsandbox.rollouts.environment import ENVIRONMENT
from pytest_cwsandbox.rollouts.sandbox_tools import COMMAND_SECONDS, FOLDER, sandbox_tools
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Callable

    from cwsandbox import OperationRef

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.grading import Limits

SUBMITTED = "Submitted."
OVER = "Error: the solution is submitted, the task is over"
LOST = "Error: the sandbox is lost"


class CodeEnvironment:
    """One episode of a coding agent: ``GRPOTrainer(environment_factory=CodeEnvironment, ...)``.

    Experimental, as ``environment_factory`` is in TRL: it may change with it.

    Every public method but ``reset`` and ``get_reward`` is a tool for the model. Each episode has a
    sandbox of its own, started by ``reset`` while the model writes, and removed when the solution
    is submitted, the reward asked for, the next episode begun, or the environment forgotten. What
    is submitted is graded in another sandbox, as by ``code_reward``, while other episodes go on.

    Settings other than the defaults: ``functools.partial(CodeEnvironment, tool_seconds=10)``.
    """

    def __init__(
        self,
        *,
        held_out: bool = True,
        limits: Limits | None = None,
        retries: int = 2,
        tool_seconds: float = COMMAND_SECONDS,
        on_infrastructure: Literal["none", "raise"] = "none",
        backend: BackendOptions | None = None,
        tags: tuple[str, ...] = (),
    ) -> None:
        self._judge = _judge(held_out, limits, retries, on_infrastructure, backend, tags)
        self._on_infrastructure = on_infrastructure
        self._retries = retries
        self._backend = backend
        self._tags = tags
        self._run = sandbox_tools(timeout_seconds=tool_seconds)["execute_code"]
        self._row: dict[str, object] = {}
        self._workplace: Workplace | None = None
        self._remove: Callable[[], object] = lambda: None
        self._grade: OperationRef[Outcome] | None = None
        self._lost = ""

    def reset(self, **row: object) -> None:
        """Begin an episode about a row of the dataset, whose columns are those of ``code_reward``.

        Raises ``ConfigurationError`` for a row that cannot be graded.
        """
        self._remove()
        self._judge.check(row)
        self._row, self._grade, self._lost = row, None, ""
        session = shared_sessions(self._backend, self._tags).agents
        # Of one sandbox: a limit that episodes share would keep some from starting until others
        # end, but TRL runs the tools of all episodes before it ends any.
        pool = SandboxPool(
            session, size=1, retries=self._retries, environment=ENVIRONMENT, kind=Kind.AGENT
        )
        workplace = Workplace(
            # Urgent, for the same reason: a service that has no room is asked again, and again.
            lambda: pool.take({"working_dir": FOLDER}, urgent=True),
            pool.give_back,
            retries=self._retries,
        )
        self._workplace = workplace
        self._remove = weakref.finalize(self, _remove, workplace, os.getpid())
        _background().start(_start_ahead(workplace))

    def execute_code(self, code: str) -> str:
        """Run a Python program in the sandbox; get its exit code, standard output and error.

        Use print to see values. Each call is a new process without input; files that it writes
        remain. A program that takes too long is stopped.

        Args:
            code: A complete Python program.

        Returns:
            The exit code, and what the program wrote.
        """
        if self._workplace is None:
            raise ConfigurationError("the environment has no episode: call reset() first")
        if self._grade is not None:
            return OVER
        if self._lost:
            return LOST
        call = self._run.call(json.dumps({"code": code}), self._workplace)
        try:
            return str(_background().submit(call).result())
        except InfrastructureError as error:  # TRL would tell the model, and train on
            self._lost = str(error)
            return LOST

    def submit_solution(self, code: str) -> str:
        """Submit the final solution and end the task.

        It is graded with tests and cannot be changed afterwards: try it out first.

        Args:
            code: The complete Python source of the solution.

        Returns:
            A confirmation.
        """
        if self._workplace is None:
            raise ConfigurationError("the environment has no episode: call reset() first")
        if self._grade is not None:
            return OVER
        if self._lost:
            return LOST
        if not isinstance(code, str):
            return "Error: code: must be a string"
        self._remove()
        # Some models hand in a whole message: then the code in it counts.
        fenced = code.lstrip().startswith("```")
        self._grade = self._judge.grade(code, self._row, is_code=not fenced)
        return SUBMITTED

    def get_reward(self) -> float | None:
        """The grade of what was submitted; 0.0 if nothing was, None if the infrastructure failed.

        Ends the episode. Raises ``InfrastructureError`` with ``on_infrastructure="raise"``.
        """
        self._remove()
        if self._lost and self._on_infrastructure == "raise":
            raise InfrastructureError(self._lost)
        if self._lost:
            outcome = Outcome(Verdict.INFRASTRUCTURE_ERROR, self._lost)
        elif self._grade is not None:
            outcome = self._grade.result()
        else:
            return 0.0
        warn_of_losses(type(self).__name__, [outcome])
        return outcome.reward


@cache
def _judge(
    held_out: bool,  # noqa: FBT001 - the cache's key
    limits: Limits | None,
    retries: int,
    on_infrastructure: Literal["none", "raise"],
    backend: BackendOptions | None,
    tags: tuple[str, ...],
) -> CodeReward:
    """One for all environments with these settings: it tests itself, and shares a judge."""
    return CodeReward(
        held_out=held_out,
        limits=limits,
        retries=retries,
        on_infrastructure=on_infrastructure,
        backend=backend,
        tags=tags,
    )


@cache
def _background() -> Background:
    return Background()


async def _start_ahead(workplace: Workplace) -> None:
    workplace.start_ahead()


def _remove(workplace: Workplace, owner: int) -> None:
    if os.getpid() == owner:  # a fork has no thread that could do it, and no right to
        _background().start(workplace.close())
