"""A process that holds the reward function under test, `python -m ...validation.child SPEC`.

It reads one JSON object per line, calls the function, and answers with one. The function may print
what it likes: the channel is a copy of the standard output that it never sees.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import math
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, SupportsFloat, cast

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards.adapters import as_trl

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from pytest_cwsandbox.rewards.adapters import RewardFunction

MESSAGE = 300


def load(spec: str) -> RewardFunction:
    """The function that ``package.module:name`` names, in TRL's shape.

    Raises ``ConfigurationError`` that says which part is wrong.
    """
    module_name, colon, name = spec.partition(":")
    if not colon or not module_name or not name:
        raise ConfigurationError(f"{spec!r} must look like package.module:function")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ConfigurationError(
            f"{module_name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    found: object = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"{module_name} has no {name}")
        found = getattr(found, part)
    if not callable(found):
        raise ConfigurationError(f"{spec} is a {type(found).__name__}, not a function")
    return as_trl(found)


def answer(function: RewardFunction, request: dict[str, object]) -> dict[str, object]:
    """Call the function; what it returned, or how it failed."""
    started = time.monotonic()
    returned: object
    try:
        returned = function(**request)
        if inspect.isawaitable(returned):
            returned = asyncio.run(_await(returned))
    except Exception as error:  # noqa: BLE001 - whatever it raises is the finding
        message = f"{type(error).__name__}: {error}"[:MESSAGE]
        return {"failure": "raised", "detail": message, "seconds": time.monotonic() - started}
    seconds = time.monotonic() - started
    count = len(cast("list[object]", request["completions"]))
    wrong = _wrong(returned, count)
    if wrong:
        return {"failure": wrong[0], "detail": wrong[1], "seconds": seconds}
    rewards = [None if r is None else float(r) for r in cast("Sequence[SupportsFloat]", returned)]
    return {"rewards": rewards, "seconds": seconds}


async def _await(waiting: Awaitable[object]) -> object:
    return await waiting


def _wrong(returned: object, count: int) -> tuple[str, str] | None:
    """What is wrong with a return value: its type, length, or one of the rewards."""
    if isinstance(returned, str | bytes | dict) or not hasattr(returned, "__len__"):
        kind = type(returned).__name__
        return "wrong type", f"it returned a {kind}, not a list of {count} rewards"
    rewards = cast("Sequence[SupportsFloat]", returned)
    if len(rewards) != count:
        return "wrong length", f"it returned {len(rewards)} rewards for {count} completions"
    for position, reward in enumerate(rewards):
        if reward is None:
            continue
        try:
            number = float(reward)
        except (TypeError, ValueError):
            kind = type(reward).__name__
            return "wrong type", f"reward {position} is a {kind}, not a number or None"
        if isinstance(reward, str):
            return "wrong type", f"reward {position} is a str, not a number or None"
        if not math.isfinite(number):
            return "not finite", f"reward {position} is {number}"
    return None


def main() -> None:
    channel = os.fdopen(os.dup(1), "w", encoding="ascii")
    requests = os.fdopen(os.dup(0), encoding="ascii")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)

    def say(said: dict[str, object]) -> None:
        channel.write(json.dumps(said) + "\n")
        channel.flush()

    try:
        function = load(sys.argv[1])
    except ConfigurationError as error:
        say({"failure": "unusable", "detail": str(error)})
        return
    say({"ready": True})
    home = Path.cwd()
    for number, line in enumerate(requests):
        folder = home / str(number)  # what one call plants must not reach the next
        folder.mkdir()
        os.chdir(folder)
        say(answer(function, json.loads(line)))


if __name__ == "__main__":
    main()
