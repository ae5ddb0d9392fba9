"""ART gathers real rollouts, and the loop trains on them, with a backend that counts."""

from __future__ import annotations

import asyncio
import math
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # art's import asks the network else
art = pytest.importorskip("art", reason="needs openpipe-art, which has an environment of its own")

from openai import AsyncOpenAI  # noqa: E402 - after the import that may skip
from openai.types.chat.chat_completion import Choice  # noqa: E402 - likewise

from pytest_cwsandbox.backend import BackendOptions  # noqa: E402 - likewise
from pytest_cwsandbox.errors import (  # noqa: E402 - likewise
    ConfigurationError,
    EndpointError,
    InfrastructureError,
    ModelError,
)
from pytest_cwsandbox.problems import load  # noqa: E402 - likewise
from pytest_cwsandbox.rollouts import (  # noqa: E402 - likewise
    ModelOptions,
    RolloutOptions,
    Task,
    scripted,
)
from pytest_cwsandbox.rollouts.models import Models  # noqa: E402 - likewise
from pytest_cwsandbox.trainers.art import (  # noqa: E402 - likewise
    collect_trajectory_group,
    open_environment,
    rollout,
    train,
)
from pytest_cwsandbox.trainers.art.loop import Collector  # noqa: E402 - likewise
from tests.trainers.art_models import Backend, Model  # noqa: E402 - likewise

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence
    from pathlib import Path

    from pytest_cwsandbox.rollouts.messages import (
        AssistantMessage,
        FunctionCall,
        Message,
        ToolCall,
        ToolDefinition,
    )
    from pytest_cwsandbox.rollouts.policy import Generation, Policy

LOCAL = BackendOptions("local")
FIRST, SECOND = load("bundled", limit=2)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[scripted.Endpoint]:
    folder = tmp_path_factory.mktemp("scripted")
    yield scripted.join_or_start(folder, lifeline=os.getpid())
    scripted.stop(folder)


@asynccontextmanager
async def policies(folder: Path) -> AsyncIterator[Models]:
    models = Models(folder, lifeline=os.getpid())
    try:
        yield models
    finally:
        await models.aclose()
        await asyncio.to_thread(scripted.stop, folder)


class Alternating:
    """Each policy in its turn, an episode each."""

    name = "alternating"

    def __init__(self, *policies: Policy) -> None:
        self._policies = policies
        self._begun: dict[asyncio.Task[Any] | None, Policy] = {}

    async def generate(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition]
    ) -> Generation | Any:
        task = asyncio.current_task()
        chosen = self._begun.setdefault(
            task, self._policies[len(self._begun) % len(self._policies)]
        )
        return await chosen.generate(messages, tools)


async def failing(_: object, __: object) -> str:
    raise ModelError("the endpoint is away")


def silent(_: object, __: object) -> str:
    return "done"


async def not_a_number(_: object, __: object) -> float:
    return math.nan


def trying(_: object, __: object) -> AssistantMessage:
    function: FunctionCall = {"name": "execute_code", "arguments": '{"code": "1"}'}
    call: ToolCall = {"id": "call_1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


async def test_art_gathers_groups_of_mixed_rewards_and_one_loss(tmp_path: Path) -> None:
    async with (
        open_environment(backend=LOCAL, extra_tags=("art-training",)) as (environment, _),
        policies(tmp_path) as models,
    ):
        right = await models.policy(ModelOptions("scripted"))
        wrong = await models.policy(ModelOptions("scripted-wrong"))

        def episode(problem: Any, policy: Any) -> Any:
            return rollout(Model(), problem, environment=environment, policy=policy)

        groups = await art.gather_trajectory_groups(
            [
                art.TrajectoryGroup([episode(FIRST, right), episode(FIRST, wrong)]),
                art.TrajectoryGroup([episode(SECOND, right), episode(SECOND, failing)]),
            ],
            max_exceptions=1,
        )
    first, second = groups
    assert sorted(trajectory.reward for trajectory in first) == [0.0, 1.0]
    assert [trajectory.reward for trajectory in second] == [1.0]
    [exception] = second.exceptions
    assert exception.type == "<class 'pytest_cwsandbox.errors.ModelError'>"
    assert exception.message == "the endpoint is away"


async def test_a_trajectory_is_finished_and_says_how_it_came_about(tmp_path: Path) -> None:
    async with (
        open_environment(backend=LOCAL, extra_tags=("art-training", "my project")) as (
            environment,
            session,
        ),
        policies(tmp_path) as models,
    ):
        policy = await models.policy(ModelOptions("scripted"))
        trajectory = await rollout(Model(), FIRST, environment=environment, policy=policy, sample=3)
        executions = session.get_metrics()["cwsandbox/executions"]
    choices = [said for said in trajectory.messages_and_choices if isinstance(said, Choice)]
    assert [choice.finish_reason for choice in choices] == ["tool_calls"] * len(choices)
    assert trajectory.messages()[0]["role"] == "system"
    assert {tool["function"]["name"] for tool in trajectory.tools} == {
        "execute_code",
        "submit_solution",
    }
    metrics = trajectory.metrics
    assert metrics["turns"] == len(choices)
    assert executions == metrics["tool_calls"] - 1  # the submission is graded elsewhere
    assert metrics["duration"] >= metrics["seconds"] > 0
    assert all(math.isfinite(float(value)) for value in metrics.values())
    assert trajectory.metadata["task_id"] == FIRST.task_id
    assert trajectory.metadata["sample"] == 3
    assert trajectory.metadata["verdict"] == "passed"
    assert '"art-training", "my-project-' in trajectory.metadata["tags"]


async def test_a_sandbox_that_cannot_start_is_an_exception_of_its_group() -> None:
    async with open_environment(backend=LOCAL, faults=["start-failed"]) as (environment, _):
        group = await collect_trajectory_group(
            Model(),
            FIRST,
            2,
            environment=environment,
            policy=trying,
        )
    assert len(group) == 0
    assert [exception.type for exception in group.exceptions] == [
        "<class 'pytest_cwsandbox.errors.InfrastructureError'>"
    ] * 2
    assert group.metadata == {"scenario_id": FIRST.id}


async def test_the_trained_model_speaks_with_logprobs_through_its_own_client(
    server: scripted.Endpoint,
) -> None:
    model = art.TrainableModel(name="scripted", project="tests", base_model="none")
    model.inference_base_url, model.inference_api_key = server.address, server.token
    async with open_environment(backend=LOCAL) as (environment, _):
        trajectory = await rollout(model, FIRST, environment=environment)
    assert trajectory.reward == 1.0
    choices: list[Any] = [
        said for said in trajectory.messages_and_choices if isinstance(said, Choice)
    ]
    for choice in choices:
        written = "".join(token.token for token in choice.logprobs.content)
        assert choice.message.tool_calls[0].function.arguments in written
    assert trajectory.metadata["model"] == "scripted"


async def test_an_endpoint_that_fails_is_asked_again_and_then_a_loss(
    server: scripted.Endpoint,
) -> None:
    from dataclasses import replace

    from pytest_cwsandbox.trainers.art.episodes import SAMPLING, on_policy

    client = AsyncOpenAI(base_url=server.address, api_key=server.token)
    patient = on_policy(Model(client, "scripted-rate-limited"), SAMPLING)
    hasty = on_policy(Model(client, "scripted-fails"), replace(SAMPLING, retries=0))
    async with open_environment(backend=LOCAL) as (environment, _):
        trajectory = await rollout(Model(), FIRST, environment=environment, policy=patient)
        assert trajectory.reward == 1.0
        with pytest.raises(ModelError):
            await rollout(Model(), FIRST, environment=environment, policy=hasty)


async def test_a_model_that_does_not_exist_ends_the_gathering(server: scripted.Endpoint) -> None:
    client = AsyncOpenAI(base_url=server.address, api_key=server.token)
    async with open_environment(backend=LOCAL) as (environment, session):
        collector = Collector([FIRST, SECOND], 2, environment, session)
        with pytest.raises(EndpointError, match="no-such-model"):
            await collector.collect(Model(client, "no-such-model"), 1)


async def test_the_loop_trains_then_logs_each_step_from_the_models_own_on(
    tmp_path: Path,
) -> None:
    said: list[str] = []
    model = Model(step=1)
    async with (
        open_environment(backend=LOCAL) as (environment, session),
        policies(tmp_path) as models,
    ):
        policy = Alternating(
            await models.policy(ModelOptions("scripted")),
            await models.policy(ModelOptions("scripted-wrong")),
        )
        collector = Collector(
            [FIRST, SECOND], 2, environment, session, policy=policy, echo=said.append
        )
        reached = await train(model, Backend(), collector, steps=3, learning_rate=1e-5)
    assert reached == 3
    assert [event[0] for event in model.events] == ["train", "log", "train", "log"]
    _, learning_rate, groups = model.events[0]
    assert learning_rate == 1e-5
    assert [sorted(trajectory.reward for trajectory in group) for group in groups] == [[0, 1]] * 2
    _, split, step, metrics, logged = model.events[1]
    assert (split, step, logged) == ("train", 2, groups)
    assert metrics["loss"] == 0.42
    assert metrics["rollout/pass_rate"] == 0.5
    assert metrics["rollout/infra_rate"] == 0.0
    assert said[:2] == ["Resuming at step 1 of 3", "\n=== Step 2 ==="]
    assert "Collected 4 trajectories, avg reward: 0.50" in said
    assert "Training complete: step=2, metrics={'loss': 0.42}" in said
    assert any(line.startswith("warning: no answer came with logprobs") for line in said)


async def test_metrics_of_sandboxes_reach_the_wandb_run_of_art_at_their_step(
    tmp_path: Path,
) -> None:
    class Run:
        def __init__(self) -> None:
            self.rows: list[dict[str, float]] = []

        def log(self, data: dict[str, float]) -> None:
            self.rows.append(data)

        def alert(self, title: str, text: str, level: str) -> None:
            raise AssertionError(title, text, level)

    run = Run()
    async with (
        open_environment(backend=LOCAL) as (environment, session),
        policies(tmp_path) as models,
    ):
        policy = await models.policy(ModelOptions("scripted"))
        collector = Collector([FIRST], 2, environment, session, policy=policy)
        await train(Model(), Backend(), collector, steps=1, learning_rate=1e-5, run=run)
    of_session = next(row for row in run.rows if "cwsandbox/executions" in row)
    of_rollouts = next(row for row in run.rows if "rollout/pass_rate" in row)
    assert of_session["training_step"] == of_rollouts["training_step"] == 1
    assert of_session["cwsandbox/avg_execs_per_sandbox"] == 1
    assert of_rollouts["rollout/pass_rate"] == 1.0


async def test_a_step_that_lost_everything_trains_nothing() -> None:
    model = Model()
    async with open_environment(backend=LOCAL) as (environment, session):
        collector = Collector([FIRST], 2, environment, session, policy=failing)
        with pytest.raises(InfrastructureError, match="the endpoint is away"):
            await train(model, Backend(), collector, steps=1, learning_rate=1e-5)
    assert model.events == []


async def test_a_grader_that_gives_no_number_ends_the_gathering() -> None:
    task = Task(task_id="1", prompt="Do nothing.", source="own")
    options = RolloutOptions(task_grader=not_a_number)
    async with open_environment(backend=LOCAL) as (environment, _):
        with pytest.raises(ConfigurationError, match=r"finite.*got nan|returned nan"):
            await collect_trajectory_group(
                Model(), task, 1, environment=environment, policy=silent, options=options
            )


async def test_arts_own_log_takes_the_groups(tmp_path: Path, server: scripted.Endpoint) -> None:
    import json

    from pyarrow import parquet

    model = art.TrainableModel(
        name="scripted", project="tests", base_model="none", base_path=str(tmp_path)
    )
    model.inference_base_url, model.inference_api_key = server.address, server.token
    async with open_environment(backend=LOCAL) as (environment, _):
        group = await collect_trajectory_group(model, FIRST, 2, environment=environment)
    await model.log([group], "train", metrics={"rollout/pass_rate": 1.0}, step=1)
    folder = tmp_path / "tests/models/scripted"
    rows = parquet.read_table(folder / "trajectories/train/0001.parquet").to_pylist()
    assert [row["reward"] for row in rows] == [1.0, 1.0]
    assert [message["trainable"] for message in rows[0]["messages"]].count(True) == 2
    [history] = map(json.loads, (folder / "history.jsonl").read_text().splitlines())
    assert history["train/reward"] == 1.0
    assert history["train/rollout/pass_rate"] == 1.0
    assert history["train/exception_rate"] == 0.0


async def test_weave_traces_a_rollout(tmp_path: Path) -> None:
    weave = pytest.importorskip("weave", reason="needs weave")
    async with (
        open_environment(backend=LOCAL) as (environment, _),
        policies(tmp_path) as models,
    ):
        policy = await models.policy(ModelOptions("scripted"))
        traced = weave.op(rollout)
        trajectory = await traced(Model(), FIRST, environment=environment, policy=policy)
    assert trajectory.reward == 1.0


async def test_a_group_without_episodes_is_refused() -> None:
    async with open_environment(backend=LOCAL) as (environment, _):
        for samples in (0, -1):
            with pytest.raises(ConfigurationError, match="samples must be at least 1"):
                await collect_trajectory_group(Model(), FIRST, samples, environment=environment)
