"""The real MBPP files."""

from __future__ import annotations

import ast
import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.problems import load

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.problems import Problem

FILES = {"mbpp.jsonl": 974, "sanitized-mbpp.json": 427}


@pytest.fixture(params=FILES)
def mbpp_file(request: pytest.FixtureRequest, shared: Path) -> Path:
    return shared / "data" / "mbpp" / str(request.param)


def defined_functions(problem: Problem) -> set[str]:
    tree = ast.parse(problem.reference_solution)
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.filterwarnings("ignore:invalid escape sequence")
def test_every_reference_defines_the_inferred_entry_point(mbpp_file: Path) -> None:
    problems = load(str(mbpp_file))
    assert len(problems) == FILES[mbpp_file.name]
    assert [p.id for p in problems if p.entry_point not in defined_functions(p)] == []


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("mbpp.jsonl", {"prompt": 10, "test": 500, "validation": 90, "train": 374}),
        ("sanitized-mbpp.json", {"prompt": 7, "test": 257, "validation": 43, "train": 120}),
    ],
)
def test_the_splits_have_their_published_sizes(
    shared: Path, name: str, sizes: dict[str, int]
) -> None:
    path = str(shared / "data" / "mbpp" / name)
    assert Counter(problem.split for problem in load(path)) == sizes
    assert len(load(path, split="test")) == sizes["test"]


def test_an_unknown_split_lists_the_four(mbpp_file: Path) -> None:
    with pytest.raises(UserError, match="its splits are prompt, test, validation, train, and all"):
        load(str(mbpp_file), split="dev")


def test_text_is_kept_as_the_file_has_it(shared: Path) -> None:
    path = shared / "data" / "mbpp" / "mbpp.jsonl"
    rows = [json.loads(line) for line in path.read_bytes().splitlines()]
    problems = load(str(path))
    assert [p.reference_solution for p in problems] == [row["code"] for row in rows]
    assert [p.test_setup_code for p in problems] == [row["test_setup_code"] for row in rows]
    assert [list(p.test_list) for p in problems] == [row["test_list"] for row in rows]
    assert problems[0].id == "mbpp-1"
