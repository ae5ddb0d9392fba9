"""`preflight`: will GRPO learn from these problems."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import click

from pytest_cwsandbox.cli.shared import users_mistakes, warn
from pytest_cwsandbox.reports.columns import printable
from pytest_cwsandbox.runs.location import locate


def _range(_: click.Context, option: click.Parameter, value: str | None) -> list[float] | None:
    if value is None:
        return None
    try:
        low, high = map(float, value.split(":"))
    except ValueError:
        low, high = 1.0, 0.0
    unit = option.name == "keep"
    if not (0 <= low <= high <= 1 if unit else -math.inf < low < high < math.inf):
        wanted = "LOW:HIGH with 0 <= LOW <= HIGH <= 1" if unit else "LOW:HIGH with LOW < HIGH"
        raise click.BadParameter(f'must be {wanted}, such as 0.2:0.8, got "{value}"')
    return [low, high]


SHARE = click.FloatRange(0, 1)


@click.command()
@click.argument("samples")
@click.option("--group-size", type=click.IntRange(min=2), default=8, show_default=True)
@click.option("--keep", metavar="LOW:HIGH", callback=_range, help="Train on these pass rates only.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write the kept problems.")
@click.option("--problems", metavar="SOURCE", help="Write their full rows, from this source.")
@click.option("--group", default="", help="Take one group of a run's samples.")
@click.option("--batch", type=click.IntRange(min=1), default=32, show_default=True, help="Groups.")
@click.option("--bounds", metavar="LOW:HIGH", default="0:1", show_default=True, callback=_range)
@click.option("--min-samples", type=click.IntRange(min=1), help="Default: the group size.")
@click.option("--max-zero-variance", type=SHARE, default=0.5, show_default=True)
@click.option("--max-infrastructure", type=SHARE, default=0.05, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as one JSON object.")
def preflight(  # noqa: PLR0913 - one parameter per option
    samples: str,
    group_size: int,
    keep: list[float] | None,
    output: Path | None,
    problems: str | None,
    group: str,
    batch: int,
    bounds: list[float],
    min_samples: int | None,
    max_zero_variance: float,
    max_infrastructure: float,
    as_json: bool,  # noqa: FBT001 - click passes it by name
) -> None:
    """Say whether GRPO will learn from the problems in SAMPLES, before a GPU is booked.

    SAMPLES is a file with rows {"task_id", "reward"} (null: lost to infrastructure), or a run: its
    folder, its id under .cwsandbox/runs, "latest", or its samples.jsonl. A run that crashed is read
    from its journal. Exit code 0 when READY, 1 when NOT READY, 2 for unreadable input.
    """
    from pytest_cwsandbox.validation.keep_list import problem_rows, write_keep_list
    from pytest_cwsandbox.validation.preflight import Plan, preflight
    from pytest_cwsandbox.validation.samples import read_samples
    from pytest_cwsandbox.validation.zero_variance import PassRange

    plan = Plan(
        group_size=group_size,
        keep=PassRange(*keep) if keep else None,
        batch=batch,
        bounds=(bounds[0], bounds[1]),
        min_samples=min_samples,
        max_zero_variance=max_zero_variance,
        max_infrastructure=max_infrastructure,
    )
    with users_mistakes():
        file = read_samples(locate(samples), group, warn=warn)
        if (output or problems) and len(file.groups) > 1:
            raise click.UsageError(
                "-o and --problems are for one group: choose it with --group, of "
                + ", ".join(map(printable, file.groups))
            )
        rows = problem_rows(file, problems) if problems else {}
        found = preflight(file, plan)
        if output is not None:
            write_keep_list(output, found.kept, rows)
    if as_json:
        click.echo(json.dumps(found.to_json()))
    else:
        from rich.console import Console

        from pytest_cwsandbox.reports.preflight import show

        show(found, Console(highlight=False))
    sys.exit(0 if found.ready else 1)
