"""The trl files as `datasets` reads them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.export import export_run
from tests.export.trajectories import (
    ENCRYPTED,
    TOOLS,
    answer,
    call,
    mixed_run,
    prompt,
    recorded,
    run_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BOTH = pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])


@pytest.fixture
def load(tmp_path: Path) -> Callable[[Path, str, str], Any]:
    """Export a run and load the file with the real library."""

    def load(run: Path, to: str, suffix: str) -> Any:
        import datasets

        file = tmp_path / f"out{suffix}"
        export_run(str(run), to, file, warn=pytest.fail)
        kind = {".parquet": "parquet", ".jsonl": "json"}[suffix]
        return datasets.load_dataset(
            kind, data_files=str(file), split="train", cache_dir=str(tmp_path / "cache")
        )

    return load


@BOTH
def test_rows_hold_the_conversation_as_it_was(
    load: Callable[..., Any], tmp_path: Path, suffix: str
) -> None:
    rows = load(mixed_run(tmp_path), "trl", suffix)
    assert [row["reward"] for row in rows] == [1.0, 0.0, 1.0, 1.0, 0.0]
    assert [row["problem"] for row in rows] == ["task/1"] * 3 + ["task/2"] * 2
    row = rows[0]
    assert row["prompt"] == prompt("task/1")
    first, *_, last = row["completion"]
    assert first == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Let me see.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {"name": "execute_code", "arguments": {"code": "print('ü')"}},
            },
            {
                "id": "call_2",
                "type": "function",
                "function": {
                    "name": "write_file",
                    "arguments": {"path": "a.py", "content": "x = 1\n"},
                },
            },
        ],
    }
    assert row["completion"][1] == {
        "role": "tool",
        "content": "ü\n",
        "tool_call_id": "call_1",
        "name": "execute_code",
    }
    assert row["completion"][3]["tool_calls"][0]["function"]["arguments"] == '{"code": "unfinished'
    assert last["tool_calls"][0]["function"] == {"name": "submit", "arguments": {}}
    assert json.loads(row["tools"]) == list(TOOLS)
    assert rows[3]["tools"] is None
    assert rows[3]["completion"] == [{"role": "assistant", "content": "def f(): ..."}]
    assert ENCRYPTED not in str(rows.to_list())


@BOTH
def test_a_pair_is_a_passed_and_a_failed_sample(
    load: Callable[..., Any], tmp_path: Path, suffix: str
) -> None:
    rows = load(mixed_run(tmp_path), "trl-preference", suffix)
    sample = "evals/test_agent.py::test_agent"
    assert [(row["chosen_id"], row["rejected_id"]) for row in rows] == [
        (f"{sample}[task/1-0]", f"{sample}[task/1-1]"),
        (f"{sample}[task/2-0]", f"{sample}[task/2-1]"),
    ]
    assert rows[1]["prompt"] == prompt("task/2")
    assert rows[1]["chosen"] == rows[1]["rejected"] == [answer("def f(): ...")]


def test_values_that_no_file_holds_stay_as_the_model_wrote_them(
    load: Callable[..., Any], tmp_path: Path
) -> None:
    written = [f'{{"n": {10**30}}}', '{"n": NaN}', '{"n": 1e999}', "[1]", "", "[" * 100_000]
    calls = [call(number, "execute_code", arguments) for number, arguments in enumerate(written)]
    calls.append(call(9, "execute_code", '{"code": "\\ud800"}'))
    said = answer("half a pair \udfff", *calls)
    run = run_of(tmp_path, recorded(messages=[*prompt("a"), said]))
    [message] = load(run, "trl", ".parquet")[0]["completion"]
    assert message["content"] == "half a pair ?"
    arguments = [made["function"]["arguments"] for made in message["tool_calls"]]
    assert arguments == [*written, {"code": "?"}]
    assert len(load(run, "trl", ".jsonl")) == 1
