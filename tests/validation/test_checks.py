"""Every planted defect is found by the check that should find it, and by name."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import runner
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.rewards import code_reward
from pytest_cwsandbox.validation import checks
from pytest_cwsandbox.validation.attacks import attacks
from pytest_cwsandbox.validation.calling import Case, RewardProcess
from pytest_cwsandbox.validation.formats import malformed
from pytest_cwsandbox.validation.wrappings import answer, message
from tests.test_serve_command import gone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cwsandbox import Session

    from pytest_cwsandbox.findings import Finding

ROOT = Path(__file__).parents[2]
PROBLEMS = load("bundled", limit=2)
FIRST = PROBLEMS[0]
FORMATS = {form.name: form for form in malformed()}
ATTACKS = {attack.name: attack for attack in attacks()}


@pytest.fixture
def new(
    cwsandbox_session: Session, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., RewardProcess]]:
    """Makes processes that hold a planted reward function, with the run's sandbox service."""
    del cwsandbox_session  # it set the environment
    monkeypatch.setenv("MY_SECRET_TOKEN", "not for rewards")
    made: list[RewardProcess] = []

    def make(spec: str, timeout: float = 120, **environment: str) -> RewardProcess:
        spec = spec if ":" in spec else f"tests.validation.planted:{spec}"
        made.append(RewardProcess(spec, timeout, [ROOT], environment))
        return made[-1]

    yield make
    for process in made:
        process.close()


def is_bad(finding: Finding, *words: str) -> None:
    """The finding is bad, and says why with these words."""
    assert finding.status == "bad", finding
    assert all(word in finding.detail for word in words), finding


def is_good(finding: Finding) -> None:
    assert finding.status == "good", finding
    assert finding.good == finding.total


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("wrong_length", ("wrong length", "returned 0 rewards for 1 completions")),
        ("none_for_everything", ("reward None",)),
        ("not_finite", ("not finite", "reward 0 is nan")),
        ("wrong_type", ("wrong type", "reward 0 is a str")),
        ("one_number", ("wrong type", "returned a float, not a list")),
        ("no_columns", ("unusable", "add **kwargs")),
        ("other_parameters", ("unusable", "must take (prompts, completions")),
        ("NOT_A_FUNCTION", ("unusable", "is a int, not a function")),
        ("absent", ("unusable", "has no absent")),
        ("no_such_module:reward", ("unusable", "no_such_module cannot be imported")),
        ("tests.validation.planted:", ("unusable", "must look like package.module:function")),
    ],
)
def test_gold_finds(new: Callable[..., RewardProcess], spec: str, words: tuple[str, ...]) -> None:
    is_bad(checks.gold(new(spec), FIRST, 1.0), *words)


@pytest.mark.parametrize(
    "spec", ["honest", "honest_async", "honest_on_trajectories", "honest_on_one"]
)
def test_gold_accepts_every_shape_of_an_honest_reward(
    new: Callable[..., RewardProcess], spec: str
) -> None:
    is_good(checks.gold(new(spec), FIRST, 1.0))


@pytest.mark.parametrize(
    ("spec", "variation"),
    [
        ("order_dependent", "reversed"),
        ("order_dependent", "shuffled"),
        ("order_dependent", "one by one"),
        ("batch_leak", "beside others"),
        ("clock_dependent", "twice"),
        ("hash_dependent", "another hash seed"),
    ],
)
def test_determinism_finds(new: Callable[..., RewardProcess], spec: str, variation: str) -> None:
    other = new(spec, PYTHONHASHSEED="7")
    is_bad(checks.is_steady(new(spec, PYTHONHASHSEED="0"), other, variation, PROBLEMS), ", then ")


@pytest.mark.parametrize("variation", [*checks.VARIATIONS, "another hash seed"])
def test_an_honest_reward_is_steady(new: Callable[..., RewardProcess], variation: str) -> None:
    other = new("honest", PYTHONHASHSEED="7")
    is_good(checks.is_steady(new("honest"), other, variation, PROBLEMS))


def test_format_finds_a_reward_that_raises_on_empty_completions(
    new: Callable[..., RewardProcess],
) -> None:
    reward = new("raises_on_empty")
    is_bad(checks.survives(reward, FORMATS["empty"], FIRST), "raised: AssertionError")


def test_format_finds_a_reward_that_hangs(new: Callable[..., RewardProcess]) -> None:
    reward = new("hangs_without_code", timeout=3)
    is_bad(checks.survives(reward, FORMATS["prose-only"], FIRST), "hung: no answer within 3 s")
    assert reward.call([Case(FIRST, answer(FIRST.reference_solution))]).rewards == (1.0,)


def test_held_out_finds_an_accepted_lookup_table(
    new: Callable[..., RewardProcess], cwsandbox_session: Session
) -> None:
    finding = checks.holds_out(new("accepts_lookup_tables"), FIRST, cwsandbox_session)
    is_bad(finding, "a lookup table earned 1.0")
    assert finding.exploits[0].attack == "lookup-table"
    is_good(checks.holds_out(new("honest"), FIRST, cwsandbox_session))


def test_attacks_find_a_reward_that_runs_code_in_its_own_process(
    new: Callable[..., RewardProcess],
) -> None:
    reward = new("runs_in_its_own_process")
    finding = checks.resists(reward, ATTACKS["os-exit-at-import"], PROBLEMS)
    is_bad(finding, "died: its process ended with exit code 0")
    exploit = checks.resists(reward, ATTACKS["always-equal"], PROBLEMS)
    assert exploit.exploits[0].reward == 1.0
    assert "always" in exploit.exploits[0].attack
    assert exploit.exploits[0].completion


def test_attacks_find_none_exploits(new: Callable[..., RewardProcess]) -> None:
    finding = checks.resists(new("none_for_everything"), ATTACKS["exit-at-import"], PROBLEMS)
    is_bad(finding, "reward None")
    assert {exploit.kind for exploit in finding.exploits} == {"none"}


@pytest.mark.parametrize("fault", ["create-unavailable", "exec-dropped"])
@pytest.mark.parametrize(
    ("spec", "status"),
    [
        ("zero_on_infrastructure", "bad"),
        ("honest", "good"),
        ("runs_in_its_own_process", "not checkable"),
    ],
)
def test_infrastructure_finds_zeros_for_failing_sandboxes(
    new: Callable[..., RewardProcess], tmp_path: Path, fault: str, spec: str, status: str
) -> None:
    served = runner.join_or_start(tmp_path / "runner", lifeline=os.getpid(), faults=(fault,))
    try:
        reward = new(spec, **served.environment(os.environ))
        assert checks.keeps_faults_apart(reward, fault, [FIRST]).status == status
    finally:
        runner.stop(tmp_path / "runner")


def test_cost_finds_latency_where_there_is_a_limit(new: Callable[..., RewardProcess]) -> None:
    slow = checks.cost(new("slow"), PROBLEMS, 8, limit=1.0)
    is_bad(slow, "p50 2.0", "over the limit of 1 s")
    assert checks.cost(new("slow"), PROBLEMS, 8, limit=None).status == "good"


def test_range_finds_unbounded_rewards(new: Callable[..., RewardProcess]) -> None:
    is_bad(checks.stays_in_range(new("unbounded"), PROBLEMS, (0, 1)), "outside 0..1")
    assert checks.stays_in_range(new("unbounded"), PROBLEMS, (0, 1e6)).status == "good"


def test_partial_credit_must_rise(new: Callable[..., RewardProcess]) -> None:
    is_bad(checks.rises(new("falls_with_more_asserts"), FIRST), "rewards by asserts passed")
    is_good(checks.rises(new("honest"), FIRST))


def test_mutants_find_a_reward_that_pays_everything(
    new: Callable[..., RewardProcess], cwsandbox_session: Session
) -> None:
    finding = checks.kills_mutants(new("unbounded"), FIRST, cwsandbox_session, 1.0)
    is_bad(finding, "reward")
    assert finding.good == 0
    honest = checks.kills_mutants(new("honest"), FIRST, cwsandbox_session, 1.0)
    assert honest.status == "good"
    assert honest.total > 5


def test_a_reward_that_leaves_a_daemon_is_cleared_up(new: Callable[..., RewardProcess]) -> None:
    reward = new("leaves_a_daemon")
    assert reward.call([Case(FIRST, "x")]).rewards == (0.0,)
    started = processes_with(reward.mark)
    assert len(started) == 2
    reward.close()
    assert all(gone(pid) for pid in started)


def test_a_killed_reward_process_leaves_no_folder(
    new: Callable[..., RewardProcess], tmp_path: Path
) -> None:
    reward = new("honest", TMPDIR=str(tmp_path))
    assert reward.call([Case(FIRST, answer(FIRST.reference_solution))]).rewards == (1.0,)
    reward.close()
    assert list(tmp_path.iterdir()) == []


def processes_with(mark: str) -> list[int]:
    """The processes that have this text in their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
    return found


def test_the_reward_gets_no_secrets_and_a_folder_of_its_own(
    new: Callable[..., RewardProcess], tmp_path: Path
) -> None:
    (tmp_path / "looks_around.py").write_text(
        "import os\n"
        "def reward(prompts, completions, **columns):\n"
        "    assert 'MY_SECRET_TOKEN' not in os.environ\n"
        "    assert os.listdir() == []\n"
        "    print('noise on stdout')\n"
        "    return [1.0 for _ in completions]\n"
    )
    reward = RewardProcess("looks_around:reward", path=[tmp_path])
    with reward:
        assert reward.call([Case(FIRST, "x")]).rewards == (1.0,)


def test_code_reward_takes_both_formats_and_skips_what_is_no_code(
    cwsandbox_session: Session,
) -> None:
    right = answer(FIRST.reference_solution)
    columns = {name: [value] * 4 for name, value in FIRST.to_json().items()}
    rewards = code_reward(
        ["p"] * 4, [right, message(right), "no code", answer("def f(): return 1")], **columns
    )
    assert rewards == [1.0, 1.0, 0.0, 0.0]
