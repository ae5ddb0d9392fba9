"""A problem: what the model is asked, and how an answer is judged."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One MBPP-style problem.

    ``task_id`` is unique within its ``source`` ("bundled", "mbpp", a file's stem, ...).
    ``test_list`` and ``challenge_test_list`` are ``assert`` statements, the second held out from
    the model.
    ``test_setup_code`` runs after the solution and may use its classes. ``entry_point`` may be ""
    where a dataset does not state it; the grader then infers it from the asserts.
    """

    task_id: str
    prompt: str
    test_list: tuple[str, ...]
    entry_point: str = ""
    test_imports: tuple[str, ...] = ()
    test_setup_code: str = ""
    challenge_test_list: tuple[str, ...] = ()
    reference_solution: str = ""
    split: str = ""
    source: str = ""

    @property
    def id(self) -> str:
        """Id for people and pytest, such as ``mbpp-11``."""
        return f"{self.source}-{self.task_id}" if self.source else self.task_id

    def to_json(self) -> dict[str, object]:
        return asdict(self)
