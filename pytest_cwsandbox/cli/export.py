"""`export`: trajectories as training data."""

from __future__ import annotations

from pathlib import Path

import click

from pytest_cwsandbox.cli.shared import say, users_mistakes, warn
from pytest_cwsandbox.export import FORMATS, export_run


@click.command(name="export")
@click.argument("run")
@click.option(
    "--to",
    type=click.Choice(list(FORMATS)),
    required=True,
    help="The format, see above.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    metavar="PATH",
    help="The file to write; replaced when it is there.",
)
@click.option(
    "--min-reward",
    type=float,
    help="What counts as passed, for openai and trl-preference.  [default: 1]",
)
def export_(run: str, to: str, output: Path, min_reward: float | None) -> None:
    """Write the trajectories of RUN as training data or as a table.

    RUN is a run's folder, its id under .cwsandbox/runs, "latest", or a trajectories file.

    \b
    trl             TRL: prompt, completion, reward, tools    .parquet .jsonl
    trl-preference  TRL: prompt, chosen, rejected, tools:     .parquet .jsonl
                    passed and failed samples of a problem
    art             OpenPipe ART: a group per problem                  .jsonl
    openai          chat fine-tuning: the passed samples               .jsonl
    parquet         a flat table of all samples               .parquet

    Samples that the infrastructure lost never become a reward: art lists them as exceptions, the
    other training formats leave them out.
    """  # noqa: D301 - click wants the character, not the backslash
    with users_mistakes():
        report = export_run(
            run,
            to,
            output,
            warn=warn,
            min_reward=min_reward,
        )
    say(str(report))
