"""What the end of a run says, at the width of a terminal."""

from __future__ import annotations

from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.reports import terminal
from pytest_cwsandbox.runs.statistics import by_group, summarise


def record(
    number: int, reward: float | None, group: str = "bundled/rollouts", **fields: object
) -> SampleRecord:
    row: dict[str, object] = {
        "id": f"test_a.py::test_b[{number}]",
        "group": group,
        "problem": "",
        "sample": 0,
        "reward": reward,
        **fields,
    }
    return SampleRecord.from_json(row)


def table(records: list[SampleRecord], width: int) -> list[str]:
    drawn = terminal.table(by_group(records), summarise("all", records), width=width, color=False)
    return drawn.splitlines()


def test_a_name_that_fits_leaves_all_numbers() -> None:
    [head, row] = table([record(1, 1.0)], width=80)
    assert head.split() == [
        "group",
        "passed",
        "rate",
        "95%",
        "interval",
        "mean",
        "infra",
        "p50",
        "s",
        "p95",
        "s",
    ]
    assert row.startswith("bundled/rollouts ")


def test_a_long_name_is_not_broken_at_80_columns() -> None:
    [head, row] = table([record(1, 1.0, "problems/test_agent_solves_it")], width=80)
    assert head.split() == ["group", "passed", "rate", "95%", "interval", "infra", "p95", "s"]
    assert row.startswith("problems/test_agent_solves_it ")
    assert len(row) <= 80


def test_samples_that_were_lost_alike_are_one_line() -> None:
    alike = [record(number, None, detail="nobody there") for number in range(3)]
    assert terminal.losses([*alike, record(3, None, detail="lost"), record(4, 1.0)]) == [
        "infra: 3 items: nobody there",
        "infra: test_a.py::test_b[3]: lost",
    ]


def test_low_rewards_are_listed_up_to_ten_with_their_reasons() -> None:
    low = [record(number, 0.0, verdict="wrong_answer", detail="no") for number in range(12)]
    lines = terminal.low_rewards([record(99, 1.0), record(98, None), *low])
    assert lines[0] == "low reward: test_a.py::test_b[0]: 0 wrong_answer: no"
    assert len(lines) == 11
    assert lines[-1] == "low reward: and 2 more"


def test_a_model_is_named_with_what_it_took() -> None:
    metadata = {"model": "toy", "turns": "2", "tool_calls": "1", "tokens_in": "900"}
    rows = [
        record(n, 1.0, metadata={**metadata, "tokens_out": "100", "cost": "0.25"}) for n in range(4)
    ]
    assert terminal.models(rows) == [
        "model toy: 4 rollouts, 2.0 turns, 1.0 tool calls, 1,000 tokens each",
        "model toy: 1.00 US dollars",
    ]


def test_the_scripted_model_is_told_from_a_real_one() -> None:
    metadata = {
        "model": "scripted",
        "turns": "1",
        "tool_calls": "0",
        "tokens_in": "1",
        "tokens_out": "1",
        "unknown": "yes",
    }
    assert terminal.models([record(1, 0.0, metadata=metadata)])[1:] == [
        "model scripted: scripted answers to the bundled problems and tasks, no language model",
        "model scripted: 1 of 1 it does not know: choose a model with --cwsandbox-model",
    ]
