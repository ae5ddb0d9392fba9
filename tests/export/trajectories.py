"""Trajectories as rollouts record them, with whatever makes exporting hard."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory, append
from pytest_cwsandbox.rollouts.trajectory import Choice, StopReason, Trajectory

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.rollouts.messages import (
        AssistantMessage,
        Message,
        ToolCall,
        ToolDefinition,
        ToolMessage,
    )

ENCRYPTED = "what only the Responses API can read"


def tool(name: str, *arguments: str) -> ToolDefinition:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": f"Use {name}.",
            "parameters": {
                "type": "object",
                "properties": {argument: {"type": "string"} for argument in arguments},
                "required": list(arguments),
                "additionalProperties": False,
            },
            "strict": True,
        },
    }


TOOLS = (tool("execute_code", "code"), tool("write_file", "path", "content"), tool("submit"))


def call(number: int, name: str, arguments: object) -> ToolCall:
    written = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": written},
    }


def answer(content: str | None, *calls: ToolCall) -> AssistantMessage:
    message: AssistantMessage = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = list(calls)
    return message


def result(number: int, content: str) -> ToolMessage:
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": content}


def prompt(problem: str) -> list[Message]:
    return [
        {"role": "system", "content": "Solve it. Löse es. 解いて 🧮"},
        {"role": "user", "content": f"Write a function for {problem}.\u2028Thanks."},
    ]


def episode(problem: str) -> list[Message]:
    """Parallel calls whose arguments differ in their fields, bad JSON, thoughts, no content."""
    thinking = answer(
        None,
        call(1, "execute_code", {"code": "print('ü')"}),
        call(2, "write_file", {"path": "a.py", "content": "x = 1\n"}),
    )
    thinking["reasoning_content"] = "Let me see."
    thinking["reasoning_items"] = [{"type": "reasoning", "encrypted_content": ENCRYPTED}]
    return [
        *prompt(problem),
        thinking,
        result(1, "ü\n"),
        result(2, "written"),
        answer("Hm.", call(3, "execute_code", '{"code": "unfinished')),
        result(3, "arguments are not valid JSON"),
        answer(None, call(4, "submit", {})),
        result(4, "submitted"),
    ]


def recorded(
    problem: str = "task/1",
    sample: int = 0,
    reward: float | None = 1.0,
    *,
    messages: list[Message] | None = None,
    tools: tuple[ToolDefinition, ...] = TOOLS,
    stop: StopReason = StopReason.SUBMITTED,
    split: str = "train",
    logprobs: dict[str, object] | None = None,
    group: str = "bundled/test_agent",
) -> RecordedTrajectory:
    said = episode(problem) if messages is None else messages
    verdict = {None: "", 1.0: "passed"}.get(reward, "wrong_answer")
    return RecordedTrajectory(
        id=f"evals/test_agent.py::test_agent[{problem}-{sample}]",
        group=group,
        problem=problem,
        sample=sample,
        trajectory=Trajectory(
            messages=tuple(said),
            tools=tools,
            stop_reason=stop,
            reward=reward,
            verdict=verdict,
            detail="the sandbox was taken away" if reward is None else "",
            choices=tuple(
                Choice(tokens_in=5, tokens_out=7, logprobs=logprobs)
                for message in said
                if message["role"] == "assistant"
            ),
            metrics={"tool_calls": 4.0, "turns": 3.0, "seconds": 1.5},
            metadata={
                "task_id": problem,
                "model": "scripted",
                "split": split,
                "tags": ["a", "b"],
                "sample": sample,
            },
        ),
    )


def lost(problem: str, sample: int) -> RecordedTrajectory:
    return recorded(problem, sample, None, stop=StopReason.INFRASTRUCTURE_ERROR)


def run_of(folder: Path, *samples: RecordedTrajectory) -> Path:
    """Record samples as two workers of a run would, and return the run's folder."""
    run = folder / "run"
    for number, sample in enumerate(samples):
        append(run, f"gw{number % 2}", sample)
    return run


def mixed_run(folder: Path) -> Path:
    """Two problems: 2 passed, 1 failed, 1 lost; and 1 passed without tools, 2 failed."""
    plain: list[Message] = [*prompt("task/2"), answer("def f(): ...")]
    silent: list[Message] = prompt("task/2")
    return run_of(
        folder,
        recorded("task/1", 0, 1.0),
        recorded("task/1", 1, 0.0),
        lost("task/1", 2),
        recorded("task/1", 3, 1.0),
        recorded("task/2", 0, 1.0, messages=plain, tools=()),
        recorded("task/2", 1, 0.0, messages=plain, tools=(), stop=StopReason.NO_TOOL_CALL),
        recorded("task/2", 2, 0.0, messages=silent, tools=(), stop=StopReason.CONTEXT_EXCEEDED),
    )
