"""What tests of rollouts share: an endpoint beside pytest, and a look into the run's folder."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pytest_cwsandbox.background import Background
from tests.rollouts.endpoints import Endpoint, chat_answer, chat_call, endpoint, reply

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import pytest

    Run = Callable[..., pytest.RunResult]

# Tests of a run to be looked at: one rollout per problem and sample, and a check.
AGENT = """
import pytest

@pytest.mark.problems(samples=2, group="agents")
async def test_agent(problem, rollout):
    trajectory = await rollout(problem)
    assert trajectory.reward == 1.0

def test_check():
    pass
"""

# Submits what solves the first bundled problem, without any trial.
SUBMISSION = "def count_above(numbers, limit): return sum(n > limit for n in numbers)"
SUBMITS = reply(
    chat_answer(
        None,
        finish="tool_calls",
        tool_calls=[chat_call("call_1", "submit_solution", json.dumps({"code": SUBMISSION}))],
    )
)


@contextmanager
def served(*replies: bytes) -> Iterator[Endpoint]:
    """An endpoint that answers while pytest runs in a process of its own."""
    background = Background()
    serving = endpoint(*replies)
    try:
        yield background.start(serving.__aenter__()).result()
        background.start(serving.__aexit__(None, None, None)).result()
    finally:
        background.close()


def model_at(endpoint: Endpoint) -> list[str]:
    """The options that choose it."""
    return ["--cwsandbox-model=toy", f"--cwsandbox-model-base-url={endpoint.base_url}"]


def folder(path: Path) -> Path:
    """The folder of the one run that was made below ``path``."""
    [found] = (path / ".cwsandbox" / "runs").iterdir()
    return found


def samples(path: Path) -> list[dict[str, Any]]:
    """The rows of that run's samples.jsonl."""
    return _rows(folder(path) / "samples.jsonl")


def trajectories(path: Path) -> list[dict[str, Any]]:
    """That run's trajectories, in the order of their items."""
    rows = [row for file in folder(path).glob("trajectories-*.jsonl") for row in _rows(file)]
    return [row["trajectory"] for row in sorted(rows, key=lambda row: str(row["id"]))]


def _rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]
