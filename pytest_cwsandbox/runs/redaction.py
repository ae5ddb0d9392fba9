"""No secret reaches a file of a run.

Secrets are the values of environment variables named like one, what ``hide`` was told of, and what
shows by its form what it is. docs/provenance.md states what is hidden, and where.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from bisect import bisect_right
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from pytest_cwsandbox.runs.secret_forms import HIDDEN, without_forms
from pytest_cwsandbox.runs.secret_names import is_secret, is_secret_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SHORTEST = 8  # a value such as "1" or "local" is no secret, and stands everywhere
SHORTEST_PART = 4  # that is hidden beside an ellipsis
LONGEST_PART = 1000  # pytest keeps a few hundred letters
SHORTEST_LINE = 16  # of a value with several, such as a private key: a traceback indents each
LONGEST_FIELD = 24

_NUMBER = re.compile(r"[\d.+-]+", re.ASCII)
_DIGITS = re.compile(r"\d+", re.ASCII)
_ELLIPSIS = re.compile(r"\.{3,}")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"')
# The names of our fields look like this. JSON needs them.
_FIELD = re.compile(rf"[a-z_]{{1,{LONGEST_FIELD}}}")
_FIELD_ENDS = re.compile(rf'[a-z_]{{0,{LONGEST_FIELD}}}":')
_NAMED = re.compile(r"(?:^|[=,;\s])-*([A-Za-z_][\w.-]*)[=:](?!:)", re.ASCII)


def hide(value: object) -> None:
    """From now on hide, in this process, every text below a secret's name in a JSON value."""
    _TOLD.update(_named_secrets(value))


def hide_named(texts: Iterable[str]) -> None:
    """From now on hide, in this process, what stands after a secret's name: ``api_key=...``."""
    _TOLD.update(text[at:] for text in texts if (at := _named_value(text)))


def redact(text: str) -> str:
    """A text that we write, be it JSON or not, without any secret. It stays JSON if it was.

    Its numbers stay, and what may be the name of a field of ours.
    """
    return _redact(text, json_text=True)


def redact_text(text: str) -> str:
    """A text that is not read as JSON again, without any secret anywhere in it."""
    return _redact(text, json_text=False)


def _redact(text: str, *, json_text: bool) -> str:
    # The variables as they are stored: to decode them all for every line would cost more than the
    # rest, and a test may set one at any time.
    variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    known = _KNOWN.update(variables)
    spans = [
        span
        for form in known.forms
        if form in text
        for span in _spans(text, form, json_text=json_text)
    ]
    if known.numbers:
        spans += _numbers(text, known.numbers, json_text=json_text)
    if known.heads and "..." in text:
        spans += _fragments(text, known)
    return without_forms(_without(text, spans) if spans else text)


def sample_id(node: str) -> str:
    """The id of the sample of a pytest node: the node's own, or where that has a secret another.

    Two nodes that differ in the secret alone are two samples still.
    """
    shown = redact(node)
    return node if shown == node else f"{shown}#{hashlib.sha256(node.encode()).hexdigest()[:8]}"


def redacted(value: object) -> object:
    """The same JSON value, with no secret in its texts and names, and none below its name."""
    return _redacted(value, ())


def _redacted(value: object, above: tuple[str, ...]) -> object:
    """``above`` are the names of secrets that the value is below."""
    if isinstance(value, dict):
        return {
            name if _FIELD.fullmatch(name) else redact(name): _redacted(each, _below(name, above))
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(each, above) for each in value]
    if not isinstance(value, str):
        return value
    return HIDDEN if any(is_secret(name, value) for name in above) else redact(value)


def _below(name: str, above: tuple[str, ...]) -> tuple[str, ...]:
    return (*above, name) if is_secret_name(name) else above


def redact_command(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, without the values of those that are named like secrets."""
    shown = []
    before = ""  # the option that this may be the value of
    for argument in arguments:
        is_option = argument.startswith("-")
        if not is_option and is_secret(before, argument):
            shown.append(HIDDEN)
        else:
            shown.append(redact_value(argument))
        before = argument if is_option and "=" not in argument else ""
    return shown


def redact_value(text: str) -> str:
    """An argument or a tag, which may be JSON, or have a secret after its name: ``api_key=...``."""
    name, equals, value = text.partition("=")
    if equals and name.startswith("-") and not is_secret_name(name):
        return f"{name}={redact_value(value)}"
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.dumps(redacted(json.loads(text)))
        except (ValueError, RecursionError):
            return redact(text)  # no JSON, but a text like any other
    if at := _named_value(text):
        return redact(text[:at]) + HIDDEN
    return redact(text)


def _named_value(text: str) -> int:
    """Where a secret begins that stands after its name; 0 without one."""
    at = 0
    while found := _NAMED.search(text, at):
        if is_secret_name(found[1]) and is_secret(found[1], text[found.end() :]):
            return found.end()
        at = found.end(1)
    return 0


def _named_secrets(value: object, above: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            yield from _named_secrets(each, _below(name, above))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named_secrets(each, above)
    elif isinstance(value, str) and any(is_secret(name, value) for name in above):
        yield value


def _without(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """The text without these; where some overlap, without all that they cover."""
    kept = []
    done = 0
    until = -1
    for start, end in sorted(spans):
        if start > until:
            kept += [text[done:start], HIDDEN]
        until = done = max(until, end)
    return "".join([*kept, text[done:]])


def _fragments(text: str, known: _Known) -> Iterator[tuple[int, int]]:
    """Where pytest left out the middle of a long value, and kept a part of a secret beside it.

    The four letters on either side tell which parts of which secrets may end or begin there: an
    ellipsis costs the same, however many secrets there are.
    """
    for dots in _ELLIPSIS.finditer(text):
        start, end = dots.span()
        for form, length in known.heads.get(text[max(0, start - SHORTEST_PART) : start], ()):
            begin = start - length
            if begin >= 0 and text.startswith(form[:length], begin) and not _escapes(text, begin):
                yield start - length, start
        for form, begin in known.tails.get(text[end : end + SHORTEST_PART], ()):
            if text.startswith(form[begin:], end):
                yield end, end + len(form) - begin


def _spans(text: str, form: str, *, json_text: bool) -> Iterator[tuple[int, int]]:
    """Where it stands, but for names of fields, which JSON needs, and the ends of its escapes."""
    may_be_a_field = json_text and _FIELD.fullmatch(form) is not None
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        is_field = may_be_a_field and _is_in_a_field(text, start, end)
        if not is_field and not _escapes(text, start):
            yield start, end
        start = text.find(form, start + 1)


def _escapes(text: str, at: int) -> bool:
    """Whether the letter there is the end of an escape, such as the n of a newline in JSON."""
    before = at
    while text[before - 1 : before] == "\\":
        before -= 1
    return (at - before) % 2 == 1


def _is_in_a_field(text: str, start: int, end: int) -> bool:
    quote_before = text.rfind('"', max(0, start - LONGEST_FIELD - 1), start)
    ends = _FIELD_ENDS.match(text, end)
    if quote_before < 0 or ends is None:
        return False
    return _FIELD.fullmatch(text, quote_before + 1, ends.end() - 2) is not None


def _numbers(text: str, numbers: Sequence[str], *, json_text: bool) -> Iterator[tuple[int, int]]:
    """Where a secret of digits stands as a number of its own, in JSON only within its texts."""
    found = [
        match.span()
        for form in numbers
        if form in text
        # Half of a longer number is none, but what follows an escape such as é is.
        for match in re.finditer(rf"(?:(?<!\d)|(?<=\\u[0-9a-f]{{4}})){form}(?!\d)", text)
    ]
    if not found or not json_text or not _is_json(text):
        yield from found
        return
    strings = [match.span() for match in _STRING.finditer(text)]
    for start, end in found:
        before = bisect_right(strings, (start, end)) - 1
        if before >= 0 and end < strings[before][1]:
            yield start, end


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _Known:
    """The secrets of the environment and of ``hide``, in every form in which a text may have them.

    Worked out anew when one of the two has changed.
    """

    def __init__(self, told: set[str]) -> None:
        self._told = told
        self._seen: tuple[set[tuple[bytes, bytes]], set[str]] = (set(), set())
        self.forms: tuple[str, ...] = ()
        self.numbers: tuple[str, ...] = ()
        # By its four letters at an ellipsis: a form, and how much of it is before or behind.
        self.heads: dict[str, list[tuple[str, int]]] = {}
        self.tails: dict[str, list[tuple[str, int]]] = {}

    def update(self, variables: Mapping[bytes, bytes]) -> _Known:
        # Others change all the time: pytest sets PYTEST_CURRENT_TEST for each phase of an item.
        named = {each for each in variables.items() if _names_a_secret(each[0])}
        if self._seen != (named, self._told):
            self._seen = (named, set(self._told))
            pairs = [(os.fsdecode(name), os.fsdecode(value)) for name, value in named]
            secrets = self._told | {value for name, value in pairs if is_secret(name, value)}
            forms = {form for value in secrets for form in _forms_of(value)}
            self.numbers = tuple(filter(_DIGITS.fullmatch, forms))
            self.forms = tuple(forms.difference(self.numbers))
            self._index(forms)
        return self

    def _index(self, forms: Iterable[str]) -> None:
        self.heads, self.tails = {}, {}
        for form in forms:
            last = len(form) - SHORTEST_PART
            for begin in range(min(last, LONGEST_PART) + 1):
                end = begin + SHORTEST_PART
                self.heads.setdefault(form[begin:end], []).append((form, end))
            for begin in range(max(0, last - LONGEST_PART), last + 1):
                end = begin + SHORTEST_PART
                self.tails.setdefault(form[begin:end], []).append((form, begin))


@lru_cache(maxsize=1024)
def _names_a_secret(variable: bytes) -> bool:
    return is_secret_name(os.fsdecode(variable))


def _forms_of(value: str) -> Iterator[str]:
    """As it is, as ``repr`` shows it, in JSON, in JSON within JSON, in HTML and in a URL."""
    lines = value.splitlines() if "\n" in value else []
    for part in (value, *(line for line in lines if len(line.strip()) >= SHORTEST_LINE)):
        # Neither half an escape nor a quote, which may be JSON's own, must be taken.
        plain = part.strip("\\\"' \t\r\n")
        if len(plain) < SHORTEST or (_NUMBER.fullmatch(plain) and not _DIGITS.fullmatch(plain)):
            continue
        shown = {plain, repr(plain)[1:-1], escape(plain), quote(plain, safe="")}
        shown |= {json.dumps(each, ensure_ascii=False)[1:-1] for each in shown}
        for _ in range(3):  # a tool call's arguments, in a trajectory, in a detail of it
            shown |= {json.dumps(each)[1:-1] for each in shown}
        yield from shown


_TOLD: set[str] = set()
_KNOWN = _Known(_TOLD)
