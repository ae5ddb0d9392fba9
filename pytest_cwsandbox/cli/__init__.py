"""The `pytest-cwsandbox` command. Exit codes: 0 good, 1 bad, 75 inconclusive, 2 usage."""

from __future__ import annotations

import click

from pytest_cwsandbox.cli.comparing import baseline, compare
from pytest_cwsandbox.cli.export import export_
from pytest_cwsandbox.cli.grading import doctor, grade
from pytest_cwsandbox.cli.preflight import preflight
from pytest_cwsandbox.cli.reporting import report
from pytest_cwsandbox.cli.rescoring import rescore
from pytest_cwsandbox.cli.sandboxes import cleanup, ps
from pytest_cwsandbox.cli.serving import serve


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="pytest-cwsandbox")
def main() -> None:
    """Evaluate code agents and their reward functions in CoreWeave sandboxes."""


for command in (
    doctor,
    serve,
    grade,
    preflight,
    report,
    baseline,
    compare,
    rescore,
    export_,
    ps,
    cleanup,
):
    main.add_command(command)
