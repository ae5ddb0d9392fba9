"""The environment as TRL drives it, without TRL: reset, tools, reward."""

from __future__ import annotations

import gc
import inspect
import time
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import connected
from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.rewards import session
from pytest_cwsandbox.trainers.trl import CodeEnvironment

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL = BackendOptions("local")
ROW = {"prompt": "p", "test_list": ["assert double(2) == 4"]}
RIGHT = "def double(n): return 2 * n"
TAGS = ("environment-test",)


@pytest.fixture(autouse=True)
def _ended_session() -> Iterator[None]:
    yield
    session.close()


@pytest.fixture
def environment() -> CodeEnvironment:
    return CodeEnvironment(backend=LOCAL, tags=TAGS)


def running() -> list[str]:
    """Agents' sandboxes that the service has now."""
    agents = session.shared_sessions(LOCAL, TAGS).agents
    return [str(box.sandbox_id) for box in agents.list().result() if box.status == "running"]


def settled(count: int) -> int:
    """How many there are, ``count`` as soon as may be: removal goes on in the background."""
    deadline = time.monotonic() + 30
    while len(running()) != count and time.monotonic() < deadline:
        time.sleep(0.05)
    return len(running())


def test_trl_sees_two_tools_beside_reset_and_the_reward() -> None:
    members = inspect.getmembers(CodeEnvironment, predicate=inspect.isfunction)
    public = {name for name, _ in members if not name.startswith("_")}
    assert public == {"reset", "get_reward", "execute_code", "submit_solution"}


def test_an_episode_keeps_its_files_and_ends_with_its_grade(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    assert environment.execute_code("open('a', 'w').write('kept')") == "exit=0\n"
    assert environment.execute_code("print(open('a').read())") == "exit=0\nkept\n"
    assert environment.execute_code("1 / 0").startswith("exit=1\n")
    assert environment.submit_solution(RIGHT) == "Submitted."
    assert environment.get_reward() == 1.0


def test_the_first_submission_counts_and_ends_the_task(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    environment.submit_solution("def double(n): return 5")
    assert environment.submit_solution(RIGHT).startswith("Error: ")
    assert environment.execute_code("print(1)").startswith("Error: ")
    assert environment.get_reward() == 0.0


def test_an_episode_without_a_submission_earns_nothing(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    environment.execute_code(RIGHT)
    assert environment.get_reward() == 0.0


def test_every_episode_starts_afresh(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    environment.execute_code("open('a', 'w')")
    environment.submit_solution(RIGHT)
    environment.reset(**{**ROW, "test_list": ["assert double(2) == 5"]})
    assert "FileNotFoundError" in environment.execute_code("open('a')")
    assert environment.get_reward() == 0.0


def test_a_printing_problem_is_graded_by_its_output(environment: CodeEnvironment) -> None:
    environment.reset(prompt="p", expected_output="42")
    environment.submit_solution("```python\nprint(6 * 7)\n```")
    assert environment.get_reward() == 1.0


def test_a_row_that_cannot_be_graded_is_refused_at_once(environment: CodeEnvironment) -> None:
    with pytest.raises(ConfigurationError, match="no tests"):
        environment.reset(prompt="p", test_list=[])


def test_a_tool_without_an_episode_says_so(environment: CodeEnvironment) -> None:
    with pytest.raises(ConfigurationError, match=r"call reset\(\) first"):
        environment.execute_code("1")


def test_wrong_arguments_are_told_to_the_model(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    assert environment.execute_code(3).startswith("Error: ")  # type: ignore[arg-type]  # models do
    assert environment.submit_solution(None).startswith("Error: ")  # type: ignore[arg-type]  # likewise


def test_the_sandbox_is_started_ahead_and_gone_after_the_episode(
    environment: CodeEnvironment,
) -> None:
    environment.reset(**ROW)
    assert settled(1) == 1, (running(), environment.execute_code("1"), environment._lost)
    environment.get_reward()
    assert settled(0) == 0


def test_the_sandbox_goes_with_the_next_reset(environment: CodeEnvironment) -> None:
    environment.reset(**ROW)
    environment.execute_code("1")
    environment.reset(**ROW)
    environment.execute_code("1")
    assert settled(1) == 1


def test_the_sandbox_goes_with_a_forgotten_environment(environment: CodeEnvironment) -> None:
    forgotten = CodeEnvironment(backend=LOCAL, tags=TAGS)
    forgotten.reset(**ROW)
    forgotten.execute_code("1")
    assert settled(1) == 1
    del forgotten
    gc.collect()
    assert settled(0) == 0


def test_more_episodes_than_any_limit_go_on_side_by_side() -> None:
    environments = [CodeEnvironment(backend=LOCAL, tags=TAGS) for _ in range(40)]
    for environment in environments:
        environment.reset(**ROW)
    assert {env.execute_code("print(1)") for env in environments} == {"exit=0\n1\n"}
    for environment in environments:
        environment.submit_solution(RIGHT)
    assert {env.get_reward() for env in environments} == {1.0}


def test_a_service_without_room_keeps_no_episodes_waiting_for_each_other() -> None:
    with connected(LOCAL, faults=["create-exhausted@0.4"]):
        environments = [CodeEnvironment() for _ in range(8)]
        for environment in environments:
            environment.reset(**ROW)
        assert {env.execute_code("print(1)") for env in environments} == {"exit=0\n1\n"}


def test_a_lost_sandbox_earns_none_whatever_is_submitted_later() -> None:
    with connected(LOCAL, faults=["exec-unavailable"]):
        environment = CodeEnvironment(retries=0)
        environment.reset(**ROW)
        assert environment.execute_code("print(1)") == "Error: the sandbox is lost"
        assert environment.submit_solution(RIGHT) == "Error: the sandbox is lost"
        assert environment.get_reward() is None
        strict = CodeEnvironment(retries=0, on_infrastructure="raise")
        strict.reset(**ROW)
        strict.execute_code("print(1)")
        with pytest.raises(InfrastructureError):
            strict.get_reward()
        session.close()
