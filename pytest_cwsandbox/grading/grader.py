"""The grader: a problem and a completion in, an outcome out."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.grading.asserts import read_tests
from pytest_cwsandbox.grading.attempts import Tally
from pytest_cwsandbox.grading.base import SandboxGrader
from pytest_cwsandbox.grading.extract import extract_code, normalise
from pytest_cwsandbox.grading.judge import Judge, compare
from pytest_cwsandbox.grading.report import VERDICTS, read_items
from pytest_cwsandbox.grading.scripts import script
from pytest_cwsandbox.grading.values import MalformedValueError
from pytest_cwsandbox.outcome import Outcome, Verdict
from pytest_cwsandbox.problems.problem import Problem

if TYPE_CHECKING:
    from cwsandbox import OperationRef, Session

    from pytest_cwsandbox.grading.asserts import Tests
    from pytest_cwsandbox.grading.base import Finding
    from pytest_cwsandbox.grading.limits import Limits
    from pytest_cwsandbox.grading.report import Item
    from pytest_cwsandbox.grading.runs import Runs

# Two programs in one sandbox, the first right, the second wrong.
SELF_TEST = Problem(
    task_id="self-test",
    prompt="",
    test_list=("assert right([1, 2]) == {'sum': 3}", "assert wrong([1, 2]) == {'sum': 3}"),
    entry_point="right",
)
SELF_TEST_CODE = """\
def right(numbers):
    return {"sum": sum(numbers)}
def wrong(numbers):
    return {"sum": len(numbers)}
"""


class Grader(SandboxGrader):
    """Grades completions; the expected values never enter a sandbox that holds one.

    ``held_out`` adds a problem's ``challenge_test_list`` to its asserts. ``count_asserts`` decides
    every assert and tells how many hold, instead of stopping at the first that does not.
    """

    def __init__(
        self,
        session: Session,
        *,
        limits: Limits | None = None,
        retries: int = 2,
        concurrency: int = 32,
        raise_infrastructure: bool = False,
        held_out: bool = False,
        count_asserts: bool = False,
    ) -> None:
        super().__init__(
            session,
            limits=limits,
            retries=retries,
            concurrency=concurrency,
            raise_infrastructure=raise_infrastructure,
        )
        self._held_out = held_out
        self._count_asserts = count_asserts
        self._judge = Judge(
            session,
            limits=self._limits,
            retries=retries,
            concurrency=concurrency,
            canary=self._canary_passes,
        )

    @property
    def sandboxes_used(self) -> int:
        """All of them: retries, self-test and judge included."""
        return super().sandboxes_used + self._judge.pool.created

    def grade(
        self, problem: Problem, completion: str, *, held_out: bool | None = None
    ) -> OperationRef[Outcome]:
        """Grade a raw completion; ``held_out`` overrides the grader's own setting.

        Raises ``ConfigurationError`` at once for a problem that cannot be graded.
        """
        tests = _tests(problem, self._held_out if held_out is None else held_out)
        return self._grade_as(tests, extract_code(completion, tests.entry_point))

    def grade_code(
        self, problem: Problem, code: str, *, held_out: bool | None = None
    ) -> OperationRef[Outcome]:
        """Grade what is code already, with nothing around it. Raises as ``grade`` does."""
        tests = _tests(problem, self._held_out if held_out is None else held_out)
        return self._grade_as(tests, normalise(code))

    def check(self, problem: Problem, *, held_out: bool | None = None) -> None:
        """Raise ``ConfigurationError`` for a problem that cannot be graded."""
        _tests(problem, self._held_out if held_out is None else held_out)

    def _grade_as(self, tests: Tests, code: str | None) -> OperationRef[Outcome]:
        written = code if code and code.strip() else None
        return self._submit(written, partial(self._find, tests))

    def close(self) -> None:
        super().close()
        self._judge.close()

    async def _find(self, tests: Tests, code: str, tally: Tally) -> Finding:
        if self._count_asserts:
            tally.asserts = len(tests.checks)
        found = await _evaluate(self._runs, tests, code, tally)
        if not isinstance(found, list):
            return found
        if not self._count_asserts:
            return await self._judge.decide(tests, found, tally)
        findings = await self._judge.decide_each(tests, found, tally)
        failed = [finding for finding in findings if finding[0] is not Verdict.PASSED]
        tally.passed_asserts = len(findings) - len(failed)
        return failed[0] if failed else findings[0]

    async def _tells_right_from_wrong(self, runs: Runs) -> bool:
        tests = _tests(SELF_TEST, held_out=False)
        found = await _evaluate(runs, tests, SELF_TEST_CODE, Tally())
        if not isinstance(found, list):
            return False
        verdicts = [compare(check, found[check.calls[0]])[0] for check in tests.checks]
        return verdicts == [Verdict.PASSED, Verdict.WRONG_ANSWER]


async def _evaluate(runs: Runs, tests: Tests, code: str, tally: Tally) -> list[Item] | Finding:
    """What each of the tests' calls gave, or why there is nothing to judge."""
    names, modules = " ".join(tests.names), " ".join(tests.modules)
    ended = await runs.run(
        script("guard", "worker"),
        [tests.imports, code, tests.setup, names, modules, *tests.calls],
        tally,
    )
    try:
        items = read_items(ended.output, at_most=max(1, len(tests.calls)))
    except MalformedValueError:
        items = []
    if len(items) == 1 and items[0].tag in VERDICTS:
        return VERDICTS[items[0].tag], items[0].text
    if len(items) == len(tests.calls) and all(item.tag in {"V", *VERDICTS} for item in items):
        return items
    if ended.signal:
        return Verdict.RUNTIME_ERROR, f"the program was ended by signal {ended.signal}"
    return Verdict.EARLY_EXIT, f"the program left with exit code {ended.returncode}"


@lru_cache(maxsize=4096)
def _tests(problem: Problem, held_out: bool) -> Tests:  # noqa: FBT001 - the cache's key
    return read_tests(problem, held_out=held_out)
