"""Grade a file of completions: rows in, rows out, in the same order."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import Counter
from typing import TYPE_CHECKING, TextIO

from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import ConfigurationError, ProblemFileError
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.problems import load_completions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.grading import Grader, Limits
    from pytest_cwsandbox.problems import Completion


def grade_file(
    file: Path,
    output: Path | None,
    *,
    options: BackendOptions,
    limits: Limits,
    retries: int,
    concurrency: int,
    held_out: bool = False,
) -> bool:
    """Grade every row of ``file`` and write its result; True when every row has a reward.

    Raises ``UserError`` for input that cannot be read or graded, before anything is graded.
    """
    from pytest_cwsandbox.grading import Grader

    completions = load_completions(file)
    with (
        _writing(output) as out,
        grading_session(options) as session,
        contextlib.closing(
            Grader(
                session,
                limits=limits,
                retries=retries,
                concurrency=concurrency,
                held_out=held_out,
            )
        ) as grader,
    ):
        return _grade(completions, grader, out)


def _grade(completions: Sequence[Completion], grader: Grader, out: TextIO) -> bool:
    from rich.console import Console
    from rich.progress import Progress

    grades = [(row, grader.grade_code if row.is_code else grader.grade) for row in completions]
    refs = []
    for row, start in grades:
        try:
            refs.append((row, start(row.problem, row.text)))
        except ConfigurationError as error:
            raise ConfigurationError(f"row {row.id}: {error}") from error
    verdicts: Counter[str] = Counter()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as progress:
        task = progress.add_task("grading", total=len(refs))
        for row, ref in refs:
            outcome = ref.result()
            verdicts[outcome.verdict.value] += 1
            result = {
                "id": row.id,
                "reward": outcome.reward,
                "verdict": outcome.verdict.value,
                "detail": outcome.detail,
                "seconds": round(outcome.seconds, 3),
            }
            _put(out, json.dumps(result) + "\n")
            progress.advance(task)
    counts = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    console.print(f"{len(refs)} graded: {counts}", soft_wrap=True, highlight=False)
    return Verdict.INFRASTRUCTURE_ERROR.value not in verdicts


@contextlib.contextmanager
def _writing(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        file = output.open("w")
    except OSError as error:
        raise ProblemFileError(f"{output}: cannot be written: {error.strerror}") from error
    with file:
        yield file


def _put(out: TextIO, line: str) -> None:
    try:
        out.write(line)
        out.flush()
    except BrokenPipeError:  # whoever reads has enough
        raise
    except OSError as error:
        # What is left in its buffer goes nowhere: closing it would fail again.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, out.fileno())
        os.close(null)
        raise ProblemFileError(f"{out.name}: cannot be written: {error.strerror}") from error
