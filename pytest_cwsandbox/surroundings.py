"""The environment variables of the backends in use: the SDK reads them at every call."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from pytest_cwsandbox import runner

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_VARIABLES = (
    "CWSANDBOX_BASE_URL",
    "CWSANDBOX_API_KEY",
    "CWSANDBOX_DISABLE_SIGNAL_HANDLERS",
    runner.LOCAL_MARKER,
    *runner.NO_PROXY,
)
_before: list[dict[str, str | None]] = []  # each backend in use, the latest last
_environment = threading.Lock()


def surround(variables: Mapping[str, str]) -> Callable[[], None]:
    """Set environment variables, until the function is called that this returns.

    Backends need not be left in the order in which they were reached: one that is not the latest
    leaves what was before it to the next one, to bring back.
    """
    with _environment:
        before = {name: os.environ.get(name) for name in _VARIABLES}
        _before.append(before)
        os.environ.update(variables)
        if kept := before["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"]:
            os.environ["CWSANDBOX_DISABLE_SIGNAL_HANDLERS"] = kept

    def restore() -> None:
        with _environment:
            place = next((at for at, each in enumerate(_before) if each is before), None)
            if place is None:
                return
            del _before[place]
            if place < len(_before):
                _before[place].update(before)
                return
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    return restore
