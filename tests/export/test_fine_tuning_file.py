"""The openai file against the types of the openai package."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.export import export_run
from tests.export.trajectories import TOOLS, answer, mixed_run, prompt, recorded, run_of

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_cwsandbox.rollouts.messages import AssistantMessage


def rows_of(run: Path, file: Path, min_reward: float = 1.0) -> list[dict[str, object]]:
    export_run(str(run), "openai", file, warn=pytest.fail, min_reward=min_reward)
    return [json.loads(line) for line in file.read_text().split("\n") if line]


def test_rows_are_conversations_that_openai_types_accept(tmp_path: Path) -> None:
    from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam
    from pydantic import TypeAdapter

    messages = TypeAdapter(list[ChatCompletionMessageParam])
    tools = TypeAdapter(list[ChatCompletionFunctionToolParam])
    rows = rows_of(mixed_run(tmp_path), tmp_path / "out.jsonl")
    assert len(rows) == 3
    for row in rows:
        messages.validate_python(row["messages"])
        tools.validate_python(row.get("tools", []))


def test_only_rewarded_samples_are_there_with_what_fine_tuning_takes(tmp_path: Path) -> None:
    rows = rows_of(mixed_run(tmp_path), tmp_path / "out.jsonl")
    with_tools, _, plain = rows
    assert list(with_tools) == ["messages", "tools", "parallel_tool_calls"]
    assert with_tools["tools"] == list(TOOLS)
    assert with_tools["parallel_tool_calls"] is True
    assert plain == {"messages": [*prompt("task/2"), answer("def f(): ...")]}
    said = with_tools["messages"]
    assert isinstance(said, list)
    assert {name for message in said for name in message} == {
        "role",
        "content",
        "tool_calls",
        "tool_call_id",
    }
    assert said[2]["content"] is None
    assert len(said[2]["tool_calls"]) == 2
    assert said[-1]["tool_calls"][0]["function"]["name"] == "submit"


def test_content_is_null_beside_tool_calls_only(tmp_path: Path) -> None:
    refusal: AssistantMessage = {"role": "assistant", "content": None, "refusal": "No."}
    run = run_of(
        tmp_path,
        recorded("a", 0, messages=[*prompt("a"), answer(None)]),
        recorded("a", 1, messages=[*prompt("a"), refusal]),
    )
    said = [row["messages"][-1] for row in rows_of(run, tmp_path / "out.jsonl")]  # type: ignore[index]  # a list
    assert said == [answer(""), refusal]
