"""From a raw completion to code."""

from __future__ import annotations

import re
import textwrap

FENCE = re.compile(
    r"(?P<fence>`{3,}|^[ \t]*~{3,})[^\n`]*\n(?P<code>.*?)(?:(?P=fence)[`~]*[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)
ANSWER = re.compile(
    r"<answer>(?P<code>.*?)(?:</answer>|(?=<answer>)|\Z)", re.DOTALL | re.IGNORECASE
)
THOUGHT = re.compile(r".*</think(?:ing)?>", re.DOTALL | re.IGNORECASE)


def normalise(text: str) -> str:
    """Without a byte order mark, and with newlines as Python's own parser reads them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def extract_code(completion: str, entry_point: str) -> str | None:
    """The code that a completion answers with, or None.

    Among several blocks the last that defines the entry point counts, or else the last; one in an
    ``<answer>`` counts before one outside, and a text without blocks only if it defines the entry
    point. A tag or fence may be left open: the token limit cut it. A draft inside ``<think>`` is no
    answer.
    """
    text = THOUGHT.sub("", normalise(completion), count=1)
    answers = [b for answer in _blocks(ANSWER, text) for b in _blocks(FENCE, answer) or [answer]]
    blocks = [textwrap.dedent(b) for b in _blocks(FENCE, text) + answers if b.strip()]
    if not blocks:
        return text if _defines(text, entry_point) else None
    # max() keeps the first of equals, and the last block is the one that counts.
    return max(reversed(blocks), key=lambda block: _defines(block, entry_point))


def _blocks(kind: re.Pattern[str], text: str) -> list[str]:
    return [match["code"] for match in kind.finditer(text)]


def _defines(code: str, name: str) -> int:
    """2 if the code defines the name at its top level, 1 if somewhere deeper, 0 if not at all."""
    word = re.escape(name) if name else r"\w+"
    binding = "|".join(
        (
            rf"(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b",
            rf"{word}[ \t]*(?::[^=\n]*)?=(?!=)",
            rf"from[ \t].*import\b.*\b{word}\b",
        )
    )
    if re.search(rf"^(?:{binding})", code, re.MULTILINE):
        return 2
    return 1 if re.search(rf"^[ \t]+(?:{binding})", code, re.MULTILINE) else 0
