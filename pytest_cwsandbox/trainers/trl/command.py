"""The command: check what is asked for, say it, train."""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pytest_cwsandbox.cli.shared import OneLine, backend_options, users_mistakes
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards import CodeReward
from pytest_cwsandbox.rewards.log import LOGGER
from pytest_cwsandbox.tags import sandbox_tags
from pytest_cwsandbox.trainers.flags import not_empty, positive
from pytest_cwsandbox.trainers.trl.problems import columns, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_cwsandbox.trainers.trl.problems import Row

WRONG = "raise SystemExit('this answer is wrong on purpose')"
LINE = 60


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--model",
    default="Qwen/Qwen2.5-0.5B-Instruct",
    callback=not_empty,
    show_default=True,
    help="Name on the Hub, or a local folder.",
)
@click.option("--max-steps", type=click.IntRange(min=1), default=10, show_default=True)
@click.option(
    "--problems",
    default="toy",
    show_default=True,
    help="toy (five programs, judged by what they print), bundled, mbpp, or a .jsonl file.",
)
@click.option("--split", default="", help="Use this split only (mbpp by name: train).")
@click.option("--limit", type=click.IntRange(min=1), help="Use the first N problems.")
@click.option(
    "--num-generations",
    type=click.IntRange(min=2),
    default=2,
    show_default=True,
    help="Completions per prompt, whose rewards GRPO compares.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    help="Completions per step and device, a multiple of the generations.  [default: as many]",
)
@click.option(
    "--max-completion-length",
    type=click.IntRange(min=1),
    default=256,
    show_default=True,
    help="In tokens.",
)
@click.option("--learning-rate", type=float, default=1e-6, callback=positive, show_default=True)
@click.option(
    "--output-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Save the trained model here.",
)
@click.option("--report-to", default="none", show_default=True, help="Such as wandb.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Grade a right and a wrong completion, and train nothing: needs no model.",
)
@backend_options
def main(
    *,
    model: str,
    problems: str,
    dry_run: bool,
    backend: str,
    auth: str | None,
    base_url: str,
    image: str,
    **settings: Any,  # noqa: ANN401 - click has checked their types
) -> None:
    """Train a model with TRL's GRPO: its code is rewarded if it passes in a sandbox."""
    from pytest_cwsandbox.backend import BackendOptions

    job = os.environ.get("TRAINING_RUN_ID") or secrets.token_hex(4)
    rank = os.environ.get("RANK", "0")  # as torch's launchers number the processes of a run
    with users_mistakes(), _quiet(silent=rank != "0"):
        if not dry_run:
            _check_installed()
        _check_batch(settings)
        click.echo(f"TRL GRPO Integration (job: {job})\n{'=' * LINE}")
        dataset = rows(problems, split=settings.pop("split"), limit=settings.pop("limit"))
        reward = CodeReward(
            backend=BackendOptions(backend, auth or "", base_url, image),
            tags=sandbox_tags(
                run=job, worker=f"rank-{rank}", model=model, extra=("trl-grpo", f"job:{job}")
            ),
        )
        _show_log("[CWSandbox]" if rank == "0" else f"[CWSandbox rank {rank}]")
        if dry_run:
            _try_out(reward, dataset)
            click.echo(
                f"Would train: {model}, {settings['max_steps']} steps of "
                f"{settings['batch']} completions, {len(dataset)} problems ({problems})"
            )
            return
        from pytest_cwsandbox.trainers.trl.training import train

        train(model, dataset, reward, settings)
        click.echo(f"{'-' * LINE}\nTraining completed successfully!")


def _check_installed() -> None:
    if find_spec("trl") is None or find_spec("torch") is None:
        raise ConfigurationError(
            'training needs trl and torch: pip install "pytest-cwsandbox[trl]", or use --dry-run'
        )


def _check_batch(settings: dict[str, object]) -> None:
    batch, generations = settings["batch"], settings["num_generations"]
    settings["batch"] = batch or generations
    if isinstance(batch, int) and isinstance(generations, int) and batch % generations:
        raise ConfigurationError(
            f"--batch {batch} is no multiple of --num-generations {generations}"
        )


@contextlib.contextmanager
def _quiet(*, silent: bool) -> Iterator[None]:
    """One process of several speaks for all; warnings and reward calls are everyone's."""
    with (
        Path(os.devnull).open("w") if silent else contextlib.nullcontext(sys.stdout) as out,
        contextlib.redirect_stdout(out),
    ):
        yield


def _show_log(prefix: str) -> None:
    """A line per reward call, as it happens."""
    handler = logging.StreamHandler(sys.__stdout__)
    handler.setFormatter(logging.Formatter(f"{prefix} %(message)s"))
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.INFO)


def _try_out(reward: CodeReward, dataset: list[Row]) -> None:
    """Grade a right and a wrong answer to the first problem that comes with a right one."""
    row = next((row for row in dataset if row["reference_solution"]), None)
    if row is None:
        raise OneLine("no problem has a reference_solution, so there is nothing to try out")
    answers = [f"<answer>\n{code}\n</answer>" for code in (row["reference_solution"], WRONG)]
    said: dict[str, list[str]] = {}
    rewards = reward(
        [row["prompt"]] * 2,
        [[{"role": "assistant", "content": answer}] for answer in answers],
        log_extra=said.__setitem__,
        **columns([row, row]),
    )
    right, wrong = rewards
    click.echo(f"Problem {row['task_id']}: right answer {right}, wrong answer {wrong}")
    if None in {right, wrong}:
        reason = said["code_reward/detail"][rewards.index(None)]
        click.echo(
            f"The sandboxes failed, nothing can be said about the reward: {reason}", err=True
        )
        sys.exit(75)
    if (right, wrong) != (1.0, 0.0):
        raise OneLine("the reward does not tell a right answer from a wrong one")
