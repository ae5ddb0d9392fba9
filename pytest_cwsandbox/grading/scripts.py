"""The sources of what runs inside a sandbox, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def source(*names: str) -> str:
    """The modules' sources, one after the other."""
    folder = files("pytest_cwsandbox.grading")
    return "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in names)
