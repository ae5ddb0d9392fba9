"""The training itself: needs trl and torch."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pytest_cwsandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.rewards import CodeReward
    from pytest_cwsandbox.trainers.trl.problems import Row


def train(
    model: str, rows: Sequence[Row], reward: CodeReward, settings: Mapping[str, object]
) -> None:
    """Train ``model`` for some steps; save it if there is an output folder."""
    click.echo(f"Loading model: {model}")
    import torch
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    click.echo(f"Creating dataset...\n  Dataset size: {len(rows)} problems")
    dataset = Dataset.from_list([dict(row) for row in rows])
    click.echo("Setting up GRPOTrainer...")
    output = settings["output_dir"]
    gpu = torch.cuda.is_available()
    with tempfile.TemporaryDirectory() as scratch:
        settled = GRPOConfig(
            output_dir=str(output or Path(scratch, "trl-grpo")),
            max_steps=settings["max_steps"],
            per_device_train_batch_size=settings["batch"],
            num_generations=settings["num_generations"],
            max_completion_length=settings["max_completion_length"],
            learning_rate=settings["learning_rate"],
            logging_steps=1,
            save_strategy="no",
            report_to=settings["report_to"],
            use_cpu=not gpu,
            bf16=gpu and torch.cuda.is_bf16_supported(),
        )
        try:
            trainer = GRPOTrainer(
                model=model, reward_funcs=[reward], args=settled, train_dataset=dataset
            )
        except OSError as error:  # what transformers raises for a name that leads to no model
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ConfigurationError(f"--model {model} cannot be loaded: {reason}") from error
        click.echo(f"Starting training ({settings['max_steps']} steps)...\n{'-' * 60}")
        trainer.train()
        if output:
            trainer.save_model()
