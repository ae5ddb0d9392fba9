"""What the end of a run says, at the width of a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.findings import Exploit, Finding
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.reports import sections, terminal
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.statistics import by_group, by_metadata, summarise
from pytest_cwsandbox.runs.summary import summarise_run

if TYPE_CHECKING:
    from pathlib import Path


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


LONG = "test_rollouts_of_a_long_name/test_agent_solves_the_problem_within_its_limits"


def sampled(*groups: str, samples: int = 4, **metadata: str) -> list[SampleRecord]:
    """Four samples of each of 1,000 problems per group, nearly all passed."""
    return [
        record(
            number,
            float(number > 3),
            group,
            problem=f"p{number // samples}",
            seconds=123.456,
            metadata=metadata,
        )
        for group in groups
        for number in range(1000 * samples)
    ]


@pytest.mark.parametrize("width", [70, 80, 120])
def test_every_line_fits_and_no_number_is_broken(width: int) -> None:
    rows = sampled("bundled/tasks", LONG)
    lines = table(rows, width=width)
    assert max(map(len, lines)) <= width
    [tasks, long, total] = [line for line in lines[1:] if "%" in line]
    for line in (tasks, long):
        assert "3996/4000  99.9%  99.4%..100.0%" in line
        assert line.endswith("123.46")
    assert total.split()[:2] == ["all", "7992/8000"]
    names = [line[: long.index("3996") - 1].strip() for line in lines]
    assert LONG in "".join(names)


def test_a_terminal_too_narrow_for_the_numbers_gets_longer_lines() -> None:
    [_, *rows] = table(sampled(LONG), width=20)
    assert "3996/4000  99.9%  99.4%..100.0%      -  123.46" in rows[0]
    assert "".join(row[:16].strip() for row in rows) == LONG


def passes(records: list[SampleRecord], ks: list[int], width: int = 80) -> list[str]:
    groups, pooled = by_group(records, ks), summarise("all", records, ks)
    return terminal.passes(groups, pooled, width=width, color=False).splitlines()


def test_pass_at_k_has_a_table_of_its_own() -> None:
    rows = [
        record(number, float(number % 4 > 1), problem=f"p{number // 4}") for number in range(20)
    ]
    assert passes(rows, [1, 2]) == [
        "group             problems  pass@1  pass@2  pass^2",
        "bundled/rollouts         5   50.0%   83.3%   16.7%",
    ]


def test_more_ks_than_fit_go_on_below() -> None:
    lines = passes(sampled(LONG, "a"), [1, 2, 3, 4])
    assert max(map(len, lines)) <= 80
    heads = [line.split()[2:] for line in lines if line.startswith("group")]
    expected = ["pass@1", "pass@2", "pass@3", "pass@4", "pass^2", "pass^3", "pass^4"]
    assert [title for head in heads for title in head] == expected
    assert len(heads) > 1


def test_names_are_text_and_nothing_that_a_terminal_acts_on() -> None:
    [_, row] = table([record(1, 1.0, "mine/[red]x\x1b[2J")], width=80)
    assert row.startswith("mine/[red]x\\x1b[2J ")


def test_rates_have_colours_where_the_terminal_has_them() -> None:
    rows = [record(1, 1.0, "a"), record(2, 0.0, "b"), record(3, None, "b")]
    drawn = terminal.table(by_group(rows), summarise("all", rows), width=80, color=True)
    assert "\x1b[32m100.0%" in drawn
    assert "\x1b[31m  0.0%" in drawn
    assert "\x1b" not in "".join(table(rows, width=80))


def test_rates_by_metadata_say_what_rollouts_took_where_there_is_room() -> None:
    spent = {"model": "m", "tokens_in": "1000", "tokens_out": "234", "cost": "0.5"}
    rows = [record(number, 1.0, metadata=spent) for number in range(3)]
    by = by_metadata(rows, ["model"])
    [head, row] = terminal.table(by, width=80, color=False, spent=True).splitlines()
    assert head.split()[-3:] == ["tokens", "US", "$"]
    assert row.split()[-2:] == ["1,234", "1.50"]


def test_what_must_be_known_to_read_the_table_is_said() -> None:
    alone, several = [record(1, 1.0)], sampled("a", samples=2)
    assert terminal.notes(by_group(alone, [1])) == []
    assert terminal.notes(by_group(several, [1, 2, 4])) == [
        "intervals of groups with several samples per problem are clustered by problem",
        "pass@4, pass^4: - where a problem has fewer than 4 samples with a reward",
    ]


def test_a_key_that_no_sample_has_is_said_with_those_there_are() -> None:
    rows = [record(1, 1.0, metadata={"split": "test", "model": "m"})]
    assert terminal.unknown_keys(["split"], rows) == []
    assert terminal.heading(["modle", "split"], rows) == "by split:"
    assert terminal.unknown_keys(["modle", "split"], rows) == [
        "--cwsandbox-group-by: no sample has modle; there are: model, split"
    ]
    [line] = terminal.unknown_keys(["split"], [record(1, 1.0)])
    assert line.endswith("none has any metadata: give some with record_reward(..., metadata={...})")


def test_a_model_that_a_test_only_names_is_no_rollout() -> None:
    rows = [record(1, 1.0, metadata={"model": "m"}), record(2, 1.0, metadata={"turns": "x"})]
    assert terminal.models(rows) == []


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


HOSTILE = "\x1b]0;x\x07\x1b[2J\x7f\x9b31m\u202e\u2066\u200b\r\n\ud800 [/hard]"


def test_no_text_of_a_sample_or_a_finding_does_anything_to_a_terminal(
    capsys: pytest.CaptureFixture[str], pytestconfig: pytest.Config, tmp_path: Path
) -> None:
    spent = dict.fromkeys(("turns", "tool_calls", "tokens_in", "tokens_out", "cost"), "1")
    texts = {"verdict": HOSTILE, "detail": HOSTILE, "problem": HOSTILE}
    metadata = {"model": HOSTILE, HOSTILE: HOSTILE, **spent}
    rows = [
        record(number, reward, f"group {HOSTILE}{number}", metadata=metadata, **texts)
        for number, reward in enumerate([0.0, 1.0, None])
    ]
    later = [record(number, 1.0, row.group, **texts) for number, row in enumerate(rows)]
    exploit = Exploit(HOSTILE, "reward", HOSTILE, 1.0, HOSTILE, HOSTILE)
    findings = [
        Finding("gold", HOSTILE, "bad", 0, 1, HOSTILE),
        Finding("attacks", HOSTILE, "bad", 0, 1, HOSTILE, (exploit,)),
        Finding("mutants", HOSTILE, "good", 1, 1, HOSTILE),
        Finding("cost", HOSTILE, "good", 1, 1, HOSTILE),
    ]
    say = pytest.TerminalReporter(pytestconfig, sys.stdout)
    say._tw.hasmarkup = False

    numbers = summarise_run("run", rows, keys=[HOSTILE, "model", f"none {HOSTILE}"], ks=[1])
    compared = compare(rows, later, names=(HOSTILE, HOSTILE))
    sections.rates(say, numbers, rows, tmp_path / "run\x1b[2J", unsaid=rows, replayed=1, page=None)
    sections.validation_of(say, HOSTILE, findings)
    sections.compared(say, compared)
    sections.verdict(say, [f"pass rate gate of {HOSTILE}: MISSED"])
    sections.trouble(say, [HOSTILE], [HOSTILE])

    printed = capsys.readouterr().out
    assert printed.count("\\x1b]0;x") > 20
    assert "pass rate gate of \\x1b" in printed
    assert all(line.isprintable() for line in printed.split("\n"))


@pytest.mark.parametrize("odd", ["nan", "inf", "-inf", "1e999", "9" * 5000, "many"])
def test_a_metric_that_is_no_finite_number_is_left_out(odd: str) -> None:
    known = {"model": "m", "turns": "1", "tool_calls": "0", "tokens_in": "1", "tokens_out": "1"}
    rows = [record(1, 1.0, metadata={**known, "cost": cost}) for cost in ("1", odd)]
    assert terminal.models(rows)[1] == "model m: 1.00 US dollars"
    assert summarise("all", rows).cost == 1
