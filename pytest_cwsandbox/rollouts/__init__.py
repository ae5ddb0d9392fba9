"""Agent rollouts: episodes of a model with tools in a sandbox, judged, as trajectories.

Importing this room loads neither the SDK nor openai; the names below are loaded when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_cwsandbox.rollouts.agent import run_agent_episode
    from pytest_cwsandbox.rollouts.group import run_group
    from pytest_cwsandbox.rollouts.limits import EpisodeLimits
    from pytest_cwsandbox.rollouts.model import ModelOptions
    from pytest_cwsandbox.rollouts.options import RolloutOptions
    from pytest_cwsandbox.rollouts.policy import Generation, Policy
    from pytest_cwsandbox.rollouts.tasks import Task, load_tasks
    from pytest_cwsandbox.rollouts.tools import Submission, Tool, ToolError
    from pytest_cwsandbox.rollouts.trajectory import StopReason, Trajectory

__all__ = [
    "EpisodeLimits",
    "Generation",
    "ModelOptions",
    "Policy",
    "RolloutOptions",
    "StopReason",
    "Submission",
    "Task",
    "Tool",
    "ToolError",
    "Trajectory",
    "load_tasks",
    "run_agent_episode",
    "run_group",
]

_HOMES = {
    "EpisodeLimits": "limits",
    "Generation": "policy",
    "ModelOptions": "model",
    "Policy": "policy",
    "RolloutOptions": "options",
    "StopReason": "trajectory",
    "Submission": "tools",
    "Task": "tasks",
    "Tool": "tools",
    "ToolError": "tools",
    "Trajectory": "trajectory",
    "load_tasks": "tasks",
    "run_agent_episode": "agent",
    "run_group": "group",
}


def __getattr__(name: str) -> object:
    """Load a public name's module (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
