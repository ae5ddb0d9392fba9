"""How an episode is run and judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.limits import EpisodeLimits

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from cwsandbox import Sandbox

    from pytest_cwsandbox.outcome import Outcome
    from pytest_cwsandbox.rollouts.tasks import Task
    from pytest_cwsandbox.rollouts.tools import Tool

    TaskGrader = Callable[[Task, Sandbox], Awaitable[Outcome | float]]


@dataclass(frozen=True, slots=True)
class RolloutOptions:
    """What may differ from episode to episode.

    ``visible`` is how many asserts of a problem's ``test_list`` the model sees, None for all;
    ``held_out`` counts its held-out asserts too. ``tools`` replaces the usual ones;
    ``tool_seconds`` is how long a command of those may run. ``task_grader`` judges a task's
    sandbox in place of its ``test_command``. ``price`` is in US dollars per million tokens, of
    prompt and of answer. A rollout that makes more tool calls than ``alert_tool_calls`` is warned
    of in the log and in the active W&B run, once, while it runs; ``on_runaway`` gets the text too.
    """

    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    visible: int | None = None
    held_out: bool = True
    tools: tuple[Tool, ...] = ()
    tool_seconds: float = 30.0
    system_prompt: str = ""
    task_grader: TaskGrader | None = None
    price: tuple[float, float] | None = None
    alert_tool_calls: int | None = None
    on_runaway: Callable[[str], None] | None = None
