"""What is told while work is under way: debug logs of executions, and alerts to W&B.

Loggers: ``pytest_cwsandbox.rollouts`` for what agents run, ``pytest_cwsandbox.grading`` for grades.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Mapping

    from cwsandbox import ProcessResult, Sandbox

    R = TypeVar("R", ProcessResult, ProcessResult | None)

ROLLOUTS = logging.getLogger("pytest_cwsandbox.rollouts")
GRADING = logging.getLogger("pytest_cwsandbox.grading")

_step: ContextVar[int | None] = ContextVar("step", default=None)


class WandbRun(Protocol):
    """What we need of a W&B run."""

    def log(self, data: Mapping[str, float], *, step: int) -> None: ...

    def alert(self, title: str, text: str, level: str) -> None: ...


def active_run() -> WandbRun | None:
    """The active W&B run; wandb, which takes seconds to import, is never imported for it."""
    return getattr(sys.modules.get("wandb"), "run", None)


@contextlib.contextmanager
def training_step(step: int) -> Iterator[None]:
    """What is started in this block belongs to a training step: the logs of executions name it."""
    token = _step.set(step)
    try:
        yield
    finally:
        _step.reset(token)


@contextlib.contextmanager
def uncounted(sandbox: Sandbox) -> Iterator[None]:
    """What is executed in this block is ours and not the agent's: no metric counts it.

    For what cannot run in a sandbox of its own, such as a test of the state that an agent left.
    """
    session, sandbox._session = sandbox._session, None  # noqa: SLF001 - the SDK offers no other way
    try:
        yield
    finally:
        sandbox._session = session  # noqa: SLF001


async def logged(logger: logging.Logger, sandbox: Sandbox, execution: Awaitable[R]) -> R:
    """Wait for an execution, and write a debug line about it.

    The record has ``step`` (None without one), ``sandbox_id``, ``returncode`` (None when it failed
    to end), ``stdout_len`` and ``stderr_len`` in characters, ``seconds`` and ``error``.
    """
    if not logger.isEnabledFor(logging.DEBUG):
        return await execution
    started = time.monotonic()
    try:
        result = await execution
    except BaseException as error:
        _write(logger, sandbox, None, started, str(error) or type(error).__name__)
        raise
    _write(logger, sandbox, result, started, "" if result else "too much output")
    return result


def _write(
    logger: logging.Logger,
    sandbox: Sandbox,
    result: ProcessResult | None,
    started: float,
    error: str,
) -> None:
    facts = {
        "step": _step.get(),
        "sandbox_id": sandbox.sandbox_id,
        "returncode": result.returncode if result else None,
        "stdout_len": len(result.stdout) if result else 0,
        "stderr_len": len(result.stderr) if result else 0,
        "seconds": time.monotonic() - started,
        "error": error,
    }
    logger.debug(
        "step %(step)s, sandbox %(sandbox_id)s: exit code %(returncode)s, stdout %(stdout_len)d, "
        "stderr %(stderr_len)d characters, %(seconds).3f s %(error)s",
        facts,
        extra=facts,
    )
