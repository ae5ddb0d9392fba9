"""The tools that come along."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.tools import Tool

COMMAND_SECONDS = 30.0
NAMES = ("execute_code", "bash", "read_file", "write_file", "submit_solution")


def sandbox_tools(*, timeout_seconds: float = COMMAND_SECONDS) -> dict[str, Tool]:
    """All tools by name, each command with this time."""
    raise NotImplementedError
