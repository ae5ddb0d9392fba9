"""No secret reaches a file of a run.

Secrets are the values of environment variables named like one, what ``hide`` was told of, passwords
in URLs, bearer tokens, and keys that show by their form what they are.
"""

from __future__ import annotations

import json
import os
import re
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HIDDEN = "[redacted]"
SHORTEST = 8  # a value such as "1" or "local" is no secret, and stands everywhere
SHORTEST_PART = 4  # that is hidden beside an ellipsis
SHORTEST_LINE = 16  # of a value with several, such as a private key: a traceback indents each

# Whole words: neither max_tokens nor TOKENIZERS_PARALLELISM nor PWD is a secret.
_SECRET_NAME = re.compile(
    r"(api|access|private|secret|signing)[_-]?key|(?<![a-z])key$|secret|token(?![a-z])"
    r"|(auth|access|api)[_-]?tokens|passw(or)?d|passphrase|[_-]pwd$|credential|authorization"
    r"|bearer|cookie",
    re.IGNORECASE,
)
_ELLIPSIS = re.compile(r"\.{3,}")
_NUMBER = re.compile(r"[\d.+-]+")
_USER = r"://(?:[^\s/\\\"'<>@:]{0,200}:[^\s/\\\"'<>]{0,200}|[^\s/\\\"'<>@:]{20,200})@"
# Before each pattern what none of its matches is without: to look for a word is quick.
_FORMS = (
    ("earer", re.compile(r"([Bb]earer\s+)[\w.~+/=-]{8,}", re.ASCII), rf"\1{HIDDEN}"),
    ("EARER", re.compile(r"(BEARER\s+)[\w.~+/=-]{8,}", re.ASCII), rf"\1{HIDDEN}"),
    ("://", re.compile(_USER), f"://{HIDDEN}@"),
    # Not the end of "task-", but after the n of a newline in JSON.
    ("sk-", re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))sk-[\w-]{20,}", re.ASCII), HIDDEN),
    ("hf_", re.compile(r"hf_[A-Za-z0-9]{30,}"), HIDDEN),
    ("ghp_", re.compile(r"ghp_[A-Za-z0-9]{36,}"), HIDDEN),
    ("github_pat_", re.compile(r"github_pat_\w{22,}", re.ASCII), HIDDEN),
    ("AKIA", re.compile(r"AKIA[0-9A-Z]{16}"), HIDDEN),
)


def is_secret_name(name: str) -> bool:
    """Whether what has this name is a secret: ``OPENAI_API_KEY``, ``hf_token``, ..."""
    return _SECRET_NAME.search(name) is not None


def hide(value: object) -> None:
    """From now on hide, in this process, every text under a secret's name in a JSON value."""
    _TOLD.update(_named_secrets(value))


def redact(text: str) -> str:
    """The text, be it JSON or not, without any secret. It stays JSON if it was."""
    # The variables as they are stored: to decode them all for every line would cost more than the
    # rest, and a test may set one at any time.
    variables: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]  # noqa: SLF001 - see above
    forms = _KNOWN.forms(variables)
    spans = [span for form in forms if form in text for span in _spans(text, form)]
    if forms and "..." in text:
        spans += _fragments(text, forms)
    if spans:
        text = _without(text, spans)
    for mark, pattern, replacement in _FORMS:
        if mark in text:
            text = pattern.sub(replacement, text)
    return text


def redacted(value: object) -> object:
    """The same JSON value, with no secret in its texts and none under a secret's name."""
    if isinstance(value, dict):
        return {
            name: HIDDEN if isinstance(each, str) and is_secret_name(name) else redacted(each)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [redacted(each) for each in value]
    return redact(value) if isinstance(value, str) else value


def redact_command(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command, without the values of those that are named like secrets."""
    shown = []
    follows = False  # the value of the option before
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if follows and not argument.startswith("-"):
            shown.append(HIDDEN)
        elif equals and is_secret_name(name):
            shown.append(f"{name}={HIDDEN}")
        elif equals and name.startswith("-"):
            shown.append(f"{name}={_redact_value(value)}")
        else:
            shown.append(_redact_value(argument))
        follows = argument.startswith("-") and not equals and is_secret_name(name)
    return shown


def _redact_value(text: str) -> str:
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.dumps(redacted(json.loads(text)))
        except (ValueError, RecursionError):
            return redact(text)  # no JSON, but a text like any other
    return redact(text)


def _named_secrets(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if isinstance(each, str) and is_secret_name(name):
                yield each
            else:
                yield from _named_secrets(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _named_secrets(each)


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


def _fragments(text: str, forms: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Where pytest left out the middle of a long value, and kept a part of a secret beside it."""
    for dots in _ELLIPSIS.finditer(text):
        start, end = dots.span()
        for form in forms:
            low = max(0, start - len(form))
            head = text.rfind(form[:SHORTEST_PART], low, start)
            if head >= 0 and form.startswith(text[head:start]):
                yield head, start
            tail = text.find(form[-SHORTEST_PART:], end, end + len(form))
            if tail >= 0 and form.endswith(text[end : tail + SHORTEST_PART]):
                yield end, tail + SHORTEST_PART


def _spans(text: str, form: str) -> Iterator[tuple[int, int]]:
    """Where it stands, but for names of fields, which JSON needs, and the ends of its escapes."""
    start = text.find(form)
    while start >= 0:
        end = start + len(form)
        slashes = start
        while text[slashes - 1 : slashes] == "\\":
            slashes -= 1
        is_name = text[start - 1 : start] == '"' and text[end : end + 2] == '":'
        if not is_name and (start - slashes) % 2 == 0:
            yield start, end
        start = text.find(form, start + 1)


class _Known:
    """The secrets of the environment and of ``hide``, in every form in which a text may have them.

    Worked out anew when one of the two has changed.
    """

    def __init__(self, told: set[str]) -> None:
        self._told = told
        self._seen: tuple[set[bytes], set[str]] = (set(), set())
        self._forms: tuple[str, ...] = ()

    def forms(self, variables: Mapping[bytes, bytes]) -> tuple[str, ...]:
        # Others change all the time: pytest sets PYTEST_CURRENT_TEST for each phase of an item.
        secrets = {value for name, value in variables.items() if _names_a_secret(name)}
        if self._seen != (secrets, self._told):
            self._seen = (secrets, set(self._told))
            values = self._told | set(map(os.fsdecode, secrets))
            self._forms = tuple({form for value in values for form in _forms_of(value)})
        return self._forms


@lru_cache(maxsize=1024)
def _names_a_secret(variable: bytes) -> bool:
    return is_secret_name(os.fsdecode(variable))


def _forms_of(value: str) -> Iterator[str]:
    """As it is, as ``repr`` shows it, in JSON, in JSON within JSON, in HTML and in a URL."""
    lines = value.splitlines() if "\n" in value else []
    for part in (value, *(line for line in lines if len(line.strip()) >= SHORTEST_LINE)):
        plain = part.strip().strip("\\")  # half an escape must not be taken
        if len(plain) < SHORTEST or _NUMBER.fullmatch(plain):
            continue
        shown = {plain, repr(plain)[1:-1], escape(plain), quote(plain, safe="")}
        shown |= {json.dumps(each, ensure_ascii=False)[1:-1] for each in shown}
        for _ in range(3):  # a tool call's arguments, in a trajectory, in a detail of it
            shown |= {json.dumps(each)[1:-1] for each in shown}
        yield from shown


_TOLD: set[str] = set()
_KNOWN = _Known(_TOLD)
