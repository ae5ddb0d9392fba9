"""What programs answer to many calls, found out in a sandbox."""

from __future__ import annotations

import ast
import asyncio
import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.grading.attempts import ENVIRONMENT
from pytest_cwsandbox.pool import SandboxPool, backoff

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.problems.problem import Problem

Kind = Literal["value", "other", "error", "timeout", "died", "skipped"]

BATCH = 100  # programs per sandbox: what one exec loses when it fails
CONCURRENCY = 2
PATIENCE = 3
RETRIES = 2
PATH = "/tmp/programs.json"  # noqa: S108 - inside the sandbox
# A reference that needs longer says nothing about a mutant that runs out of time.
REFERENCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Program:
    """Code, and the expressions to evaluate after it in the same namespace."""

    code: str
    calls: tuple[str, ...]
    setup: str = ""
    imports: str = ""

    @classmethod
    def of(cls, problem: Problem, code: str, calls: Sequence[str]) -> Program:
        """The code between the problem's imports and setup, as in grading."""
        return cls(code, tuple(calls), problem.test_setup_code, "\n".join(problem.test_imports))


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave.

    ``text`` is the source of a plain value, the class of any other value or exception, or how a
    process died. Calls of a program that ran out of time too often are skipped.
    """

    kind: Kind
    text: str = ""

    def __str__(self) -> str:
        return self.text if self.kind == "value" else f"{self.kind} {self.text}".strip()

    def same(self, other: Answer) -> bool:
        """Whether both are plain values that are equal, as an assert would compare them."""
        if self.kind != "value" or other.kind != "value":
            return False
        return self.text == other.text or bool(
            ast.literal_eval(self.text) == ast.literal_eval(other.text)
        )

    def differs(self, other: Answer) -> bool:
        """Whether they are known to differ: of values that are not plain nothing is known."""
        known = {self.kind, other.kind}.isdisjoint(("other", "skipped"))
        return known and self != other and not self.same(other)


async def answers(
    session: Session, code: str, setup: str, calls: Sequence[str], *, seconds_per_call: float = 1.0
) -> list[Answer]:
    """One program's answers, in the order of the calls. Raises as ``answers_of`` does."""
    program = Program(code, tuple(calls), setup)
    return (await answers_of(session, [program], seconds_per_call=seconds_per_call))[0]


async def reference_answers(
    session: Session, problem: Problem, calls: Sequence[str]
) -> list[Answer]:
    """The reference solution's answers; "other" where it answers twice, but not the same.

    Raises as ``answers_of`` does.
    """
    program = Program.of(problem, problem.reference_solution, calls)
    once, again = await answers_of(session, [program] * 2, seconds_per_call=REFERENCE_SECONDS)
    return [
        Answer("other", "unsteady") if first.differs(second) else first
        for first, second in zip(once, again, strict=True)
    ]


async def answers_of(
    session: Session,
    programs: Sequence[Program],
    *,
    seconds_per_call: float = 1.0,
    patience: int = PATIENCE,
) -> list[list[Answer]]:
    """Every program's answers, in order; a program is given up after ``patience`` timeouts.

    ``seconds_per_call`` is CPU time. Raises ``InfrastructureError`` when a sandbox fails again and
    again.
    """
    pool = SandboxPool(session, size=CONCURRENCY, retries=RETRIES, environment=ENVIRONMENT)
    batches = [programs[start : start + BATCH] for start in range(0, len(programs), BATCH)]
    running = [
        asyncio.ensure_future(_run(pool, batch, seconds_per_call, patience)) for batch in batches
    ]
    try:
        return [found for batch in await asyncio.gather(*running) for found in batch]
    finally:
        for task in running:
            task.cancel()


async def _run(
    pool: SandboxPool, programs: Sequence[Program], seconds: float, patience: int
) -> list[list[Answer]]:
    from cwsandbox import CWSandboxAuthenticationError, CWSandboxError

    job = json.dumps(
        [seconds, patience, [[p.imports, p.code, p.setup, p.calls] for p in programs]]
    ).encode()
    calls = sum(len(program.calls) for program in programs)
    worst = 60 + calls * seconds + len(programs) * patience * (5 + 10 * seconds)
    failure: Exception
    for attempt in range(RETRIES + 1):
        if attempt:
            await backoff(attempt)
        async with pool.lease() as sandbox:
            try:
                await sandbox.write_file(PATH, job)
                result = await sandbox.exec(
                    ["python", "-s", "-c", _script(), PATH], timeout_seconds=worst
                )
                return [
                    [Answer(kind, text) for kind, text in found]
                    for found in json.loads(result.stdout)
                ]
            except CWSandboxAuthenticationError:
                raise
            except CWSandboxError as error:
                failure = error
            except json.JSONDecodeError as error:
                said = result.stderr.strip().splitlines() or [f"exit code {result.returncode}"]
                failure = error
                failure = InfrastructureError(f"no answers came: {said[-1][:300]}")
    raise InfrastructureError(
        f"programs could not be run in {RETRIES + 1} attempts: {failure}"
    ) from failure


@cache
def _script() -> str:
    folder = files("pytest_cwsandbox.validation")
    return "".join(
        (folder / name).read_text(encoding="utf-8") for name in ("literals.py", "driver.py")
    )
