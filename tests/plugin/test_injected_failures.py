"""A service that fails: what a run says of the model stays the same, and what it lost is told."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_cwsandbox.local.faults import NUMBERED, Faults, Kind, read_faults

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

SEED = 1
INCONCLUSIVE = 75
# About every fifth grade meets one. The answers are not ASCII, so that they are sent as files.
EVERY_KIND = [f"{kind}@0.03" for kind in Kind if kind not in {Kind.CREATE_EXHAUSTED, *NUMBERED}]
EVALUATION = """
import pytest

@pytest.mark.problems(samples=2, group="right")
def test_right(problem, grade, record_reward):
    record_reward(grade(problem, "# juste, à peu près\\n" + problem.reference_solution).result())

@pytest.mark.problems(samples=2, group="wrong")
def test_wrong(problem, grade, record_reward):
    code = f"def {problem.entry_point}(*_):  # à côté\\n    return 'wrong'\\n"
    record_reward(grade(problem, code).result())
"""
ROLLOUTS = """
import pytest

@pytest.mark.problems(samples=2, group="agents")
async def test_agent(problem, rollout):
    await rollout(problem)
"""


@dataclass(frozen=True, slots=True)
class Run:
    """How a run ended, and what it kept. ``rewards`` are by sample; lost ones are None."""

    result: pytest.RunResult
    samples: list[dict[str, Any]]
    summary: dict[str, Any]

    @property
    def rewards(self) -> dict[str, float | None]:
        return {sample["id"]: sample["reward"] for sample in self.samples}

    @property
    def lost(self) -> int:
        return list(self.rewards.values()).count(None)


def evaluate(
    pytester: pytest.Pytester, name: str, *options: str, faults: list[str] | None = None
) -> Run:
    """A run whose sandboxes come from a runner that injects faults; ``name`` is of its folder."""
    command = [sys.executable, "-m", "pytest", f"--cwsandbox-report-dir={name}", *options]
    if faults:
        served = [sys.executable, "-m", "pytest_cwsandbox", "serve", f"--fault-seed={SEED}"]
        command = [*served, *(f"--fault={fault}" for fault in faults), "--", *command]
    result = pytester.run(*command)
    folder = folder_of(pytester.path / name)
    rows = (folder / "samples.jsonl").read_text().splitlines()
    return Run(
        result, [json.loads(row) for row in rows], json.loads((folder / "summary.json").read_text())
    )


def folder_of(runs: Path) -> Path:
    [folder] = (path for path in runs.iterdir() if path.is_dir())
    return folder


def told_retries(run: Run) -> int:
    """How many failures the run says that retries made good."""
    [line] = [line for line in run.result.outlines if "made good by retries" in line]
    return int(line.split()[1])


def test_injected_failures_change_no_reward_and_retries_make_them_good(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(test_evaluation=EVALUATION)
    options = ("-n2", "--cwsandbox-problems=bundled", "--cwsandbox-limit=15")
    undisturbed = evaluate(pytester, "undisturbed", *options)
    assert undisturbed.result.ret == 0
    assert (len(undisturbed.rewards), undisturbed.lost) == (60, 0)
    assert undisturbed.summary["retries"] == 0

    disturbed = evaluate(
        pytester, "disturbed", *options, "--cwsandbox-retries=0", faults=EVERY_KIND
    )
    assert disturbed.result.ret == INCONCLUSIVE
    assert disturbed.rewards.keys() == undisturbed.rewards.keys()
    assert 1 <= disturbed.lost <= 30
    assert kept(disturbed).items() <= undisturbed.rewards.items()
    low, high = disturbed.summary["all"]["interval"]
    assert low <= undisturbed.summary["all"]["pass_rate"] <= high
    disturbed.result.stdout.fnmatch_lines(
        [f"infrastructure: {disturbed.lost} of 60 items lost *: INCONCLUSIVE"]
    )

    retried = evaluate(pytester, "retried", *options, "--cwsandbox-retries=8", faults=EVERY_KIND)
    assert retried.result.ret == 0
    assert retried.rewards == undisturbed.rewards
    assert told_retries(retried) == retried.summary["retries"] > 0
    assert sum(sample["retries"] for sample in retried.samples) == retried.summary["retries"]


def test_nor_do_they_change_those_of_rollouts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_rollouts=ROLLOUTS)
    options = ("-n2", "--cwsandbox-problems=bundled", "--cwsandbox-limit=3")
    # Of starts alone: what fails when an agent has left something in its sandbox stays lost.
    faults = ["create-unavailable@0.2", "start-failed@0.2"]
    disturbed = evaluate(pytester, "disturbed", *options, "--cwsandbox-retries=0", faults=faults)
    assert disturbed.result.ret == INCONCLUSIVE
    assert disturbed.lost >= 1
    assert set(kept(disturbed).values()) <= {1.0}

    retried = evaluate(pytester, "retried", *options, "--cwsandbox-retries=8", faults=faults)
    assert retried.result.ret == 0
    assert list(retried.rewards.values()) == [1.0] * 6
    assert told_retries(retried) == retried.summary["retries"] > 0


def test_failed_starts_of_a_tests_own_sandbox_are_counted(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", range(4))
        def test_uses_a_sandbox(number, sandbox, record_reward):
            record_reward(float(sandbox.exec(["true"]).result().returncode == 0))
        """
    )
    fault = "create-unavailable@0.5"
    fate = Faults(read_faults([fault]), seed=SEED)
    fails = [fate.strikes(Kind.CREATE_UNAVAILABLE) for _ in range(20)]
    fourth_start = [number for number, failed in enumerate(fails) if not failed][3]
    before = fourth_start - 3
    assert before > 0

    retried = evaluate(pytester, "retried", "-n0", "--cwsandbox-retries=8", faults=[fault])
    assert retried.result.ret == 0
    assert told_retries(retried) == before
    assert sum(sample["retries"] for sample in retried.samples) == before


def kept(run: Run) -> dict[str, float]:
    """The rewards that were not lost."""
    return {name: reward for name, reward in run.rewards.items() if reward is not None}


def test_stopping_at_the_first_lost_item_is_inconclusive_under_xdist_too(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]
) -> None:
    pytester.makepyfile(
        """
        import pytest
        from pytest_cwsandbox.errors import InfrastructureError

        @pytest.mark.parametrize("number", range(40))
        def test_is_lost(number, record_reward):
            raise InfrastructureError("the service is away")
        """
    )
    result = run("-x")
    assert result.ret == INCONCLUSIVE
    result.stdout.fnmatch_lines(["gates: the run was cut short: not judged", "*stopping after*"])
