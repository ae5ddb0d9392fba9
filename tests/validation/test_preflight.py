"""`pytest-cwsandbox preflight`: the verdict has its reasons, and bad input is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from click.testing import CliRunner

from pytest_cwsandbox.cli import main
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.reports.html.signal import signal_of
from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL
from pytest_cwsandbox.runs import journal, plan
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from click.testing import Result


def zeros_and_ones(passed: int, samples: int) -> list[float]:
    return [1.0] * passed + [0.0] * (samples - passed)


def preflight(*args: str | Path) -> Result:
    """Run the command in a terminal of 80 columns."""
    return CliRunner().invoke(main, ["preflight", *map(str, args)], env={"COLUMNS": "80"})


def numbers(*args: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(preflight(*args, "--json").output)
    return found


def written(path: Path, rewards: Mapping[str, Sequence[float | None]]) -> Path:
    rows = [{"task_id": name, "reward": r} for name, given in rewards.items() for r in given]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def recorded(path: Path, *records: tuple[str, str, float | None]) -> Path:
    """A run's own samples, from (group, problem, reward)."""
    rows = [
        Entry(SampleRecord(f"test_x.py::test[{n}]", group, problem, n, reward), "ended").to_json()
        for n, (group, problem, reward) in enumerate(records)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Ten problems that the model solves every other time, one always, one never."""
    rewards = {f"p{n}": zeros_and_ones(8, 16) for n in range(10)}
    rewards |= {"easy": zeros_and_ones(16, 16), "hopeless": zeros_and_ones(0, 16)}
    return written(tmp_path / "samples.jsonl", rewards)


def test_problems_that_differ_are_ready(mixed: Path) -> None:
    done = preflight(mixed)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[-1] == "READY"
    assert max(map(len, lines)) <= 80


def test_the_numbers_are_those_of_the_formulas(mixed: Path) -> None:
    found = numbers(mixed, "--batch", "10")
    one = 2 * 1 / 12870  # of the C(16, 8) groups of 8 from 8 and 8
    assert found["zero_variance"]["estimate"] == pytest.approx((10 * one + 2) / 12)
    groups = 10 * (1 - (10 * one + 2) / 12)
    assert found["effective_groups"][0] == pytest.approx(groups)
    assert found["effective_samples"][0] == pytest.approx(8 * groups)
    assert found["effective_groups"][1] < groups < found["effective_groups"][2]
    assert found["noise"] == pytest.approx(10 * 16 / 15 * 0.25 / 12)
    assert found["ready"] is True


def test_the_noise_of_any_rewards_is_their_variance_within_problems(tmp_path: Path) -> None:
    rewards = {"a": [0.0, 0.5, 0.25], "b": [1.0, 0.75, 0.5, 0.0, 0.5]}
    found = numbers(written(tmp_path / "s.jsonl", rewards), "--group-size", "2")
    pooled = (2 * np.var(rewards["a"], ddof=1) + 4 * np.var(rewards["b"], ddof=1)) / 6
    assert found["noise"] == pytest.approx(pooled)


def test_problems_without_any_gradient_are_not_ready(tmp_path: Path) -> None:
    rewards = {f"p{n}": zeros_and_ones(8 * (n % 2), 8) for n in range(40)}
    done = preflight(written(tmp_path / "s.jsonl", rewards))
    assert done.exit_code == 1
    assert "20 problems, always 0" in done.output
    assert "20 problems, always 1" in done.output
    assert "100.0% of the groups will have no gradient" in done.output
    assert done.output.splitlines()[-1] == "NOT READY"


def test_the_kept_problems_are_the_training_set(mixed: Path, tmp_path: Path) -> None:
    out = tmp_path / "train.jsonl"
    done = preflight(mixed, "--keep", "0.2:0.8", "-o", out)
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert rows == [{"task_id": f"p{n}", "pass_rate": 0.5, "samples": 16} for n in range(10)]


def test_both_ends_of_the_range_are_kept(tmp_path: Path) -> None:
    rewards = {f"p{passed}": zeros_and_ones(passed, 10) for passed in range(11)}
    found = numbers(written(tmp_path / "s.jsonl", rewards), "--keep", "0.2:0.8")
    kept = [problem["task_id"] for problem in found["problems"] if problem["kept"]]
    assert kept == [f"p{passed}" for passed in range(2, 9)]


def test_the_keep_list_with_full_rows_is_a_source_of_problems(tmp_path: Path) -> None:
    first, second = load("bundled", limit=2)
    rewards = {first.id: zeros_and_ones(4, 8), second.task_id: zeros_and_ones(8, 8)}
    out = tmp_path / "train.jsonl"
    samples = written(tmp_path / "s.jsonl", rewards)
    preflight(samples, "--keep", "0.2:0.8", "--problems", "bundled", "--output", out)
    [problem] = load(str(out))
    assert (problem.task_id, problem.test_list) == (first.task_id, first.test_list)
    assert json.loads(out.read_text())["pass_rate"] == 0.5


def test_luck_does_not_make_hopeless_problems_look_worth_training_on(tmp_path: Path) -> None:
    passed = np.random.default_rng(11).binomial(16, 0.05, 400)
    rewards = {f"p{n}": zeros_and_ones(c, 16) for n, c in enumerate(passed)}
    found = numbers(written(tmp_path / "s.jsonl", rewards), "--keep", "0.15:0.8")
    kept = [p["zero_variance"] for p in found["problems"] if p["kept"]]
    truth = 0.05**8 + 0.95**8
    assert np.mean(kept) < 0.2 < truth  # what the lucky ones show on the samples that chose them
    share_of_kept = found["training"]["zero_variance"]
    assert share_of_kept["low"] < truth < share_of_kept["high"]
    assert found["training"]["held_out"] is True


def test_choosing_on_the_same_samples_is_said(tmp_path: Path) -> None:
    rewards = {f"p{n}": zeros_and_ones(4, 8) for n in range(10)}
    done = preflight(written(tmp_path / "s.jsonl", rewards), "--keep", "0.2:0.8")
    assert "same samples" in done.output


@pytest.mark.parametrize(
    ("rewards", "options", "reason"),
    [
        ([0.0, 1.0] * 2, [], "too few samples to tell: the median problem has 4"),
        ([0.0] * 8, [], "no gradient, more than 50.0% (--max-zero-variance)"),
        ([1.0] + [0.0] * 9, ["--keep", "0.2:0.8"], "no problem's pass rate is in 0.2:0.8"),
        ([0.0, 1.0] * 5 + [None], [], "9.1% of the samples were lost to infrastructure"),
        ([0.0, 1.0] * 5 + [1.5], [], "rewards outside 0:1 (--bounds): 20, the first 1.5 at"),
        ([0.0, 1.0] * 5 + [float("nan")], [], "not finite: 20, the first nan at"),
        ([0.0, 1.0] * 5 + [float("-inf")], [], "not finite: 20, the first -inf at"),
        ([None] * 8, [], "no sample has a reward"),
    ],
)
def test_each_reason_is_named_with_its_option(
    tmp_path: Path, rewards: list[float | None], options: list[str], reason: str
) -> None:
    samples = written(tmp_path / "s.jsonl", {f"p{n}": rewards for n in range(20)})
    done = preflight(samples, *options)
    assert done.exit_code == 1
    assert reason in " ".join(done.output.split())
    found = numbers(samples, *options)
    assert found["ready"] is False
    assert any(reason.partition(",")[0] in given for given in found["reasons"])


def test_every_threshold_can_be_moved(tmp_path: Path) -> None:
    rewards = [2.0, 2.0, None, 2.0, 0.0, 2.0]
    samples = written(tmp_path / "s.jsonl", {f"p{n}": rewards for n in range(20)})
    lenient = ["--min-samples", "4", "--bounds", "-1:2", "--max-infrastructure", "0.5"]
    assert preflight(samples, *lenient).exit_code == 0
    strict = ["--max-zero-variance", "0.01"]
    assert preflight(samples, *lenient, *strict).exit_code == 1


def test_what_the_infrastructure_lost_is_counted_and_enters_no_rate(tmp_path: Path) -> None:
    samples = written(tmp_path / "s.jsonl", {"a": [*zeros_and_ones(4, 8), None], "b": [None]})
    found = numbers(samples)
    assert (found["samples"], found["infrastructure"]) == (8, 2)
    assert [(p["task_id"], p["pass_rate"]) for p in found["problems"]] == [("a", 0.5)]
    assert found["unscored"] == ["b"]


@pytest.mark.parametrize("as_folder", [True, False])
def test_a_run_is_read_by_its_folder_or_its_file(tmp_path: Path, as_folder: bool) -> None:  # noqa: FBT001 - a parameter of the test
    file = recorded(
        tmp_path / "samples.jsonl",
        *[("g/test", f"bundled-{n}", reward) for n in range(5) for reward in (0.0, 1.0) * 4],
        ("g/test", "", 1.0),
    )
    found = numbers(tmp_path if as_folder else file)
    assert [(p["samples"], p["passed"]) for p in found["problems"]] == [(8, 4)] * 5
    assert found["notes"][0] == "samples of no problem, left out: 1"


def test_groups_of_a_run_are_kept_apart_or_taken_one_by_one(tmp_path: Path) -> None:
    always = [("a/x", "p", 1.0), ("a/x", "p", 1.0)]
    never = [("a/y", "p", 0.0), ("a/y", "p", 0.0)]
    file = recorded(tmp_path / "samples.jsonl", *always, *never)
    assert "note: 2 groups are kept apart; --group takes one: a/x, a/y" in preflight(file).output
    found = numbers(file, "--group-size", "2")
    assert [p["task_id"] for p in found["problems"]] == ["a/y p", "a/x p"]
    assert found["zero_variance"]["estimate"] == 1.0  # no policy earns now 1, now 0
    assert numbers(file, "--group", "a/y")["pass_rate"] == 0.0
    absent = preflight(file, "--group", "a/z")
    assert absent.exit_code == 2
    assert 'has no group "a/z"; its groups are: a/x, a/y' in absent.output


def test_a_keep_list_is_of_one_group(tmp_path: Path) -> None:
    twice = [(group, "p", reward) for group in ("a/x", "a/y") for reward in (0.0, 1.0)]
    file = recorded(tmp_path / "samples.jsonl", *twice)
    out = tmp_path / "keep.jsonl"
    refused = preflight(file, "-o", out)
    assert refused.exit_code == 2
    assert "choose it with --group, of a/x, a/y" in " ".join(refused.output.split())
    assert not out.exists()
    preflight(file, "-o", out, "--group", "a/x")
    assert json.loads(out.read_text())["task_id"] == "p"


def test_groups_that_sample_no_problem_again_are_left_out_aloud(tmp_path: Path) -> None:
    again = [("a/x", "p", reward) for reward in (0.0, 1.0)]
    file = recorded(tmp_path / "samples.jsonl", ("a/once", "p", 1.0), *again, ("a/odd", "", 0.5))
    output = preflight(file).output
    assert "groups that sample no problem more than once, left out: a/once" in output
    assert "samples of no problem, left out: 1" in output
    [problem] = numbers(file)["problems"]
    assert (problem["task_id"], problem["samples"]) == ("p", 2)


def test_the_page_of_a_run_has_the_same_numbers(tmp_path: Path) -> None:
    rewards = {("a/x", "p"): 1, ("a/x", "q"): 3, ("a/y", "p"): 2, ("a/y", "q"): 0, ("a/z", "q"): 4}
    samples = [
        (group, problem, float(n < passed))
        for (group, problem), passed in rewards.items()
        for n in range(4)
    ]
    file = recorded(tmp_path / "samples.jsonl", ("a/once", "p", 1.0), *samples)
    signal = signal_of([entry.record for entry in journal.read(file, print).values()])
    assert signal is not None
    assert signal.group_size == 4
    found = numbers(file, "--group-size", "4")
    assert signal.zero_variance.to_json() == found["zero_variance"]
    assert (signal.ready, [*signal.notes]) == (found["ready"], found["notes"])


def test_samples_of_the_scripted_model_are_called_what_they_are(tmp_path: Path) -> None:
    record = SampleRecord("test_x.py::test", "a/x", "p", 0, 1.0, metadata={"model": "scripted"})
    file = tmp_path / "samples.jsonl"
    file.write_text(json.dumps(Entry(record, "ended").to_json()) + "\n")
    assert f"note: model scripted: {NOT_A_MODEL}\n" in preflight(file).output


def test_many_long_or_strange_names_fit_the_terminal(tmp_path: Path) -> None:
    names = [f"[bold]{'long-' * 30}{n}\x1b[31m" for n in range(60)]
    rewards = {name: zeros_and_ones(n % 17, 16) for n, name in enumerate(names)}
    done = preflight(written(tmp_path / "s.jsonl", rewards), "--keep", "0.2:0.8")
    assert max(map(len, done.output.splitlines())) <= 80
    assert "problems between" in done.output
    assert "\x1b[31m" not in done.output


GOOD = '{"task_id": "a", "reward": 1}\n'


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("", "bad.jsonl: the file has no rows"),
        (GOOD + '{"task_id": "a", "rew', "bad.jsonl:2: not valid JSON"),
        (GOOD + '{"reward": 1}\n', 'bad.jsonl:2: missing field "task_id"'),
        (GOOD + '{"task_id": "a"}\n', 'bad.jsonl:2: missing field "reward"'),
        ('{"task_id": "a", "reward": "1"}\n', 'bad.jsonl:1: field "reward" must be a number'),
        ('{"task_id": "a", "reward": true}\n', 'bad.jsonl:1: field "reward" must be a number'),
        ('{"task_id": "a", "reward": 1e300}\n', 'bad.jsonl:1: field "reward" is beyond 1e+100'),
        ('{"task_id": null, "reward": 1}\n', 'bad.jsonl:1: field "task_id" must be'),
        ('{"schema": 2}\n', "bad.jsonl:1: schema 2, and this version of pytest-cwsandbox reads"),
        ("[1]\n", "bad.jsonl:1: must be a JSON object"),
    ],
)
def test_unreadable_input_is_one_line_and_exit_code_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.jsonl").write_text(content)
    done = preflight("bad.jsonl")
    assert done.exit_code == 2
    assert named in done.output
    assert len(done.output.splitlines()) == 1


def test_a_folder_without_samples_is_named(tmp_path: Path) -> None:
    done = preflight(tmp_path)
    assert done.exit_code == 2
    assert "holds no samples" in done.output


@pytest.fixture
def crashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A run whose controller was killed, in the usual place: journals, one line cut off."""
    monkeypatch.chdir(tmp_path)
    folder = Path(".cwsandbox/runs/20260101-000000-abcdef")
    planned = [Planned(f"t.py::t[{n}]", "g/t", f"p{n % 5}", n // 5) for n in range(42)]
    plan.write(folder, planned, {}, {})
    for n, each in enumerate(planned[:40]):
        record = SampleRecord(each.id, each.group, each.problem, each.sample, float(n // 5 % 2))
        journal.append(folder, f"gw{n % 2}", Entry(record, "graded"))
        journal.append(folder, f"gw{n % 2}", Entry(record, "ended"))
    with (folder / "samples-gw1.jsonl").open("a") as file:
        file.write('{"schema": 1, "id": "t.py')
    return folder.name


@pytest.mark.parametrize("latest", [True, False])
def test_a_crashed_run_is_read_from_its_journal(crashed: str, latest: bool) -> None:  # noqa: FBT001 - a parameter of the test
    done = preflight("latest" if latest else crashed, "--json")
    found = json.loads(done.stdout)
    assert [(p["samples"], p["passed"]) for p in found["problems"]] == [(8, 4)] * 5
    assert "samples that were planned and have no result: 2" in found["notes"]
    assert done.stderr.startswith("warning: ")
    assert "samples-gw1.jsonl:41: skipped the last line" in done.stderr


def test_a_run_that_is_nowhere_is_named() -> None:
    done = preflight("20200101-nowhere")
    assert done.exit_code == 2
    assert "20200101-nowhere: no such file or folder, and no run in" in done.output


def test_a_sample_of_an_unknown_problem_is_named(mixed: Path) -> None:
    done = preflight(mixed, "--problems", "bundled")
    assert done.exit_code == 2
    assert 'samples.jsonl:1: "p0" is no problem of bundled' in done.output


def test_an_unknown_source_of_problems_is_named_with_this_commands_option(mixed: Path) -> None:
    done = preflight(mixed, "--problems", "nowhere")
    assert done.exit_code == 2
    assert 'Error: --problems: "nowhere" is none of' in done.output


@pytest.mark.parametrize("keep", ["0.2", "0.8:0.2", "a:b", "0:2", "nan:1", "0.2:0.5:0.8"])
def test_a_bad_range_is_a_usage_error(mixed: Path, keep: str) -> None:
    done = preflight(mixed, "--keep", keep)
    assert done.exit_code == 2
    assert "must be LOW:HIGH" in done.output


def test_an_output_that_cannot_be_written_is_named(mixed: Path, tmp_path: Path) -> None:
    done = preflight(mixed, "-o", tmp_path / "absent" / "keep.jsonl")
    assert done.exit_code == 2
    assert "keep.jsonl: cannot be written: No such file" in done.output
