"""Where problems come from, by the words of ``--cwsandbox-problems``."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.problems import mbpp
from pytest_cwsandbox.problems.problem import Problem
from pytest_cwsandbox.problems.rows import read_rows
from pytest_cwsandbox.problems.schema import problems_from_rows
from pytest_cwsandbox.problems.toy import TOY_COMPLETIONS

SOURCES = ("bundled", "toy", *mbpp.CONFIGS)
BUNDLED = Path(__file__).with_name("bundled.jsonl")


def load(source: str, *, split: str = "", limit: int | None = None) -> list[Problem]:
    """The problems of ``source``: one of ``SOURCES``, or a path to a ``.jsonl`` or ``.json`` file.

    ``split`` keeps the problems of one split. MBPP by name keeps "test" when none is given, a path
    keeps everything, and "all" keeps everything anywhere. The source of a file's problems is its
    stem. Never touches the network: MBPP by name must have been materialized. Raises ``UserError``.
    """
    if limit is not None and limit < 1:
        raise UserError(f"--cwsandbox-limit: must be at least 1, got {limit}")
    if source in mbpp.CONFIGS:
        problems = problems_from_rows(read_rows(mbpp.cached(source)), source)
        split = split or "test"
    elif source == "toy":
        problems = _toy_problems()
    elif source == "bundled":
        problems = problems_from_rows(read_rows(BUNDLED), source)
    else:
        path = _path(source)
        problems = problems_from_rows(read_rows(path), _id_safe(path.stem))
    return _of_split(problems, source, split)[:limit]


def materialize(source: str) -> Path | None:
    """Make sure that ``load(source)`` needs no network, and return the file that it will read.

    Downloads MBPP when it is named and not cached yet; toy problems live in no file.
    """
    if source in mbpp.CONFIGS:
        return mbpp.materialize(source)
    if source == "toy":
        return None
    return BUNDLED if source == "bundled" else _path(source)


def _path(source: str) -> Path:
    path = Path(source)
    if path.suffix.lower() not in {".jsonl", ".json"}:
        raise UserError(
            f'--cwsandbox-problems: "{source}" is none of {", ".join(SOURCES)}'
            " and no path to a .jsonl or .json file"
        )
    return path


def _id_safe(stem: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.]+", "-", stem).strip("-.") or "problems"


def _of_split(problems: list[Problem], source: str, split: str) -> list[Problem]:
    if split in {"", "all"}:
        return problems
    kept = [problem for problem in problems if problem.split == split]
    if not kept:
        known = ", ".join(dict.fromkeys(p.split for p in problems if p.split))
        remedy = f"its splits are {known}, and all" if known else "it has no splits"
        raise UserError(f'--cwsandbox-split: {source} has no split "{split}"; {remedy}')
    return kept


def _toy_problems() -> list[Problem]:
    return [
        Problem(
            task_id=toy.name,
            prompt=toy.prompt,
            test_list=(),
            reference_solution=toy.code,
            source="toy",
        )
        for toy in TOY_COMPLETIONS
    ]
