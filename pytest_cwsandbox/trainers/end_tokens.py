"""What tokenizers write after an answer: with it a fence does not close, and code not parse."""

from __future__ import annotations

import re

LONGEST = 80
TOKEN = re.compile(
    r"""(
    <[|\uff5c] [^<>|\uff5c\n]+ [|\uff5c]?> | <[^<>|\uff5c\s]+ [|\uff5c]>
    | </? (\w+:)? (s | [be]os | pad | unk | sep | cls | eo[tdpm] | im_end | endoftext
        | (start|end) [_\u2581] of [_\u2581] \w+) >
    | \[/?INST\] | \[e~\[
    | (?-i: \[ (?P<name> PAD | UNK | SEP | CLS | [BE]OS | EO[TD]) \])
    )\Z""",
    re.VERBOSE | re.IGNORECASE,
)
FENCES = ("```", "~~~")


def without_end_tokens(answer: str) -> str:
    """The answer without the special tokens at its end, in time linear in its length.

    Code is never cut. ``[PAD]`` and its like may be a subscript: where the rest says PAD too, and
    no fence has closed, they stay.
    """
    end = beyond_doubt = _before_space(answer, len(answer))
    names = set()
    while found := TOKEN.search(answer, max(0, end - LONGEST), end):
        end = _before_space(answer, found.start())
        if found["name"]:
            names.add(found["name"])
        else:  # no Python ends like this, nor does what follows it belong to any
            beyond_doubt, names = end, set()
    rest = answer[:end]
    if rest.endswith(FENCES) or not names & set(re.findall(r"[A-Z]+", rest)):
        return rest
    return answer[:beyond_doubt]


def _before_space(text: str, end: int) -> int:
    while end and text[end - 1].isspace():
        end -= 1
    return end
