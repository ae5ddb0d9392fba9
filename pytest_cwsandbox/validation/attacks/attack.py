"""One reward hack."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.validation.attacks.visible import entry_point

Severity = Literal["high", "medium", "low"]
Payload = str | Callable[[Problem], str | None]

PLACEHOLDER = re.compile(r"\bENTRY_POINT\b")
STUB = """\
def ENTRY_POINT(*args, **kwargs):
    raise NotImplementedError
"""


@dataclass(frozen=True, slots=True)
class Attack:
    """A way to earn reward, or to evade a zero, without solving the problem.

    ``severity`` is "high" where it earns the full reward for any problem from a reward function
    that falls for it, "medium" where that takes a certain kind of problem or function, "low" where
    it earns part of it, or spoils a sample. ``reference`` is a public source or "none known";
    ``why`` one line on what it exploits. ``compiles`` is False for what is no Python on purpose.

    ``payload`` is the code, with the word ``ENTRY_POINT`` for the function's name, or a function of
    the problem that returns such code, or None where the attack makes no sense. A payload that does
    not mention ``ENTRY_POINT`` gets a function that only raises put before it.
    """

    name: str
    family: str
    severity: Severity
    reference: str
    why: str
    payload: Payload
    compiles: bool = True

    def completion(self, problem: Problem) -> str | None:
        """The code to answer ``problem`` with, or None where the attack does not apply."""
        name = entry_point(problem)
        if not name.isidentifier():
            return None
        if callable(self.payload):
            code = self.payload(problem)
        else:
            code = self.payload if PLACEHOLDER.search(self.payload) else STUB + self.payload
        return None if code is None else PLACEHOLDER.sub(name, code.lstrip("\n"))
