"""Secrets that show by their form what they are, without a name that is known."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs.secret_names import is_secret_parameter

if TYPE_CHECKING:
    from collections.abc import Callable

HIDDEN = "[redacted]"

# Not the end of "task-", but after the n of a newline in JSON.
_BEGIN = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt]))"
_USER = r"://(?:[^\s/\\\"'<>@:]{0,200}:[^\s/\\\"'<>]{0,200}|[^\s/\\\"'<>@:]{20,200})@"
_PARAMETER = re.compile(r"([?&;#])([\w.%\[\]-]{1,80})=([^&;#]+)", re.ASCII)
_SAYS = r"[\\\"':=\s]{1,12}"  # between a name and its value: in a header, JSON, or a dict
_SCHEMES = r"(?i:basic|bearer|token|digest|apikey|negotiate)"
_VALUE = r"[\w.~+/=-]{8,}"
# "bearer authentication" is prose.
_NO_WORD = r"(?![A-Za-z_]{1,19}(?![\w~+/=-]))"


def _without_parameters(url: re.Match[str]) -> str:
    return _PARAMETER.sub(_parameter, url[0])


def _parameter(found: re.Match[str]) -> str:
    mark, name, value = found.groups()
    return f"{mark}{name}={HIDDEN}" if is_secret_parameter(name, value) else found[0]


# Before each pattern what none of its matches is without: to look for a word is quick. No pattern
# looks at a letter more than a few times.
_FORMS: tuple[
    tuple[tuple[str, ...], re.Pattern[str], str | Callable[[re.Match[str]], str]], ...
] = (
    (
        ("uthorization", "UTHORIZATION"),
        re.compile(rf"((?i:authorization){_SAYS}{_SCHEMES}\s+){_VALUE}", re.ASCII),
        rf"\1{HIDDEN}",
    ),
    (
        ("earer", "EARER"),
        re.compile(rf"((?:[Bb]earer|BEARER){_SAYS}){_NO_WORD}{_VALUE}", re.ASCII),
        rf"\1{HIDDEN}",
    ),
    (("://",), re.compile(_USER), f"://{HIDDEN}@"),
    (("://",), re.compile(r"://[^\s\\\"'<>]+"), _without_parameters),
    (
        ("hooks.slack.com/",),
        re.compile(r"hooks\.slack\.com/services/[\w/]+"),
        f"hooks.slack.com/services/{HIDDEN}",
    ),
    (
        ("sk-",),
        re.compile(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))sk-[\w-]{20,}", re.ASCII),
        HIDDEN,
    ),
    (
        ("k_live_", "k_test_"),
        re.compile(rf"{_BEGIN}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}"),
        HIDDEN,
    ),
    (("hf_",), re.compile(r"hf_[A-Za-z0-9]{30,}"), HIDDEN),
    (
        ("ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
        re.compile(r"gh[posur]_[A-Za-z0-9]{30,}"),
        HIDDEN,
    ),
    (("github_pat_",), re.compile(r"github_pat_\w{22,}", re.ASCII), HIDDEN),
    (("glpat-",), re.compile(r"glpat-[\w-]{20,}", re.ASCII), HIDDEN),
    (("xox",), re.compile(r"xox[abeprs]-[\w-]{10,}", re.ASCII), HIDDEN),
    (("AIza",), re.compile(r"AIza[\w-]{30,}", re.ASCII), HIDDEN),
    (("AKIA", "ASIA"), re.compile(r"A[KS]IA[0-9A-Z]{16}"), HIDDEN),
    (
        (".eyJ",),
        re.compile(rf"{_BEGIN}eyJ[\w-]{{6,}}\.eyJ[\w-]{{6,}}\.[\w-]{{6,}}", re.ASCII),
        HIDDEN,
    ),
)


def without_forms(text: str) -> str:
    """The text, be it JSON or not, without what has the form of a secret."""
    for marks, pattern, replacement in _FORMS:
        for mark in marks:
            if mark in text:
                text = pattern.sub(replacement, text)
                break
    return text
