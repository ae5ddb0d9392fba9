"""`python -m pytest_cwsandbox` is the `pytest-cwsandbox` command."""

from pytest_cwsandbox.cli import main

main(prog_name="pytest-cwsandbox")
