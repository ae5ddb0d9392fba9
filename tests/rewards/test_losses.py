"""A reward that is lost to infrastructure is told of, and why."""

from __future__ import annotations

import logging
import re
import subprocess
import sys

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.rewards import session
from pytest_cwsandbox.rewards.log import LOGGER
from pytest_cwsandbox.trainers.trl import CodeEnvironment
from pytest_cwsandbox.trainers.trl.command import main

LOCAL = BackendOptions("local")
LOSS = """
import sys
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.rewards import CodeReward, exit_code_reward
reward = CodeReward(retries=0) if sys.argv[1] == "code_reward" else exit_code_reward
with connected(BackendOptions("local"), faults=["exec-unavailable"]):
    answer = "<answer>def double(n): return 2 * n</answer>"
    assert reward(["p"] * 2, [answer, "none"], test_list=[["assert double(2) == 4"]] * 2)[0] is None
    from pytest_cwsandbox.rewards import session
    session.close()
"""


@pytest.mark.parametrize("name", ["code_reward", "exit_code_reward"])
def test_a_loss_is_told_with_its_reason_where_nobody_has_set_up_logging(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOSS, name], capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stderr.splitlines() if line.startswith(name)]
    start = f"{name}: 1 of 2 rewards lost to infrastructure, the last because: "
    assert line.startswith(start)
    assert len(line) > len(start)
    assert not line.endswith("unknown")


def test_the_dry_run_of_trl_says_why_the_sandboxes_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    session.close()
    monkeypatch.setattr(LOGGER, "handlers", [])
    monkeypatch.setattr(LOGGER, "level", logging.NOTSET)
    with connected(LOCAL, faults=["exec-unavailable"]):
        done = CliRunner().invoke(main, ["--dry-run"])
        session.close()
    assert done.exit_code == 75
    assert "right answer None" in done.stdout
    assert re.search(r"nothing can be said about the reward: \w.{10}", done.stderr)


@pytest.mark.parametrize("tried", [True, False], ids=["while-working", "while-grading"])
def test_an_episode_without_a_reward_says_why(
    tried: bool,  # noqa: FBT001 - a parameter of the test
    caplog: pytest.LogCaptureFixture,
) -> None:
    session.close()
    with connected(LOCAL, faults=["exec-unavailable"]):
        environment = CodeEnvironment(retries=0)
        environment.reset(test_list=["assert double(2) == 4"])
        if tried:
            environment.execute_code("print(1)")
        environment.submit_solution("def double(n): return 2 * n")
        assert environment.get_reward() is None
        session.close()
    (line,) = [
        r.message for r in caplog.records if r.levelno == logging.WARNING and r.name == LOGGER.name
    ]
    assert line.startswith("CodeEnvironment: 1 of 1 rewards lost to infrastructure, the last beca")
