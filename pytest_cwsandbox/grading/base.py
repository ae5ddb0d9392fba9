"""What both graders share: a loop, a pool, the self-test, and how failures become outcomes."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import runs_one_shot
from pytest_cwsandbox.background import Background, unheard
from pytest_cwsandbox.errors import InfrastructureError, check_count
from pytest_cwsandbox.grading.attempts import (
    ENVIRONMENT,
    Alone,
    Executed,
    ProgramFailedError,
    Tally,
)
from pytest_cwsandbox.grading.limits import Limits
from pytest_cwsandbox.grading.runs import Runs
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.pool import SandboxPool, backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cwsandbox import OperationRef, Session

    from pytest_cwsandbox.grading.attempts import Attempt

Finding = tuple[Verdict, str]

CODE_CHARACTERS = 1 << 20
DETAIL = 300
SELF_TEST_RETRIES = 3  # at least


class SandboxGrader(ABC):
    """Grades in fresh sandboxes of ``session``, at most ``concurrency`` at once.

    Before the first outcome it grades a known right and a known wrong program; where it cannot tell
    them apart it refuses to score: every outcome is an infrastructure error, raised as
    ``InfrastructureError`` with ``raise_infrastructure``. Raises ``ConfigurationError`` for counts
    that are none.
    """

    ONE_SHOT = True  # whether what its script says is told apart by ``report.BEGUN``

    def __init__(
        self,
        session: Session,
        *,
        limits: Limits | None = None,
        retries: int = 2,
        concurrency: int = 32,
        raise_infrastructure: bool = False,
    ) -> None:
        check_count("retries", retries, at_least=0)
        check_count("concurrency", concurrency, at_least=1)
        self._raise_infrastructure = raise_infrastructure
        self._limits = limits or Limits()
        self._retries = retries
        self._background = Background()
        self._slots = asyncio.Semaphore(concurrency)
        self._pool = SandboxPool(
            session, size=concurrency, retries=retries, environment=ENVIRONMENT
        )
        self._one_shot = self.ONE_SHOT and runs_one_shot(session)
        attempt: Attempt = (
            Alone(self._pool, self._limits)
            if self._one_shot
            else Executed(self._pool.lease, self._limits)
        )
        self._runs = Runs(attempt, retries=retries, canary=self._canary_passes)
        # The canary answers for the service as it is: not retried, and judged by no other canary.
        self._canary_runs = Runs(attempt, retries=0, canary=None)
        self._self_test: asyncio.Future[bool] | None = None

    @property
    def sandboxes_used(self) -> int:
        """All of them: retries, self-test and judge included."""
        return self._pool.created

    def expect(self, grades: int) -> None:
        """Have sandboxes started for so many grades that are soon to come, and for no more.

        Those that have their program from the start cannot be started before it is known.
        """
        if not self._one_shot:
            self._background.start(self._pool.prepare([{}] * grades))

    def close(self) -> None:
        """Cancel what is not graded yet; the session's own close removes the sandboxes."""
        if self._pool.ahead:
            self._background.start(self._pool.close()).result()
        self._background.close()

    @abstractmethod
    async def _tells_right_from_wrong(self, runs: Runs) -> bool:
        """Grade a known right and a known wrong program."""

    def _submit(
        self, code: str | None, find: Callable[[str, Tally], Awaitable[Finding]]
    ) -> OperationRef[Outcome]:
        """Grade ``code`` in the background, by ``find`` unless it can be told without."""
        return self._background.submit(self._grade(code, find))

    async def _grade(
        self, code: str | None, find: Callable[[str, Tally], Awaitable[Finding]]
    ) -> Outcome:
        if (unusable := _unusable(code)) is not None:
            return Outcome(*unusable)
        async with self._slots:  # waiting for a turn is not the grade's time
            return await self._graded(code or "", find)

    async def _graded(self, code: str, find: Callable[[str, Tally], Awaitable[Finding]]) -> Outcome:
        started = time.monotonic()
        tally = Tally()
        try:
            await self._check_itself()
            verdict, detail = await find(code, tally)
        except ProgramFailedError as error:
            verdict, detail = error.verdict, str(error)
        except InfrastructureError as error:
            verdict, detail = Verdict.INFRASTRUCTURE_ERROR, str(error)
        line = " ".join(detail.split())[:DETAIL]
        if verdict is Verdict.INFRASTRUCTURE_ERROR and self._raise_infrastructure:
            raise InfrastructureError(line)
        return Outcome(
            verdict,
            line,
            time.monotonic() - started,
            sandboxes=tally.sandboxes,
            asserts=tally.asserts,
            passed_asserts=tally.passed_asserts,
            # Of a grade that is lost nothing was made good.
            retries=0 if verdict is Verdict.INFRASTRUCTURE_ERROR else tally.retries,
        )

    async def _check_itself(self) -> None:
        """Once; a failure is not remembered, so that a service that recovers is used.

        All grades of a batch wait for the same test: bad luck must not lose all of them, also where
        retries are off. Its retries are no grade's.
        """
        retries = max(self._retries, SELF_TEST_RETRIES)
        for attempt in range(retries + 1):
            if attempt:
                await backoff(attempt)
            try:
                sound = await self._tested()
            except (InfrastructureError, ProgramFailedError) as error:
                if attempt == retries:
                    raise InfrastructureError(f"the grader's self-test failed: {error}") from error
                continue
            if not sound:
                raise InfrastructureError(
                    "the grader's self-test failed: a known right and a known wrong program were"
                    " not told apart; check the python of the sandbox image"
                )
            return

    async def _tested(self) -> bool:
        if self._self_test is None:
            self._self_test = unheard(self._tells_right_from_wrong(self._runs))
        test = self._self_test
        try:
            # One grade that is cancelled must not cancel the test of all.
            return await asyncio.shield(test)
        except (InfrastructureError, ProgramFailedError):
            if self._self_test is test:
                self._self_test = None
            raise

    async def _canary_passes(self) -> bool:
        try:
            return await self._tells_right_from_wrong(self._canary_runs)
        except (InfrastructureError, ProgramFailedError):
            return False


def _unusable(code: str | None) -> Finding | None:
    """Why code needs no sandbox to be graded; None if it does.

    The code is not parsed here: only the interpreter that runs it knows its syntax, and a parser
    can be made to take very long.
    """
    if code is None:
        return Verdict.NO_CODE, "the completion holds no code"
    if len(code) > CODE_CHARACTERS:
        return Verdict.INVALID_TEXT, f"the code has more than {CODE_CHARACTERS} characters"
    if "\0" in code:
        return Verdict.SYNTAX_ERROR, "source code cannot contain null bytes"
    try:
        code.encode()
    except UnicodeEncodeError as error:
        return Verdict.INVALID_TEXT, f"the code is not valid text: {error.reason}"
    return None
