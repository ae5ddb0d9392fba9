"""Grade a file of completions: rows in, rows out, in the same order."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pytest_cwsandbox import backend, runner, tags
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.errors import ConfigurationError, ProblemFileError
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.problems import load_completions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cwsandbox import SandboxDefaults, Session

    from pytest_cwsandbox.grading import Grader, Limits
    from pytest_cwsandbox.problems import Completion

LIFETIME_SECONDS = 3600.0


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
            out.write(json.dumps(result) + "\n")
            out.flush()
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


@contextlib.contextmanager
def grading_session(
    options: BackendOptions | None = None,
    *,
    faults: Sequence[str] = (),
    sandbox_tags: tuple[str, ...] = (),
) -> Iterator[Session]:
    """A tagged SDK session outside pytest that reports to nobody; see ``connected``."""
    from cwsandbox import Session

    with (
        connected(options, faults=faults, sandbox_tags=sandbox_tags) as defaults,
        Session(defaults, report_to=[]) as session,
    ):
        yield session


@contextlib.contextmanager
def connected(
    options: BackendOptions | None = None,
    *,
    faults: Sequence[str] = (),
    sandbox_tags: tuple[str, ...] = (),
) -> Iterator[SandboxDefaults]:
    """Defaults of sandboxes outside pytest; the local runner starts and ends with them.

    ``faults`` are injected by that runner, as its ``--fault`` takes them; ``sandbox_tags`` replace
    the usual ones.
    """
    # Made only if a runner is started here, which removes it whatever ends this process.
    folder = Path(tempfile.gettempdir(), f"cwsandbox-grade-{secrets.token_hex(8)}")
    try:
        reached = backend.connect(
            options or BackendOptions(), folder, lifeline=os.getpid(), faults=faults
        )
        try:
            yield reached.defaults(
                tags=sandbox_tags or tags.sandbox_tags(run=folder.name, worker="main"),
                max_lifetime_seconds=LIFETIME_SECONDS,
            )
        finally:
            reached.restore()
    finally:
        runner.stop(folder)
        shutil.rmtree(folder, ignore_errors=True)
