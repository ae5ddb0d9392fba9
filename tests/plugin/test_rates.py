"""Rates by metadata and pass@k, from what tests record to the terminal and summary.json."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Run = Callable[..., pytest.RunResult]

# Four problems of four samples each: of the hard ones one sample passes, of the easy ones three.
SAMPLES = """
import pytest
from pytest_cwsandbox.problems import load

HARD = [problem.id for problem in load("bundled", limit=2)]

@pytest.mark.problems("bundled", samples=4, group="toy")
def test_sample(problem, sample, record_reward):
    passes = 1 if problem.id in HARD else 3
    difficulty = "hard" if problem.id in HARD else "easy"
    record_reward(float(sample < passes), metadata={"difficulty": difficulty})
"""


def test_rates_by_metadata_and_pass_at_k_are_printed_and_written(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_rates=SAMPLES)
    result = run(
        "--cwsandbox-limit=4",
        "--cwsandbox-group-by=difficulty,level",
        "--cwsandbox-pass-k=1,2,8",
        "--cwsandbox-report-dir=out",
    )
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "bundled/toy * 8/16 * 50.0% *",
            "group * problems * pass@1 * pass@2 * pass@8 * pass^2 * pass^8",
            # 2 of 4 problems with 1 of 4: pass@2 = 1/2, pass^2 = 0; with 3 of 4: 1 and 1/2
            "bundled/toy * 4 * 50.0% * 75.0% * - * 25.0% * -",
            "by difficulty:",
            "difficulty=easy * 6/8 * 75.0% *",
            "difficulty=hard * 2/8 * 25.0% *",
            "difficulty=hard * 2 * 25.0% * 50.0% * - * 0.0% * -",
            "--cwsandbox-group-by: no sample has level; there are: difficulty, source*",
            "intervals of groups with several samples per problem are clustered by problem",
            "pass@8, pass^8: - where a problem has fewer than 8 samples with a reward",
        ]
    )
    [folder] = (pytester.path / "out").iterdir()
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["all"]["clustered"]
    assert summary["all"]["pass_at"] == {"1": 0.5, "2": 0.75, "8": None}
    assert summary["by"]["keys"] == ["difficulty", "level"]
    assert [group["passed"] for group in summary["by"]["groups"]] == [6, 2]


TYPES = """
import pytest

def test_texts(record_reward):
    record_reward(1.0, metadata={"level": 3, "hard": True, "share": 0.5, "kind": "x"})

@pytest.mark.parametrize("given", [["x"], {"why": None}, {1: "x"}], ids=["list", "none", "key"])
def test_refused(record_reward, given):
    record_reward(0.2, metadata=given)
"""


def test_metadata_are_texts_and_anything_else_records_nothing(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(test_types=TYPES)
    result = run("--cwsandbox-report-dir=out")
    assert result.ret == 1
    result.stdout.fnmatch_lines_random(
        [
            "test_types.py:8: cwsandbox: record_reward: metadata must be a dict of texts, got list",
            "*metadata?'why'? must be a text, a number or a bool, got NoneType",
            "*metadata must have texts as keys: 1",
        ]
    )
    [folder] = (pytester.path / "out").iterdir()
    [sample] = map(json.loads, (folder / "samples.jsonl").read_text().splitlines())
    told = {"level": "3", "hard": "True", "share": "0.5", "kind": "x"}
    assert sample["metadata"] == told
