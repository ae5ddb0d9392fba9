"""What rollouts cost beside the model: their wall time, and the loop's own CPU.

    python tests/benchmarks/rollouts.py [--rollouts 64] [--concurrency 32] [--latency 2]

The wall time is that of scripted rollouts on the local runner, its start and stop included but not
those of the model's server, as a ratio to what the injected latencies take alone: at most 1.5. The
CPU is per tool call, of a plain function as policy and a tool that does nothing, so that neither
the openai client nor the sandbox SDK has a part in it: at most 1 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.rollouts import run_group, scripted
from pytest_cwsandbox.rollouts.episode import run_episode
from pytest_cwsandbox.rollouts.limits import EpisodeLimits
from pytest_cwsandbox.rollouts.model import ModelOptions, openai_policy
from pytest_cwsandbox.rollouts.policy import FunctionPolicy
from pytest_cwsandbox.rollouts.scripted.plans import solution
from pytest_cwsandbox.rollouts.tools import Tool
from pytest_cwsandbox.rollouts.trajectory import StopReason
from pytest_cwsandbox.rollouts.workplace import Workplace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import Sandbox

    from pytest_cwsandbox.rollouts.messages import AssistantMessage, Message, ToolDefinition

WALL_BAR = 1.5
CPU_BAR = 1.0  # milliseconds
TOOL_CALLS = 3  # of a scripted rollout
CALLS = 20  # of an episode whose CPU is measured
EPISODES = 200


async def wall(rollouts: int, concurrency: int, latency: float) -> dict[str, float]:
    """Wall seconds of scripted rollouts, beside those of the latencies alone."""
    solved = [known for known in load("bundled") if len(solution(known).steps) == TOOL_CALLS]
    problems = [solved[number % len(solved)] for number in range(rollouts)]
    with tempfile.TemporaryDirectory() as folder:
        server = scripted.join_or_start(Path(folder), lifeline=os.getpid(), latency=latency)
        policy = openai_policy(
            ModelOptions(scripted.SCRIPTED), base_url=server.address, api_key=server.token
        )
        start = time.monotonic()
        groups = await run_group(
            policy, problems, concurrency=concurrency, backend=BackendOptions("local")
        )
        seconds = time.monotonic() - start
        await policy.aclose()
        scripted.stop(Path(folder))
    for group in groups:
        for trajectory in group:
            assert trajectory.reward == 1.0, trajectory.detail
            assert trajectory.metrics["tool_calls"] == TOOL_CALLS
    alone = math.ceil(rollouts / concurrency) * TOOL_CALLS * latency
    return {"alone": alone, "wall": round(seconds, 2), "ratio": round(seconds / alone, 2)}


def ask_again(messages: Sequence[Message], _: Sequence[ToolDefinition]) -> AssistantMessage:
    """Call the tool once per turn; the limit of tool calls ends the episode."""
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": f"call_{len(messages)}",
                "type": "function",
                "function": {"name": "nothing", "arguments": '{"code": "print(1)"}'},
            }
        ],
    }


async def nothing(code: str) -> str:
    """Do nothing; async, for a sync tool would be given to a thread."""
    return code


async def no_sandbox() -> Sandbox:
    raise InfrastructureError("no tool here uses a sandbox")


async def cpu() -> float:
    """CPU milliseconds of the whole process per tool call."""
    policy, tools = FunctionPolicy(ask_again), [Tool.of(nothing)]
    limits = EpisodeLimits(tool_calls=CALLS)
    start = time.process_time()
    for _ in range(EPISODES):
        workplace = Workplace(no_sandbox, lambda _: None)
        episode = await run_episode(
            policy, [{"role": "user", "content": "Work."}], tools, workplace, limits
        )
        await workplace.close()
        assert episode.stop_reason is StopReason.MAX_TOOL_CALLS
    return 1000 * (time.process_time() - start) / (EPISODES * CALLS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rollouts", type=int, default=64)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--latency", type=float, default=2.0)
    options = parser.parse_args()
    milliseconds = asyncio.run(cpu())
    walls = asyncio.run(wall(options.rollouts, options.concurrency, options.latency))
    figures = {"cpu_ms": round(milliseconds, 3), **walls}
    print(json.dumps(figures))  # noqa: T201 - its output
    if milliseconds > CPU_BAR or walls["ratio"] > WALL_BAR:
        sys.exit(f"error: the bars are {CPU_BAR} ms of CPU and a ratio of {WALL_BAR}")


if __name__ == "__main__":
    main()
