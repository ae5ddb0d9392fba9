"""Grade the recorded completions of a run again, without the model."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections import Counter
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import hosted_address, usual_image
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import ConfigurationError, UserError
from pytest_cwsandbox.runs import journal, plan, provenance, summary
from pytest_cwsandbox.runs.gate import INCONCLUSIVE
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.provenance import Provenance
from pytest_cwsandbox.runs.secret_forms import HIDDEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from types import FrameType

    from pytest_cwsandbox.backend import BackendOptions
    from pytest_cwsandbox.grading import ExitCodeGrader, Grader
    from pytest_cwsandbox.outcome import Outcome, SampleRecord
    from pytest_cwsandbox.problems import Problem


@dataclass(frozen=True, slots=True)
class Rescoring:
    """How to grade; image and limits that are missing are those of the run.

    ``held_out`` adds the held-out asserts to samples that were graded without.
    """

    backend: BackendOptions
    held_out: bool = False
    concurrency: int = 8
    retries: int = 2
    cpu_limit: int | None = None
    wall_limit: float | None = None
    memory_limit: int | None = None


@dataclass(frozen=True, slots=True)
class Rescored:
    """What came of it.

    ``graded`` holds each sample that was graded again, before and after; ``kept`` counts the
    others, which are as they were, by the reason.
    """

    folder: Path
    graded: tuple[tuple[SampleRecord, SampleRecord], ...]
    kept: Mapping[str, int]

    @property
    def changed(self) -> list[tuple[SampleRecord, SampleRecord]]:
        """Those whose reward is another now."""
        return [
            (old, new)
            for old, new in self.graded
            if new.reward is not None and old.reward != new.reward
        ]

    @property
    def lost(self) -> list[SampleRecord]:
        """Those whose grade the infrastructure took."""
        return [new for _, new in self.graded if new.reward is None]


def rescore_run(
    folder: Path,
    output: Path,
    how: Rescoring,
    *,
    command: Sequence[str],
    warn: Callable[[str], None],
    advance: Callable[[int, int], None],
) -> Rescored:
    """Grade what the run in ``folder`` recorded, and write it as a run into ``output``.

    ``advance`` is told how many grades are done, and of how many. Raises ``UserError`` for a run
    that cannot be read or graded, and for an output that exists, before anything is graded.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file; give the run's folder")
    entries = journal.read(folder, warn)
    problems = plan.read_problems(folder)
    tasks = plan.read_tasks(folder)
    reasons = {
        name: reason
        for name, entry in entries.items()
        if (reason := _obstacle(entry.record, problems, tasks, held_out=how.held_out))
    }
    if len(reasons) == len(entries):
        raise UserError(
            f"{folder}: nothing can be graded again: {counted(Counter(reasons.values()))}"
        )
    now = _provenance(folder, output, how, command, warn)
    with _stopped_like_ctrl_c(), _unfinished(output) as part:
        fit = [entry.record for name, entry in entries.items() if name not in reasons]
        graded = [
            (record, _regraded(record, outcome, held_out=how.held_out))
            for record, outcome in zip(fit, _grade(fit, problems, how, now, advance), strict=True)
        ]
        rescored = Rescored(output, tuple(graded), Counter(reasons.values()))
        latest = entries | {new.id: _entry(new) for _, new in graded}
        _write(folder, part, rescored, latest.values(), now)
    return rescored


@contextmanager
def _unfinished(output: Path) -> Iterator[Path]:
    """A folder beside the output that gets its name at the end, and is gone after any stop."""
    if os.path.lexists(output):
        raise UserError(f"{output}: exists; name another folder with -o")
    part = output.with_name(f"{output.name}.{os.getpid()}.part")
    missing = [each for each in part.parents if not each.exists()]
    try:
        try:
            part.mkdir(parents=True)
        except OSError as error:
            raise UserError(f"{output}: cannot be made: {error.strerror}") from error
        yield part
        try:
            part.rename(output)
        except OSError as error:  # another rescoring was quicker
            raise UserError(f"{output}: cannot be made: {error.strerror}") from error
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        for each in missing:
            with suppress(OSError):  # others may have put something there
                each.rmdir()
        raise


@contextmanager
def _stopped_like_ctrl_c() -> Iterator[None]:
    """Let the signals that end a process raise what Ctrl-C does, so that it can clean up."""

    def stop(number: int, frame: FrameType | None) -> None:
        interrupted = signal.getsignal(signal.SIGINT)  # asyncio has its own while it runs
        (interrupted if callable(interrupted) else signal.default_int_handler)(number, frame)

    before = {each: signal.signal(each, stop) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def counted(reasons: Mapping[str, int]) -> str:
    """Such as "2 of a task, 1 a bare number"."""
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items())


def _obstacle(
    record: SampleRecord,
    problems: Mapping[str, Problem],
    tasks: Mapping[str, object],
    *,
    held_out: bool,
) -> str:
    """Why a sample cannot be graded again; "" where it can."""
    if record.grader == "exit_code":
        return ""
    if record.grader in {"completion", "submission"}:
        return _unusable(record, problems, held_out=held_out)
    if record.grader:
        return f'graded by "{record.grader}", which this version does not know'
    if record.reward is None:
        return "lost in the run, before there was anything to grade"
    if record.problem in tasks:
        return "of a task, which is judged in the agent's own sandbox"
    return "a rollout without a submission" if "stop_reason" in record.metadata else "a bare number"


def _unusable(record: SampleRecord, problems: Mapping[str, Problem], *, held_out: bool) -> str:
    from pytest_cwsandbox.grading.asserts import read_tests

    if record.problem not in problems:
        return f"of a problem that {plan.PROBLEMS} does not hold"
    if HIDDEN in json.dumps(problems[record.problem].to_json()):  # other asserts than the run's
        return (
            f"of a problem that {plan.PROBLEMS} holds with {HIDDEN} in place of what looked secret"
        )
    try:
        read_tests(problems[record.problem], held_out=held_out or record.held_out)
    except ConfigurationError as error:
        return f"of a problem that cannot be graded ({error})"
    return ""


def _provenance(
    folder: Path,
    output: Path,
    how: Rescoring,
    command: Sequence[str],
    warn: Callable[[str], None],
) -> Provenance:
    """Of the new run, which has the limits and the image that it is graded with."""
    from pytest_cwsandbox.grading import Limits

    before = provenance.read(folder)
    if before is None:
        usual = Limits()
        warn(f"{folder}: has no {provenance.FILE}: limits and image are the usual ones")
        before = Provenance(
            run=folder.name,
            started="",
            command=(),
            cpu_limit=usual.cpu_seconds,
            wall_limit=usual.wall_seconds,
            memory_limit=usual.memory_bytes,
        )
    kind = how.backend.choose(os.environ)
    recorded = before.image if before.backend == kind else ""
    now = replace(
        before,
        run=output.name,
        started=provenance.now(),
        command=tuple(command),
        ended=None,
        exit_status=None,
        resumed=(),
        differences=(),
        rescored_from=folder.name,
        backend=kind,
        base_url=hosted_address(how.backend) if kind == "hosted" else "",
        image=how.backend.image or recorded or usual_image(kind),
        cpu_limit=how.cpu_limit or before.cpu_limit,
        wall_limit=how.wall_limit or before.wall_limit,
        memory_limit=how.memory_limit or before.memory_limit,
        retries=how.retries,
        reward_hash=provenance.code_hash(before.reward, [Path.cwd()]),
    )
    return provenance.with_content(provenance.with_surroundings(now, Path.cwd()), folder)


def _grade(
    records: Sequence[SampleRecord],
    problems: Mapping[str, Problem],
    how: Rescoring,
    now: Provenance,
    advance: Callable[[int, int], None],
) -> list[Outcome]:
    """The outcomes, in order."""
    from pytest_cwsandbox.grading import ExitCodeGrader, Grader, Limits

    limits = Limits(now.cpu_limit, now.wall_limit, now.memory_limit)
    with (
        grading_session(replace(how.backend, image=now.image)) as session,
        closing(
            Grader(session, limits=limits, retries=how.retries, concurrency=how.concurrency)
        ) as grader,
        closing(
            ExitCodeGrader(session, limits=limits, retries=how.retries, concurrency=how.concurrency)
        ) as programs,
    ):
        done = 0

        async def grade(record: SampleRecord) -> Outcome:
            nonlocal done
            outcome = await _outcome(
                record, problems, grader, programs, held_out=how.held_out or record.held_out
            )
            done += 1
            advance(done, len(records))
            return outcome

        async def grade_all() -> list[Outcome]:
            return await asyncio.gather(*map(grade, records))

        return asyncio.run(grade_all())


async def _outcome(
    record: SampleRecord,
    problems: Mapping[str, Problem],
    grader: Grader,
    programs: ExitCodeGrader,
    *,
    held_out: bool,
) -> Outcome:
    from pytest_cwsandbox.grading.submission import grade_submission

    if record.grader == "exit_code":
        return await programs.grade(record.completion)
    problem = problems[record.problem]
    if record.grader == "submission":
        return await grade_submission(grader, problem, record.completion, held_out=held_out)
    return await grader.grade(problem, record.completion, held_out=held_out)


def _regraded(record: SampleRecord, outcome: Outcome, *, held_out: bool) -> SampleRecord:
    return replace(
        record,
        reward=outcome.reward,
        verdict=outcome.verdict.value,
        detail=outcome.detail,
        held_out=record.grader != "exit_code" and (held_out or record.held_out),
        retries=outcome.retries,
        worker="main",
    )


def _entry(record: SampleRecord) -> Entry:
    """Without an end: the test has not run again."""
    return Entry(record, "lost" if record.reward is None else "ended")


def _write(
    folder: Path, output: Path, rescored: Rescored, entries: Iterable[Entry], now: Provenance
) -> None:
    # First of all: samples without it would be those of a test run.
    status = INCONCLUSIVE if rescored.lost else 0
    provenance.write(output, replace(now, ended=provenance.now(), exit_status=status))
    planned = plan.read(folder)
    plan.write(output, planned.values(), plan.read_problems(folder), plan.read_tasks(folder))
    entries = list(entries)
    journal.merge(output, entries)
    records = [entry.record for entry in entries]
    summary.write(
        output,
        summary.summarise_run(
            now.run,
            records,
            planned=len(planned),
            retries=sum(new.retries for _, new in rescored.graded),
        ),
    )
