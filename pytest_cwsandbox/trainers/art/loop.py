"""The training loop: gather groups, train on them, log, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.monitoring import log_step, step_metrics, training_step
from pytest_cwsandbox.sessions import attach
from pytest_cwsandbox.trainers.art.episodes import TrainableModel, collect_trajectory_group
from pytest_cwsandbox.trainers.art.tokens import any_logprobs, for_tokenisation

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    import art
    from cwsandbox import Session

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.environment import Environment
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.policy import Policy, PolicyFunction
    from pytest_cwsandbox.rollouts.trajectory import Trajectory

    AfterEach = Callable[[art.TrajectoryGroup], Awaitable[art.TrajectoryGroup | None]]


class Model(TrainableModel, Protocol):
    """What the loop needs of ``art.TrainableModel``."""

    async def get_step(self) -> int: ...

    async def log(
        self,
        trajectories: Sequence[art.TrajectoryGroup],
        split: str,
        *,
        metrics: dict[str, float],
        step: int,
    ) -> None: ...


class TrainResult(Protocol):
    """What the loop needs of ``art.TrainResult``."""

    step: int
    metrics: dict[str, float]


class Backend(Protocol):
    """What the loop needs of ART's backends."""

    async def train(
        self,
        model: Model,
        trajectory_groups: Sequence[art.TrajectoryGroup],
        /,
        *,
        learning_rate: float,
    ) -> TrainResult: ...


class ArtRun(Protocol):
    """What the loop needs of the W&B run that ART opens."""

    def log(self, data: dict[str, float]) -> None: ...

    def alert(self, title: str, text: str, level: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Collector:
    """How a step's groups come about.

    ``policy`` is None for the model that is trained. ``after_each`` may replace a group or drop it,
    as RULER does. ``session`` counts what agents execute.
    """

    problems: Sequence[Problem]
    samples: int
    environment: Environment
    session: Session
    policy: Policy | PolicyFunction | None = None
    options: RolloutOptions | None = None
    after_each: AfterEach | None = None
    echo: Callable[[str], object] = print

    async def collect(
        self, model: TrainableModel, step: int
    ) -> tuple[list[art.TrajectoryGroup], list[Trajectory]]:
        """Gather the groups of a step, those without a trajectory left out, and all episodes.

        Raises ``InfrastructureError`` when there is nothing left to train on.
        """
        import art

        episodes: list[Trajectory] = []
        self.echo(f"Collecting trajectories for {len(self.problems)} problems...")
        with training_step(step):
            groups = await art.gather_trajectory_groups(
                (
                    collect_trajectory_group(
                        model,
                        problem,
                        self.samples,
                        environment=self.environment,
                        policy=self.policy,
                        options=self.options,
                        observer=episodes.append,
                    )
                    for problem in self.problems
                ),
                pbar_desc=f"step {step}",
                max_metrics=1,  # the reward
                after_each=self.after_each,
                # Infrastructure failures are in the groups by now; anything else ends the run.
                max_exceptions=0,
            )
        groups = [group for group in groups if group.trajectories]
        rewards = [trajectory.reward for group in groups for trajectory in group]
        lost = [episode for episode in episodes if episode.reward is None]
        if not rewards:
            reason = f": {lost[-1].detail}" if lost else ""
            raise InfrastructureError(f"step {step} gave no trajectory to train on{reason}")
        self.echo(
            f"Collected {len(rewards)} trajectories, avg reward: {sum(rewards) / len(rewards):.2f}"
            + (f", {len(lost)} lost to infrastructure" if lost else "")
        )
        return groups, episodes


async def train(
    model: Model,
    backend: Backend,
    collector: Collector,
    *,
    steps: int,
    learning_rate: float,
    run: ArtRun | None = None,
) -> int:
    """Train up to step ``steps``, from the model's own step on; returns the step it has reached.

    Metrics are logged at their step: with ART's, and those of sandboxes to ``run``, its W&B run.
    """
    wandb_run = AtTrainingStep(run) if run is not None else None
    if wandb_run is not None:
        attach(collector.session, wandb_run)  # executions per sandbox are counted from here on
    reached = await model.get_step()
    if reached:
        collector.echo(f"Resuming at step {reached} of {steps}")
    for step in range(reached + 1, steps + 1):
        collector.echo(f"\n=== Step {step} ===")
        groups, episodes = await collector.collect(model, step)
        if not any_logprobs(groups):
            collector.echo(
                "warning: no answer came with logprobs, and ART's GRPO learns from nothing else: "
                "take --on-policy, or a --model that shares the tokenizer of --base-model with "
                "--logprobs"
            )
        if wandb_run is not None:
            log_step(collector.session, episodes, step=step, run=wandb_run)
        collector.echo("Training...")
        result = await backend.train(
            model, [for_tokenisation(group) for group in groups], learning_rate=learning_rate
        )
        metrics = {**step_metrics(episodes), **result.metrics}
        await model.log(groups, "train", metrics=metrics, step=result.step)
        collector.echo(f"Training complete: step={result.step}, metrics={dict(result.metrics)}")
        reached = step
    return reached


class AtTrainingStep:
    """ART's W&B run: it counts W&B's own steps by itself and plots over ``training_step``."""

    def __init__(self, run: ArtRun) -> None:
        self._run = run

    def log(self, data: Mapping[str, float], *, step: int | None = None) -> None:
        self._run.log(dict(data) if step is None else {**data, "training_step": step})

    def alert(self, title: str, text: str, level: str) -> None:
        self._run.alert(title, text, level)
