"""The judge: compares the solution's values with what the tests expect, outside its sandbox."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.grading.attempts import ENVIRONMENT, Executed, ProgramFailedError, Tally
from pytest_cwsandbox.grading.report import VERDICTS, Item, read_items
from pytest_cwsandbox.grading.runs import Runs
from pytest_cwsandbox.grading.scripts import script
from pytest_cwsandbox.grading.values import MalformedValueError, decode, truth
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.pool import SandboxPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from cwsandbox import Sandbox, Session

    from pytest_cwsandbox.grading.asserts import Tests
    from pytest_cwsandbox.grading.attempts import Ended
    from pytest_cwsandbox.grading.base import Finding
    from pytest_cwsandbox.grading.limits import Limits
    from pytest_cwsandbox.grading.split import Check

PASSED = (Verdict.PASSED, "")
# Of the judge at once, in its one sandbox: one for so many grades, within what it has of memory.
GRADES, FEWEST, MOST = 8, 4, 32
SHOWN = 200


class Judge:
    """Decides every assert of a problem from the values that came back.

    Asserts that need execution run in one sandbox that never sees a solution: started when first
    needed, shared, and replaced when anything in it fails. What failed there is tried again in a
    sandbox of its own, so that no grade pays for what the values of another did. ``concurrency`` is
    the number of grades at once.
    """

    def __init__(
        self,
        session: Session,
        *,
        limits: Limits,
        retries: int,
        concurrency: int,
        canary: Callable[[], Awaitable[bool]],
    ) -> None:
        processes = min(MOST, max(FEWEST, concurrency // GRADES))
        self.pool = SandboxPool(
            session, size=2 * processes, retries=retries, environment=ENVIRONMENT
        )
        self._canary = canary
        self._alone = Runs(Executed(self.pool.lease, limits), retries=retries, canary=canary)
        # Nothing that happens to a shared sandbox is held against a program.
        self._together = Runs(Executed(self._lease, limits), retries=0, canary=None)
        self._starting = asyncio.Lock()
        self._turns = asyncio.Semaphore(processes)
        self._shared: _Shared | None = None

    async def decide(self, tests: Tests, items: Sequence[Item], tally: Tally) -> Finding:
        """The finding of the first assert that fails, or passed. Raises as ``Runs.run`` does."""
        judged = [check for check in tests.checks if check.kind == "judged"]
        for index, check in enumerate(tests.checks):
            if check.kind == "judged":
                continue
            finding = compare(check, items[check.calls[0]])
            if finding is not PASSED:
                # An assert before it that only the judge can decide may fail first.
                judged = [c for c in tests.checks[:index] if c.kind == "judged"]
                break
        else:
            finding = PASSED
        return await self._evaluate(tests, judged, items, tally) or finding

    async def decide_each(self, tests: Tests, items: Sequence[Item], tally: Tally) -> list[Finding]:
        """The finding of every assert, each on its own. Raises as ``Runs.run`` does."""
        return [
            await self._evaluate(tests, [check], items, tally) or PASSED
            if check.kind == "judged"
            else compare(check, items[check.calls[0]])
            for check in tests.checks
        ]

    async def _evaluate(
        self, tests: Tests, checks: Sequence[Check], items: Sequence[Item], tally: Tally
    ) -> Finding | None:
        """The finding of the first of ``checks`` that fails; None if all hold.

        A failure of the shared sandbox counts as one of the infrastructure: what the values of this
        grade do to it they do again.
        """
        if not checks:
            return None
        arguments = [
            tests.judge_setup,
            str(len(checks)),
            *(check.source for check in checks),
            *(item.tag + item.text for item in items),
        ]
        code = script("values", "guard", "evaluate")
        judging = Tally()  # its sandboxes are the judge's, not the grade's
        try:
            ended = await self._together.run(code, arguments, judging)
            answers = _answers(ended, len(checks))
        except InfrastructureError:
            judging.retries += 1
            answers = []
        if not answers:
            ended = await self._alone.run(code, arguments, judging)
            answers = _answers(ended, len(checks))
        tally.retries += judging.retries
        if not answers:
            end = f"signal {ended.signal}" if ended.signal else f"exit code {ended.returncode}"
            if not await self._canary():
                raise InfrastructureError(
                    f"the judge gave no answer ({end}), and a known right program fails as well"
                )
            return Verdict.WRONG_ANSWER, f"its value ended the judge by {end}, twice"
        held = len([answer for answer in answers if answer.tag == "P"])
        if held == len(answers):
            return None
        last, check = answers[-1], checks[min(held, len(checks) - 1)]
        if last.tag == "T":
            return Verdict.TIMEOUT, f"{_short(check.text)}: judging its value took too long"
        failed = [items[call] for call in check.calls if items[call].tag != "V"]
        if last.tag == "R" and failed:
            return _failed(check, failed[0])
        why = last.text if last.tag == "R" else _got(check, items)
        return Verdict.WRONG_ANSWER, f"{_short(check.text)}: {why}"

    @asynccontextmanager
    async def _lease(self, tally: Tally) -> AsyncIterator[Sandbox]:
        async with self._turns:
            async with self._starting:
                if self._shared is None:
                    self._shared = _Shared(await self.pool.take(tally=tally))
                shared = self._shared
                shared.users += 1
                self.pool.busy(shared.sandbox)
            try:
                yield shared.sandbox
            except (ProgramFailedError, ConfigurationError):
                raise  # the tests' end, not the sandbox's
            except BaseException:
                if self._shared is shared:
                    self._shared = None
                raise
            finally:
                shared.users -= 1
                if self._shared is not shared and not shared.users:
                    self.pool.give_back(shared.sandbox)
                elif not shared.users:
                    self._keep(shared)

    def _keep(self, shared: _Shared) -> None:
        """Keep it for the next grade, unless somebody needs its place."""
        self.pool.idle(shared.sandbox, partial(self._let_go, shared))

    def _let_go(self, shared: _Shared) -> None:
        if self._shared is shared and not shared.users:
            self.close()

    def close(self) -> None:
        if self._shared is not None:
            self.pool.give_back(self._shared.sandbox)
            self._shared = None


@dataclass(slots=True)
class _Shared:
    """A sandbox, and how many use it: it is removed when it failed and the last one left."""

    sandbox: Sandbox
    users: int = 0


def _answers(ended: Ended, checks: int) -> list[Item]:
    """What the judge said: a pass for every check, or for all before the first that fails."""
    try:
        answers = read_items(ended.output, at_most=checks)
    except MalformedValueError:
        return []
    held = [answer.tag for answer in answers].count("P")
    failed = held + 1 == len(answers) and answers[-1].tag != "P"
    return answers if failed or held == len(answers) == checks else []


def compare(check: Check, item: Item) -> Finding:
    """Decide an assert that needs no execution."""
    if item.tag != "V":
        return _failed(check, item)
    try:
        if check.kind == "truth":
            holds = truth(item.text) is check.expected
            return PASSED if holds else _wrong(check, item)
        value = decode(item.text, limit=4 * _size(check.expected) + 16)
        same = check.kind == "same"
        holds = value is check.expected if same else bool(value == check.expected)
    except MalformedValueError:  # also a value far larger than the expected one
        holds = False
    except Exception as error:  # noqa: BLE001 - the assert itself would have raised it
        return Verdict.RUNTIME_ERROR, f"{_short(check.text)}: {type(error).__name__}: {error}"[
            :SHOWN
        ]
    return PASSED if holds else _wrong(check, item)


def _size(value: object) -> int:
    """How many values a literal is made of; equal values are made of equally many."""
    if isinstance(value, dict):
        return 1 + sum(_size(key) + _size(item) for key, item in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return 1 + sum(map(_size, value))
    return 1


def _wrong(check: Check, item: Item) -> Finding:
    return Verdict.WRONG_ANSWER, f"{_short(check.text)}: got {_shown(item)}"


def _failed(check: Check, item: Item) -> Finding:
    return VERDICTS[item.tag], f"{_short(check.text)}: {item.text or VERDICTS[item.tag]}"


def _got(check: Check, items: Sequence[Item]) -> str:
    return "got " + ", ".join(_shown(items[call]) for call in check.calls)


def _shown(item: Item) -> str:
    if len(item.text) > SHOWN:
        return "a large value"
    try:
        return repr(decode(item.text))[:SHOWN]
    except MalformedValueError:
        return "no value"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHOWN else line[: SHOWN - 3] + "..."
