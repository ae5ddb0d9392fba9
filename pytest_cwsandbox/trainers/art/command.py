"""``python -m pytest_cwsandbox.trainers.art``: train an agent on problems with ART."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from pytest_cwsandbox import backend as sandboxes
from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.cli.shared import users_mistakes
from pytest_cwsandbox.errors import InfrastructureError
from pytest_cwsandbox.problems import load, materialize
from pytest_cwsandbox.problems.mbpp import CONFIGS
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.model import ModelOptions
from pytest_cwsandbox.rollouts.models import Models
from pytest_cwsandbox.runs.gate import INCONCLUSIVE
from pytest_cwsandbox.trainers.art.checks import check_training, prepare_environment
from pytest_cwsandbox.trainers.flags import not_empty, positive

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from art import TrainableModel
    from art.local import LocalBackend

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.policy import Policy
    from pytest_cwsandbox.trainers.art.loop import AfterEach

TAG = "art-training"


@dataclass(frozen=True, slots=True)
class Settings:
    """The flags; ``model`` is None when the trained model speaks itself."""

    backend: str
    model: str | None
    base_model: str
    problems: str
    num_problems: int
    num_steps: int
    trajectories_per_problem: int
    base_url: str
    logprobs: bool
    ruler: str
    project: str
    run_name: str
    learning_rate: float
    dry_run: bool

    def header(self) -> str:
        rows = {
            "Backend": "none (dry run)" if self.dry_run else self.backend,
            "Model": self.model or f"{self.run_name} (on-policy)",
            "Base model": self.base_model,
            "Problems": self.num_problems,
            "Steps": self.num_steps,
            "Trajectories per problem": self.trajectories_per_problem,
            "Project": self.project,
            "Run name": self.run_name,
        }
        return "\n".join(
            ["ART Training with CWSandbox", "=" * 40, *(f"{k}: {v}" for k, v in rows.items())]
        )


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option(
    "--backend",
    type=click.Choice(["local", "tinker"]),
    default="local",
    help="Where ART trains: local needs a GPU, tinker a key.",
)
@click.option(
    "--model",
    default="gpt-5.1-codex-mini",
    callback=not_empty,
    help="Answers in place of the trained model: distillation.",
)
@click.option(
    "--on-policy", is_flag=True, help="The trained model answers itself; leave --model out."
)
@click.option(
    "--base-model", default="Qwen/Qwen3-8B", callback=not_empty, help="The model to train."
)
@click.option(
    "--problems",
    default="mbpp",
    help="mbpp (its split train), mbpp-sanitized, bundled, or a file of problems.",
)
@click.option("--num-problems", type=click.IntRange(1), default=10, help="How many of them.")
@click.option("--num-steps", type=click.IntRange(1), default=5, help="Train up to this step.")
@click.option(
    "--trajectories-per-problem",
    type=click.IntRange(2),
    default=2,
    help="Episodes of a problem in a step; GRPO compares them.",
)
@click.option("--base-url", default="", help="OpenAI-compatible endpoint of --model.")
@click.option(
    "--logprobs",
    is_flag=True,
    help="Ask --model for logprobs; only for one with the tokenizer of --base-model.",
)
@click.option("--ruler", default="", metavar="JUDGE", help="Reward with ART's RULER instead.")
@click.option("--project", default="cwsandbox-mbpp", help="W&B project.")
@click.option("--run-name", default="train-001", help="Name of the run and of the trained model.")
@click.option("--learning-rate", type=float, default=1e-5, callback=positive, help="Learning rate.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Gather the groups of one step on the local runner and train nothing. Needs no key: the "
    "scripted model and bundled problems play unless named.",
)
@click.pass_context
def main(context: click.Context, /, *, on_policy: bool, **flags: object) -> None:
    """Train --base-model with ART on problems that are graded in sandboxes.

    FORGE_API_KEY is used for W&B where WANDB_API_KEY is not set, ART_TINKER_API_KEY for Tinker.
    A run that is started again goes on at the model's step.
    """

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is not ParameterSource.DEFAULT

    if on_policy and (given("model") or given("base_url")):
        raise click.UsageError(
            "--on-policy asks the trained model: leave --model and --base-url out"
        )
    if flags["dry_run"] and on_policy:
        raise click.UsageError("--dry-run serves no model to train: leave --on-policy out")
    if flags["dry_run"]:
        flags["model"] = flags["model"] if given("model") else scripted.SCRIPTED
        flags["problems"] = flags["problems"] if given("problems") else "bundled"
    if on_policy:
        flags["model"] = None
    settings = Settings(**flags)  # type: ignore[arg-type]  # click has checked them
    with users_mistakes():
        prepare_environment()
        service = BackendOptions("local") if settings.dry_run else BackendOptions()
        if not settings.dry_run:
            check_training(settings.backend, model=settings.model, base_url=settings.base_url)
        sandboxes.check(service)
        click.echo(settings.header() + "\n")
        problems = _problems(settings)
        try:
            asyncio.run(_train(settings, problems, service))
        except InfrastructureError as error:
            click.echo(f"inconclusive: {error}", err=True)
            context.exit(INCONCLUSIVE)


def _problems(settings: Settings) -> list[Problem]:
    named = "MBPP" if settings.problems in CONFIGS else settings.problems
    click.echo(f"Loading {named} problems...")
    materialize(settings.problems)
    split = "train" if settings.problems in CONFIGS else ""
    problems = load(settings.problems, split=split, limit=settings.num_problems)
    click.echo(f"Loaded {len(problems)} problems")
    return problems


async def _train(settings: Settings, problems: list[Problem], service: BackendOptions) -> None:
    from pytest_cwsandbox.trainers.art.episodes import open_environment
    from pytest_cwsandbox.trainers.art.loop import Collector, train

    model = _model(settings)
    async with contextlib.AsyncExitStack() as stack:
        backend = None
        if not settings.dry_run:
            backend = await stack.enter_async_context(_registered(settings, model))
        environment, session = await stack.enter_async_context(
            open_environment(backend=service, extra_tags=(TAG, settings.project, settings.run_name))
        )
        collector = Collector(
            problems,
            settings.trajectories_per_problem,
            environment,
            session,
            policy=await stack.enter_async_context(_policy(settings)),
            after_each=_ruler(settings.ruler),
            echo=click.echo,
        )
        if backend is None:
            click.echo("\n=== Step 1 ===")
            await collector.collect(model, 1)
            click.echo("Dry run complete: nothing was trained")
            return
        click.echo("Starting training...")
        run = model._get_wandb_run() if "WANDB_API_KEY" in os.environ else None  # noqa: SLF001 - ART shows it nowhere else
        reached = await train(
            model,
            backend,
            collector,
            steps=settings.num_steps,
            learning_rate=settings.learning_rate,
            run=run,
        )
        click.echo(f"\nTrained up to step {reached}")


def _model(settings: Settings) -> TrainableModel:
    import art

    return art.TrainableModel(
        name=settings.run_name, project=settings.project, base_model=settings.base_model
    )


@contextlib.asynccontextmanager
async def _registered(settings: Settings, model: TrainableModel) -> AsyncIterator[LocalBackend]:
    click.echo(f"Creating {settings.backend} backend...")
    if settings.backend == "tinker":
        from art.tinker import TinkerBackend as Backend
    else:
        from art.local import LocalBackend as Backend
    async with Backend() as backend:
        click.echo("Creating trainable model...")
        click.echo("Registering model with backend...")
        await model.register(backend)
        yield backend


@contextlib.asynccontextmanager
async def _policy(settings: Settings) -> AsyncIterator[Policy | None]:
    """The model that answers in place of the trained one; None on-policy."""
    if settings.model is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="cwsandbox-art-") as folder:
        models = Models(Path(folder), lifeline=os.getpid())
        options = ModelOptions(
            settings.model,
            base_url=settings.base_url,
            api="chat" if settings.logprobs else "",
            extra_body={"logprobs": True} if settings.logprobs else {},
        )
        try:
            yield await models.policy(options)
        finally:
            await models.aclose()
            await asyncio.to_thread(scripted.stop, Path(folder))


def _ruler(judge: str) -> AfterEach | None:
    """A group that the judge cannot score is dropped, as infrastructure that fails."""
    if not judge:
        return None
    from art.rewards import ruler_score_group

    return partial(ruler_score_group, judge_model=judge, swallow_exceptions=True)
