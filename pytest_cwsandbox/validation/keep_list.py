"""The problems worth training on, as a training set: JSONL with one row per problem."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.problems import load, materialize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_cwsandbox.validation.preflight import ProblemSignal
    from pytest_cwsandbox.validation.samples import SampleFile


def write_keep_list(
    output: Path, kept: Sequence[ProblemSignal], rows: dict[str, dict[str, object]]
) -> None:
    """One JSON row per kept problem; ``rows`` holds what else is known of them, by task id."""
    lines = [
        json.dumps(
            {"task_id": problem.task_id}
            | rows.get(problem.task_id, {})
            | {"pass_rate": problem.pass_rate, "samples": problem.samples}
        )
        + "\n"
        for problem in kept
    ]
    try:
        output.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise ProblemFileError(f"{output}: cannot be written: {error.strerror}") from error


def problem_rows(file: SampleFile, source: str) -> dict[str, dict[str, object]]:
    """The full row of every sampled problem; samples name it by ``task_id`` or by ``id``."""
    try:
        materialize(source)
        problems = load(source, split="all")
    except UserError as error:  # loaders name pytest's option; this command has its own
        raise UserError(str(error).replace("--cwsandbox-problems", "--problems")) from error
    known = {problem.id: problem for problem in problems}
    known |= {problem.task_id: problem for problem in problems}
    rows = {}
    for sampled in file.problems:
        if sampled.task_id not in known:
            where = sampled.samples[0].where
            raise ProblemFileError(f'{where}: "{sampled.task_id}" is no problem of {source}')
        rows[sampled.task_id] = known[sampled.task_id].to_json()
    return rows
