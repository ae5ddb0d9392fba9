"""Grading: completions to code, code to outcomes, with the judge outside the sandbox.

Importing this room does not import the SDK.
"""

from __future__ import annotations

from pytest_cwsandbox.grading.exit_code import ExitCodeGrader
from pytest_cwsandbox.grading.extract import extract_code
from pytest_cwsandbox.grading.grader import Grader
from pytest_cwsandbox.grading.limits import Limits
from pytest_cwsandbox.grading.output import OutputGrader

__all__ = ["ExitCodeGrader", "Grader", "Limits", "OutputGrader", "extract_code"]
