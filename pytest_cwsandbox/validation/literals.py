"""Plain values as source text; also part of the script that runs in sandboxes (``driver.py``)."""

from __future__ import annotations

DEPTH = 40  # ``ast.literal_eval`` gives up at about 100


def source(value: object, depth: int = 0) -> str:  # noqa: PLR0911 - one per kind
    """Source that ``ast.literal_eval`` reads as an equal value; of equal sets the same.

    Raises ``ValueError`` for anything that is not made of plain values, and for NaN, which equals
    nothing.
    """
    if depth > DEPTH:
        raise ValueError("nested too deeply")
    if value is None or value is True or value is False:
        return str(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        return _number(float.__repr__(value))
    if isinstance(value, complex):
        return _number(complex.__repr__(value))
    if isinstance(value, str):
        return str.__repr__(value)
    if isinstance(value, bytes):
        return bytes.__repr__(value)
    if isinstance(value, dict):
        pairs = [(source(k, depth + 1), source(v, depth + 1)) for k, v in dict.items(value)]
        return "{" + ", ".join(f"{key}: {item}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple | set):
        return _collection(value, [source(item, depth + 1) for item in value])
    raise ValueError(f"{type(value).__name__} is no plain value")


def _number(text: str) -> str:
    if "nan" in text:
        raise ValueError("NaN equals nothing")
    return text.replace("inf", "1e999")


def _collection(value: object, items: list[str]) -> str:
    if isinstance(value, set):
        return "{" + ", ".join(sorted(items)) + "}" if items else "set()"
    if isinstance(value, tuple):
        return "(" + ", ".join(items) + ("," if len(items) == 1 else "") + ")"
    return "[" + ", ".join(items) + "]"
