"""From a raw completion to code, in time linear in its length: the text may be hostile."""

from __future__ import annotations

import re
import textwrap

TAG = re.compile(r"(</?answer(?: [^<>\n]{0,100})?>)", re.IGNORECASE)
THOUGHT_END = re.compile(r"</think(?:ing)?>", re.IGNORECASE)


def normalise(text: str) -> str:
    """Without a byte order mark, and with newlines as Python's own parser reads them."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def extract_code(completion: str, entry_point: str) -> str | None:
    """The code that a completion answers with, or None.

    Among several blocks the last that defines the entry point counts, or else the last; one in an
    ``<answer>`` counts before one outside, and a text without blocks only if it defines the entry
    point. A tag or fence may be left open: the token limit cut it. A draft inside ``<think>`` is no
    answer.

    What defines it is seen by its words at the start of a statement. The text is not parsed: a
    parser can be made to take very long.
    """
    text = _answering(completion)
    blocks = _blocks(text)
    if not blocks:
        return text if _defines(text, entry_point) else None
    # max() keeps the first of equals, and the last block is the one that counts.
    return max(reversed(blocks), key=lambda block: _defines(block, entry_point))


def is_closed(completion: str) -> bool:
    """Whether the code that a completion answers with stands in a tag or fence that is closed."""
    code = extract_code(completion, "")
    return code is not None and code in _blocks(_answering(completion), closed=True)


def _answering(completion: str) -> str:
    """What follows the thoughts."""
    return THOUGHT_END.split(normalise(completion))[-1]


def _blocks(text: str, *, closed: bool = False) -> list[str]:
    """Fenced blocks, then those in ``<answer>``; with ``closed`` none that is left open."""
    answers = [
        block for answer in _answers(text, closed=closed) for block in _fenced(answer) or [answer]
    ]
    blocks = _fenced(text, closed=closed) + answers
    return [textwrap.dedent(block) for block in blocks if block.strip()]


def _answers(text: str, *, closed: bool) -> list[str]:
    """What follows each ``<answer>``, up to the next tag."""
    _, *parts = [*TAG.split(text), ""]
    return [
        inside
        for tag, inside, following in zip(parts[:-1:2], parts[1::2], parts[2::2], strict=True)
        if tag[1] != "/" and (following[1:2] == "/" or not closed)
    ]


def _fenced(text: str, *, closed: bool = False) -> list[str]:
    """Fenced blocks. A fence may open after prose and close after code on its line.

    As in Markdown, a deeper fence does not close a block: it stands in a docstring.
    """
    blocks: list[str] = []
    fence, depth = "", 0
    lines: list[str] = []
    for line in text.split("\n"):
        if not fence:
            fence, depth = _opening(line), _indent(line)
            continue
        code = line.rstrip()
        rest = code.rstrip(fence[0])
        deeper = not rest.strip() and _indent(line) > depth + 3
        if len(code) - len(rest) < len(fence) or deeper:
            lines.append(line)
            continue
        blocks.append("".join(f"{kept}\n" for kept in [*lines, *rest.splitlines()]))
        fence, lines = "", []
    return [*blocks, "\n".join(lines)] if fence and not closed else blocks


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _opening(line: str) -> str:
    """The fence that the line opens, such as three backticks, or an empty text."""
    start = line.find("```")
    if start < 0:
        start = _indent(line)
    mark = line[start : start + 1]
    info = line[start:].lstrip(mark)
    length = len(line) - start - len(info)
    return mark * length if mark in ("`", "~") and length >= 3 and "`" not in info else ""


def _defines(code: str, name: str) -> int:
    """2 if the code defines the name at its top level, 1 if somewhere deeper, 0 if not at all."""
    word = re.escape(name) if name else r"\w+"
    assignment = rf"{word}[ \t]*(?::[^=;\n]*)?=(?!=)"
    binding = "|".join(
        (
            rf"(?:(?:async[ \t]+)?def|class)[ \t]+{word}\b",
            assignment,
            rf"from[ \t][^\n]{{1,200}}?\bimport\b[^\n]{{1,200}}?\b{word}\b",
            rf"import[ \t][^\n]{{1,200}}?\bas[ \t]+{word}\b",
        )
    )
    if re.search(rf"^(?:{binding})|;[ \t]*{assignment}", code, re.MULTILINE):
        return 2
    return 1 if re.search(rf"^[ \t]+(?:{binding})", code, re.MULTILINE) else 0
