"""Programs that are judged by what they print."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pytest_cwsandbox.grading.attempts import Tally
from pytest_cwsandbox.grading.base import SandboxGrader
from pytest_cwsandbox.grading.extract import extract_code, normalise
from pytest_cwsandbox.grading.scripts import script
from pytest_cwsandbox.outcome import Outcome, Verdict

if TYPE_CHECKING:
    from cwsandbox import OperationRef

    from pytest_cwsandbox.grading.base import Finding
    from pytest_cwsandbox.grading.runs import Runs

SYNTAX_ERROR, TIMEOUT = 65, 124  # exit codes of printing.py
SHOWN = 100


class OutputGrader(SandboxGrader):
    """Runs whole programs and compares their standard output, outside the sandbox.

    The expected output never enters the sandbox. Still this is weaker than asserts: a program that
    prints a constant is right, whatever it was asked to compute.
    """

    ONE_SHOT = False  # the program's own words could be taken for the sandbox's

    def grade(self, completion: str, expected: str) -> OperationRef[Outcome]:
        """Grade a raw completion: right if its code exits with 0 and prints ``expected``.

        White space at the end of lines and of the output does not count.
        """
        return self._grade_as(extract_code(completion, ""), expected)

    def grade_code(self, code: str, expected: str) -> OperationRef[Outcome]:
        """Grade what is code already, with nothing around it."""
        return self._grade_as(normalise(code), expected)

    def _grade_as(self, code: str | None, expected: str) -> OperationRef[Outcome]:
        written = code if code and code.strip() else None
        return self._submit(written, partial(self._find, expected))

    async def _find(self, expected: str, code: str, tally: Tally) -> Finding:
        return await _find(self._runs, code, expected, tally)

    async def _tells_right_from_wrong(self, runs: Runs) -> bool:
        verdicts = [
            (await _find(runs, f"print({text!r})", "right", Tally()))[0]
            for text in ("right", "wrong")
        ]
        return verdicts == [Verdict.PASSED, Verdict.WRONG_ANSWER]


async def _find(runs: Runs, code: str, expected: str, tally: Tally) -> Finding:
    ended = await runs.run(script("guard", "printing"), [code], tally)
    if ended.returncode == SYNTAX_ERROR:
        return Verdict.SYNTAX_ERROR, "the program is no valid Python"
    if ended.returncode == TIMEOUT:
        return Verdict.TIMEOUT, "the program took too long"
    if ended.returncode:
        return Verdict.RUNTIME_ERROR, f"the program left with exit code {ended.returncode}"
    printed = _trimmed(ended.output.decode(errors="replace"))
    if printed == _trimmed(expected):
        return Verdict.PASSED, ""
    return Verdict.WRONG_ANSWER, f"it printed {printed[:SHOWN]!r}"


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in normalise(text).split("\n")).rstrip()
