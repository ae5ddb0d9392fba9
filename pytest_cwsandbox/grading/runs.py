"""One program, and whose fault it is when that fails.

Three rules. What the service reports as its own failure is retried and never the program's doing.
A sandbox that dies under the program, and a program that nobody ended in time, may be either's:
when it happens again on a fresh sandbox the canary, a program known to be right, decides. The
second look is evidence and no retry: it is taken where retries are off as well. And what was said
before the program began is not the program's: it never got to run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.grading.attempts import ProgramFailedError, SuspectError
from pytest_cwsandbox.pool import backoff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pytest_cwsandbox.grading.attempts import Attempt, Ended, Tally
    from pytest_cwsandbox.grading.scripts import Script


class Runs:
    """Runs scripts with retries, each time by ``attempt``.

    ``canary`` tells whether a right program passes on a fresh sandbox. Without one nobody knows
    whose fault a suspicious failure is: it counts as the infrastructure's, with no second look.
    """

    def __init__(
        self,
        attempt: Attempt,
        *,
        retries: int,
        canary: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        self._attempt = attempt
        self._retries = retries
        self._canary = canary

    async def run(self, script: Script, arguments: Sequence[str], tally: Tally) -> Ended:
        """Run ``script`` until it ended by itself.

        Raises ``ProgramFailedError``, ``InfrastructureError``, or ``ConfigurationError`` where
        imports or setup of the tests fail.
        """
        failures = suspicions = 0
        while True:
            if again := failures + suspicions:
                await backoff(again)
            try:
                ended = await self._attempt(script, arguments, tally)
            except SuspectError as suspicion:
                if self._canary is None:
                    raise InfrastructureError(str(suspicion)) from suspicion
                suspicions += 1
                if suspicions < 2:
                    continue
                if not await self._canary():
                    raise InfrastructureError(
                        f"{suspicion}, and a known right program fails as well"
                    ) from suspicion
                raise ProgramFailedError(
                    suspicion.verdict, f"{suspicion}, also on a fresh sandbox"
                ) from suspicion
            except InfrastructureError:
                failures += 1
                if failures > self._retries:
                    raise
                tally.retries += 1
            else:
                # A program that kills its sandbox does so again: one suspicion was no program's.
                tally.retries += suspicions
                return ended
