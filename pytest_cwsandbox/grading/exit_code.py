"""The naive reward of most examples: a program earns 1.0 if it exits with 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.grading.attempts import Tally
from pytest_cwsandbox.grading.base import SandboxGrader
from pytest_cwsandbox.grading.extract import normalise
from pytest_cwsandbox.grading.report import VERDICTS, read_items
from pytest_cwsandbox.grading.scripts import script
from pytest_cwsandbox.grading.values import MalformedValueError
from pytest_cwsandbox.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from cwsandbox import OperationRef

    from pytest_cwsandbox.grading.base import Finding
    from pytest_cwsandbox.grading.runs import Runs


class ExitCodeGrader(SandboxGrader):
    """Grades whole programs as ``python -c`` would, for those that come without asserts.

    A program decides about its own reward here: fit for examples, not for training.
    """

    def grade(self, code: str) -> OperationRef[Outcome]:
        """Run the program; reward 1.0 if it exits with 0, else 0.0."""
        return self._submit(normalise(code), self._find)

    async def _find(self, code: str, tally: Tally) -> Finding:
        return await _find(self._runs, code, tally)

    async def _tells_right_from_wrong(self, runs: Runs) -> bool:
        verdicts = [(await _find(runs, code, Tally()))[0] for code in ("pass", "assert 1 == 2")]
        return verdicts == [Verdict.PASSED, Verdict.RUNTIME_ERROR]


async def _find(runs: Runs, code: str, tally: Tally) -> Finding:
    ended = await runs.run(script("guard", "program"), [code], tally)
    try:
        items = read_items(ended.output, at_most=1)
    except MalformedValueError:
        items = []
    if len(items) == 1 and items[0].tag in VERDICTS:
        return VERDICTS[items[0].tag], "the program did not come to its end"
    if ended.returncode == 0:
        return Verdict.PASSED, ""
    return Verdict.RUNTIME_ERROR, f"the program left with exit code {ended.returncode}"
