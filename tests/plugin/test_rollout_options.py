"""Options of models and rollouts, on the command line and in the ini file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .rollouts import AGENT, SUBMITS, samples, served, trajectories

if TYPE_CHECKING:
    from collections.abc import Mapping

SETTINGS = {
    "model": "toy",
    "temperature": "0.5",
    "top-p": "0.9",
    "max-tokens": "500",
    "seed": "7",
    "extra-body": '{"top_k": 20, "seed": 1}',
    "model-price": "1000000:2000000",
    "visible-asserts": "1",
    "limit": "1",
}

# A policy that goes on for ever, and says what its answers cost.
ENDLESS = """
import asyncio
import pytest
from pytest_cwsandbox.rollouts.policy import Generation

async def endless(messages, tools):
    await asyncio.sleep(0.2)
    function = {"name": "no_such_tool", "arguments": "{}"}
    call = {"id": str(len(messages)), "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return Generation(message, tokens_in=10, tokens_out=1)

@pytest.mark.problems("bundled")
async def test_endless(problem, rollout):
    assert (await rollout(problem, policy=endless)).reward == 0.0
"""


def run_with(
    pytester: pytest.Pytester, settings: Mapping[str, str], place: str
) -> pytest.RunResult:
    """Run pytest in one process with settings that are given in one of two places."""
    if place == "command line":
        options = [f"--cwsandbox-{name}={value}" for name, value in settings.items()]
        return pytester.runpytest_subprocess("-n0", *options)
    lines = [f"cwsandbox_{name.replace('-', '_')} = {value}" for name, value in settings.items()]
    pytester.makeini("\n".join(["[pytest]", *lines]))
    return pytester.runpytest_subprocess("-n0")


@pytest.mark.parametrize("place", ["command line", "ini file"])
def test_settings_reach_the_endpoint_and_the_trajectory(
    pytester: pytest.Pytester, place: str
) -> None:
    pytester.makepyfile(test_agent=AGENT)
    with served(SUBMITS) as endpoint:
        settings = SETTINGS | {"model-base-url": endpoint.base_url}
        run_with(pytester, settings, place).assert_outcomes(passed=3)
    assert set(endpoint.paths) == {"/v1/chat/completions"}
    for body in endpoint.bodies:
        assert body.items() >= {
            ("model", "toy"), ("temperature", 0.5), ("top_p", 0.9), ("max_tokens", 500),
            ("top_k", 20), ("seed", 1),  # the extra body wins
        }  # fmt: skip
        assert body["messages"][1]["content"].count("assert count_above") == 1
    for trajectory in trajectories(pytester.path):
        assert trajectory["metrics"]["cost"] == 7 * 1 + 3 * 2  # tokens in and out


@pytest.mark.parametrize("place", ["command line", "ini file"])
def test_the_api_can_be_chosen(pytester: pytest.Pytester, place: str) -> None:
    pytester.makepyfile(test_agent=AGENT)
    settings = {"model": "scripted", "model-api": "responses", "limit": "1"}
    run_with(pytester, settings, place).assert_outcomes(passed=3)
    # The Responses API numbers its items; what is kept is in the format of Chat Completions.
    for trajectory in trajectories(pytester.path):
        assert [m["role"] for m in trajectory["messages"][:3]] == ["system", "user", "assistant"]


def test_the_responses_api_is_asked_at_its_own_path(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_agent=AGENT)
    with served(SUBMITS) as endpoint:
        settings = {
            "model": "toy", "model-base-url": endpoint.base_url, "model-api": "responses",
            "model-retries": "0", "limit": "1",
        }  # fmt: skip
        run_with(pytester, settings, "command line")
    assert set(endpoint.paths) == {"/v1/responses"}


@pytest.mark.parametrize(
    ("name", "value", "stop_reason", "place"),
    [
        ("max-tool-calls", "2", "max_tool_calls", "ini file"),
        ("max-turns", "2", "max_turns", "command line"),
        ("max-total-tokens", "30", "max_total_tokens", "ini file"),
        ("rollout-timeout", "0.1", "wall_timeout", "command line"),
    ],
)
def test_each_limit_ends_a_rollout_with_its_own_reason(
    pytester: pytest.Pytester, name: str, value: str, stop_reason: str, place: str
) -> None:
    pytester.makepyfile(ENDLESS)
    run_with(pytester, {name: value, "limit": "1"}, place).assert_outcomes(passed=1)
    [row] = samples(pytester.path)
    assert (row["reward"], row["verdict"]) == (0.0, stop_reason)
    assert row["metadata"]["stop_reason"] == stop_reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            "--cwsandbox-model-base-url=http://127.0.0.1:9/v1",
            "scripted plays on this*: name*with --cwsandbox-model",
        ),
        (
            "--cwsandbox-model-base-url=http://127.0.0.1:9 --cwsandbox-model=scripted-slow",
            "scripted-slow plays on this*: name*with --cwsandbox-model",
        ),
        ("--cwsandbox-model=", "--cwsandbox-model must be a non-empty text"),
        ("--cwsandbox-model-api=grpc", "--cwsandbox-model-api must be one of responses, chat"),
        ("--cwsandbox-temperature=-1", "--cwsandbox-temperature must be a number of at least 0"),
        ("--cwsandbox-top-p=0", "--cwsandbox-top-p must be a number above 0 and at most 1"),
        ("--cwsandbox-max-tokens=0", "--cwsandbox-max-tokens must be a whole number of at least 1"),
        ("--cwsandbox-seed=x", "--cwsandbox-seed must be a whole number"),
        ("--cwsandbox-extra-body={", "--cwsandbox-extra-body must be a JSON object"),
        ("--cwsandbox-extra-body=[1]", "--cwsandbox-extra-body must be a JSON object"),
        ("--cwsandbox-model-price=1", "--cwsandbox-model-price must be two numbers"),
        ("--cwsandbox-model-price=1:-1", "--cwsandbox-model-price must be two numbers"),
        ("--cwsandbox-model-timeout=0", "--cwsandbox-model-timeout must be a number above 0"),
        ("--cwsandbox-model-retries=-1", "--cwsandbox-model-retries must be a whole number"),
        ("--cwsandbox-max-tool-calls=0", "--cwsandbox-max-tool-calls must be a whole number"),
        ("--cwsandbox-max-turns=0", "--cwsandbox-max-turns must be a whole number"),
        ("--cwsandbox-max-total-tokens=0", "--cwsandbox-max-total-tokens must be a whole number"),
        ("--cwsandbox-rollout-timeout=0", "--cwsandbox-rollout-timeout must be a number above 0"),
        ("--cwsandbox-visible-asserts=-1", "--cwsandbox-visible-asserts must be a whole number"),
        ("--cwsandbox-tasks=nowhere.jsonl", "*nowhere.jsonl*"),
        ("--cwsandbox-tasks=toy", '*"toy"*'),
    ],
)
def test_a_bad_value_is_one_line_that_names_its_option(
    pytester: pytest.Pytester, options: str, message: str
) -> None:
    pytester.makepyfile("def test_plain(): pass")
    result = pytester.runpytest_subprocess("-n2", *options.split())
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*{message}*"])
    result.stderr.no_fnmatch_line("*Traceback*")
