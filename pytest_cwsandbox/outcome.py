"""What a grade says: a verdict, and the reward that follows from it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self


class Verdict(StrEnum):
    """Why a completion got its reward; the wire and file form is the value."""

    PASSED = "passed"
    WRONG_ANSWER = "wrong_answer"
    RUNTIME_ERROR = "runtime_error"
    SYNTAX_ERROR = "syntax_error"
    NO_CODE = "no_code"
    MISSING_ENTRY_POINT = "missing_entry_point"
    EARLY_EXIT = "early_exit"
    INVALID_TEXT = "invalid_text"
    TIMEOUT = "timeout"
    MEMORY_LIMIT = "memory_limit"
    OUTPUT_LIMIT = "output_limit"
    SANDBOX_KILLED = "sandbox_killed"
    INFRASTRUCTURE_ERROR = "infrastructure_error"

    @property
    def reward(self) -> float | None:
        """1.0 for passed, None for infrastructure, 0.0 for everything that is the model's doing."""
        if self is Verdict.INFRASTRUCTURE_ERROR:
            return None
        return 1.0 if self is Verdict.PASSED else 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one grade.

    ``detail`` is one line for people (at most a few hundred characters); ``seconds`` is wall time
    including the sandbox's start and every retry; ``sandboxes`` counts the sandboxes it used.
    ``passed_asserts`` of ``asserts`` held, where the grade was asked to count; else both are 0.
    ``retries`` counts failures of the infrastructure that were made good on a fresh sandbox.
    """

    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0
    sandboxes: int = 0
    asserts: int = 0
    passed_asserts: int = 0
    retries: int = 0

    @property
    def reward(self) -> float | None:
        return self.verdict.reward


@dataclass(frozen=True, slots=True)
class SampleRecord:
    """One sample of a run: an item that recorded a reward.

    ``reward`` is None when the infrastructure failed; ``verdict`` is a ``Verdict`` value or "" when
    a bare number was recorded; ``seconds`` is the wall time of the item's call phase.
    ``completion`` is what was graded, as ``grader`` says: a raw "completion", the code of a
    "submission", a program by its "exit_code"; "" when no grade of ours was. ``held_out`` says with
    which asserts. ``retries`` counts failures of the infrastructure that were made good.
    """

    id: str
    group: str
    problem: str
    sample: int
    reward: float | None
    verdict: str = ""
    detail: str = ""
    seconds: float = 0.0
    worker: str = "main"
    metadata: dict[str, str] = field(default_factory=dict)
    grader: str = ""
    completion: str = ""
    held_out: bool = False
    retries: int = 0

    def to_json(self) -> dict[str, object]:
        # A run does this three times per sample; asdict would take ten times as long.
        row = {name: getattr(self, name) for name in self.__slots__}
        return row | {"metadata": dict(self.metadata)}

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form; raises ``TypeError`` on a missing or unknown field."""
        return cls(**row)  # type: ignore[arg-type]  # the field names are checked by the call itself
