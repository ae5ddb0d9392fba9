"""JSON that every program can hold: real numbers, and nesting that ends."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

DEEPEST = 100  # levels; a program that walks them all by recursion gets through
DEEPEST_ARGUMENTS = 50  # servers take them apart and wrap them in levels of their own
DIGITS = 300  # of a whole number; a float holds as many, and Python reads 4,300


def read_answer(text: str) -> object:
    """Read with null in place of NaN, Infinity and numbers too large to hold.

    Raises ``ValueError`` for what is no JSON or nested too deeply.
    """
    return _read(text, lambda _: None, DEEPEST)


def read_arguments(text: str) -> object:
    """Read what strict servers read too; raises ``ValueError`` for anything else."""
    return _read(text, _refuse, DEEPEST_ARGUMENTS)


def _read(text: str, odd: Callable[[str], object], deepest: int) -> object:
    def real(digits: str) -> object:
        return value if math.isfinite(value := float(digits)) else odd(digits)

    def whole(digits: str) -> object:
        return int(digits) if len(digits) <= DIGITS else odd(digits)

    try:
        value = json.loads(text, parse_constant=odd, parse_float=real, parse_int=whole)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if _is_deeper(value, deepest):
        raise ValueError(f"it is nested deeper than {deepest} levels")
    return value


def _refuse(digits: str) -> NoReturn:
    raise ValueError(f"{digits[:20]} is no number that JSON can hold")


def _is_deeper(value: object, levels: int) -> bool:
    level = [value]
    for _ in range(levels + 1):
        level = [
            part
            for outer in level
            for part in (outer.values() if isinstance(outer, dict) else _items(outer))
            if isinstance(part, dict | list)
        ]
        if not level:
            return False
    return True


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else []
