"""What a worker or a judge reports: a row of items, read strictly."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_cwsandbox.grading.values import MalformedValueError, header
from pytest_cwsandbox.outcome import Verdict

BEGUN = "="  # what the worker says before the program begins
VERDICTS = {
    "S": Verdict.SYNTAX_ERROR,
    "E": Verdict.MISSING_ENTRY_POINT,
    "R": Verdict.RUNTIME_ERROR,
    "X": Verdict.EARLY_EXIT,
    "M": Verdict.MEMORY_LIMIT,
    "T": Verdict.TIMEOUT,
    "O": Verdict.OUTPUT_LIMIT,
}


@dataclass(frozen=True, slots=True)
class Item:
    """``tag`` "V" with an encoded value, "P" or "W" from the judge, or one of ``VERDICTS``."""

    tag: str
    text: str


def read_items(output: bytes, *, at_most: int) -> list[Item]:
    """The items; raises ``MalformedValueError``, also for more than ``at_most`` of them."""
    try:
        data = bytes.fromhex(output.decode("ascii").removeprefix(BEGUN))
        text = data.decode("utf-8", "surrogatepass")
    except ValueError:
        raise MalformedValueError("not text") from None
    items: list[Item] = []
    position = 0
    while position < len(text):
        if len(items) == at_most:
            raise MalformedValueError("too many items")
        tag, length, position = header(text, position)
        body = text[position : position + length]
        if len(body) != length or tag not in {"V", "P", "W", *VERDICTS}:
            raise MalformedValueError("not an item")
        items.append(Item(tag, body))
        position += length
    return items
