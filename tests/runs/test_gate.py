"""What the gates say, and that the exit code never says anything else."""

from __future__ import annotations

import json
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.controller import Controller
from pytest_cwsandbox.first_use import FIRST_USE
from pytest_cwsandbox.gates import RunGates
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.runs import baseline, plan
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.gate import INCONCLUSIVE, Decision, Gates, Thresholds, decide
from pytest_cwsandbox.runs.identity import Run
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.lock import FolderLock
from pytest_cwsandbox.runs.statistics import by_group, summarise
from pytest_cwsandbox.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from pathlib import Path

CODES = {"MISSED": 1, "INCONCLUSIVE": INCONCLUSIVE, "met": 0, "tolerated": 0, "not judged": 0}


def samples(group: str, rewards: Sequence[float | None]) -> list[SampleRecord]:
    return [
        SampleRecord(f"test_it.py::{group}[{number}]", group, "", 0, reward)
        for number, reward in enumerate(rewards)
    ]


def judged(
    records: Sequence[SampleRecord], gates: Gates, collected: Collection[str] = ()
) -> Decision:
    return decide(by_group(records), summarise("all", records), gates, collected=collected)


def test_each_group_and_all_of_them_get_a_line_of_their_own() -> None:
    records = samples("toy/a", [1.0, 0.0]) + samples("toy/b", [1.0, 1.0])
    decision = judged(records, Gates(Thresholds(0.8, {"toy/a": 0.5, "toy/b": 1.0})))
    assert decision.lines == (
        "pass rate gate: 3 of 4 samples passed (75.00%, at least 80.00% asked for): MISSED",
        "pass rate gate of toy/a: 1 of 2 samples passed (50.00%, at least 50.00% asked for): met",
        "pass rate gate of toy/b: 2 of 2 samples passed (100.00%, at least 100.00% asked for): met",
    )
    assert decision.missed


def test_the_lower_end_of_the_interval_is_a_gate_of_its_own() -> None:
    records = samples("toy/a", [1.0, 1.0, 1.0, 0.0])  # Wilson: 30.06 % to 95.44 %
    decision = judged(records, Gates(pass_rate_lower=Thresholds(0.3, {"toy/a": 0.31})))
    passed = "3 of 4 samples passed (95% interval from 30.06%, at least"
    assert decision.lines == (
        f"lower end gate: {passed} 30.00% asked for): met",
        f"lower end gate of toy/a: {passed} 31.00% asked for): MISSED",
    )


def test_a_decision_is_data_too() -> None:
    records = samples("toy/a", [1.0, 0.0]) + samples("toy/b", [1.0, None])
    gates = Gates(Thresholds(0.5, {"toy/a": 0.75}), max_infra_rate=0.5)
    decision = judged(records, gates)
    found = [each.to_json() for each in decision.judged]
    assert [tuple(each.values()) for each in found] == [
        ("infrastructure", None, 0.5, 0.25, "tolerated"),
        ("pass_rate", None, 0.5, 2 / 3, "met"),
        ("pass_rate", "toy/a", 0.75, 0.5, "missed"),
    ]
    assert list(found[0]) == ["gate", "group", "threshold", "value", "word"]
    assert decision.word == "missed"
    assert judged(samples("toy/a", [1.0]), Gates(Thresholds(1.0))).word == "met"
    assert judged(samples("toy/a", [1.0]), Gates()).word == ""


def test_where_nothing_was_recorded_the_gate_says_how_to() -> None:
    [line] = judged([], Gates(Thresholds(0.5))).lines
    assert "(tests record one with the fixture record_reward or rollout): MISSED" in line


def test_numbers_that_differ_are_shown_as_different() -> None:
    records = samples("toy/a", [1.0, 1.0, 0.0])
    [line] = judged(records, Gates(Thresholds(0.66667))).lines
    assert line.endswith("(66.6667%, at least 66.6670% asked for): MISSED")


def test_a_group_without_a_sample_has_shown_nothing() -> None:
    decision = judged(samples("toy/a", [1.0]), Gates(Thresholds(groups={"toy/b": 0.0})), {"toy/b"})
    assert decision.lines == ("pass rate gate of toy/b: no sample has a reward: MISSED",)
    assert decision.missed


def test_a_group_that_was_lost_is_not_judged() -> None:
    records = samples("toy/a", [1.0] * 9) + samples("toy/b", [None])
    decision = judged(records, Gates(Thresholds(0.5, {"toy/b": 0.5}), max_infra_rate=0.1))
    assert [line.rpartition(": ")[2] for line in decision.lines] == [
        "tolerated",
        "met",
        "not judged",
    ]
    assert not decision.missed


def test_a_group_of_the_ini_file_may_be_missing_from_a_run_of_one_file() -> None:
    lenient = Gates(Thresholds(groups={"toy/b": 0.5}, lenient=True))
    decision = judged(samples("toy/a", [1.0]), lenient)
    assert decision.lines == ("pass rate gate of toy/b: not in this run: not judged",)
    assert not decision.missed
    assert judged(samples("toy/a", [1.0]), lenient, {"toy/b"}).missed  # it was to run


@pytest.mark.parametrize(
    ("lost", "word"), [(False, "MISSED"), (True, "not judged")], ids=["all there", "lost"]
)
def test_a_baseline_with_no_sample_in_common_shows_nothing(lost: bool, word: str) -> None:  # noqa: FBT001 - a parameter of the test
    there = samples("toy/b", [1.0])
    now = there + samples("toy/a", [None]) if lost else there
    compared = compare(samples("toy/a", [1.0]), now, names=("a", "b"))
    gates = Gates(max_infra_rate=1)
    decision = decide(by_group(now), summarise("all", now), gates, compared)
    assert decision.lines[-1] == f"baseline gate: no sample in common: {word}"


def test_a_baseline_of_another_suite_is_missed_though_an_unrelated_sample_was_lost() -> None:
    now = samples("toy/b", [1.0, None])
    compared = compare(samples("toy/a", [1.0]), now, names=("a", "b"))
    decision = decide(by_group(now), summarise("all", now), Gates(max_infra_rate=1), compared)
    assert decision.lines[-1] == "baseline gate: no sample in common: MISSED"
    assert decision.missed


@pytest.mark.parametrize(
    "gates",
    [
        Thresholds(0.0),
        Thresholds(groups={"toy/a": 0.0}),
        Thresholds(groups={"toy/elsewhere": 0.0}, lenient=True),
    ],
    ids=["pooled", "group", "ini file"],
)
def test_a_gated_run_of_which_everything_was_lost_is_never_good(gates: Thresholds) -> None:
    lost = samples("toy/a", [None, None])
    for decision in (
        judged(lost, Gates(pass_rate=gates, max_infra_rate=1)),
        judged(lost, Gates(pass_rate_lower=gates, max_infra_rate=1)),
    ):
        assert [line.rpartition(": ")[2] for line in decision.lines] == [
            "tolerated",
            "INCONCLUSIVE",
        ]
        assert decision.inconclusive
        assert not decision.missed


@pytest.mark.parametrize(("worse", "word"), [(5, "MISSED"), (4, "met")])
def test_only_a_significant_regression_fails(worse: int, word: str) -> None:
    now = samples("toy/a", [0.0] * worse + [1.0] * (20 - worse))  # p is 0.5 ** worse
    compared = compare(samples("toy/a", [1.0] * 20), now, names=("a", "b"))
    decision = decide(by_group(now), summarise("all", now), Gates(), compared)
    assert decision.lines[-1].endswith(f"significant below 0.05): {word}")
    assert decision.missed == (word == "MISSED")


def test_a_better_run_is_never_a_regression() -> None:
    now = samples("toy/a", [1.0] * 20)
    compared = compare(samples("toy/a", [0.0] * 20), now, names=("a", "b"))
    assert not decide(by_group(now), summarise("all", now), Gates(alpha=1.0), compared).missed


@pytest.mark.parametrize("seed", range(20))
def test_the_printed_verdict_and_the_exit_code_never_disagree(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Controller, "_write", lambda *_: None)  # hundreds of HTML reports
    chance = random.Random(seed)  # noqa: S311 - to draw runs with
    for number in range(15):
        _check_a_run(chance, tmp_path / str(number))


def _check_a_run(chance: random.Random, folder: Path) -> None:
    groups = ["toy/a", "toy/b", "toy/c"]
    records = [
        record
        for group in groups
        for record in samples(
            group, chance.choices([1.0, 0.5, 0.0, None], [4, 1, 2, 1], k=chance.randrange(6))
        )
    ]
    failing = chance.random() < 0.2
    controller = _controller(folder, _random_settings(chance, groups), records, chance)
    code = _ended(controller, records, failing=failing)
    words = [line.rpartition(": ")[2] for line in controller._decision.lines]
    codes = {CODES[word] for word in words} | {int(failing)}
    assert code == next(code for code in (1, INCONCLUSIVE, 0) if code in codes)


def _random_settings(chance: random.Random, groups: Sequence[str]) -> Settings:
    def thresholds() -> Thresholds:
        named = chance.sample([*groups, "toy/none"], chance.randrange(3))
        pooled = chance.choice([None, chance.random()])
        rates = {name: chance.random() for name in named}
        return Thresholds(pooled, rates, lenient=chance.random() < 0.5)

    most = chance.choice([0.0, 0.2, 1.0])
    return Settings(gates=Gates(thresholds(), thresholds(), most, chance.choice([0.05, 0.9])))


def _controller(
    folder: Path, settings: Settings, records: Sequence[SampleRecord], chance: random.Random
) -> Controller:
    run = Run("now", folder / "now", "main", 0)
    planned = [plan.Planned(record.id, record.group, "", 0) for record in records]
    if planned:
        plan.write(run.folder, planned, {}, {})
    earlier = None
    if chance.random() < 0.5:
        before = chance.sample(records, len(records) // 2) + samples("toy/old", [1.0])
        earlier = baseline.Baseline.of(
            [SampleRecord(r.id, r.group, "", 0, chance.choice([0.0, 1.0])) for r in before], {}
        )
    return Controller(settings, run, RunGates(settings, run, earlier), FolderLock(), [])


def _ended(controller: Controller, records: Sequence[SampleRecord], *, failing: bool) -> int:
    """The exit code of a run of which pytest told the controller this much."""
    failed = int(failing)
    for record in records:
        told = {"sample": Entry(record, "lost" if record.reward is None else "ended").to_json()}
        if record.reward is None:
            failed += 1
            lost = {"status": "infra", "detail": "gone"}
            controller.reports.pytest_runtest_logreport(_report(record.id, "call", "failed", lost))
        else:
            controller.reports.pytest_runtest_logreport(_report(record.id, "call", "passed", {}))
        controller.reports.pytest_runtest_logreport(_report(record.id, "teardown", "passed", told))
    if failing:
        controller.reports.pytest_runtest_logreport(
            _report("test_it.py::test_check", "call", "failed", {})
        )
    session = SimpleNamespace(
        testsfailed=failed,
        testscollected=len(records) + failing,
        config=SimpleNamespace(
            getoption=lambda *_, default: default,
            stash={FIRST_USE: SimpleNamespace(late=False, listen=lambda **_: None)},
        ),
        Failed=pytest.Session.Failed,
    )
    _drive(controller.pytest_runtestloop(session))  # type: ignore[arg-type]  # all it asks for
    session.exitstatus = 1 if session.testsfailed else 0
    _drive(controller.pytest_sessionfinish(session))  # type: ignore[arg-type]  # as above
    return int(session.exitstatus)


def _report(node: str, when: str, outcome: str, told: Mapping[str, object]) -> pytest.TestReport:
    report = pytest.TestReport(node, ("", 0, ""), {}, outcome, None, when)  # type: ignore[arg-type]  # texts of their types
    if told:
        report.cwsandbox = json.dumps(told)  # type: ignore[attr-defined]  # as the plugin does
    return report


def _drive(wrapper: object) -> None:
    next(wrapper)  # type: ignore[call-overload]  # a generator, as pluggy runs it
    with pytest.raises(StopIteration):
        wrapper.send(None)  # type: ignore[attr-defined]  # as above
