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


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


_AUTHORIZATION = _form(rf"((?i:authorization){_SAYS}{_SCHEMES}\s+){_VALUE}")
_BEARER = _form(rf"((?:[Bb]earer|BEARER){_SAYS}){_NO_WORD}{_VALUE}")
_STRIPE = _form(rf"{_BEGIN}[rs]k_(?:live|test)_[A-Za-z0-9]{{16,}}")
_GITHUB = _form(r"gh[posur]_[A-Za-z0-9]{30,}")
_AWS = _form(r"A[KS]IA[0-9A-Z]{16}")
_JWT = _form(rf"{_BEGIN}eyJ[\w-]{{6,}}\.eyJ[\w-]{{6,}}\.[\w-]{{6,}}")
_OPENAI = _form(r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))sk-[\w-]{20,}")
_SLACK_HOOK = _form(r"hooks\.slack\.com/services/[\w/]+")

# Before each pattern what each of its matches has: to look for a word is quick, and for a rare
# letter quicker still. No pattern looks at a letter more than a few times.
_Form = tuple[tuple[str, ...], re.Pattern[str], "str | Callable[[re.Match[str]], str]"]
_ANYWHERE: tuple[_Form, ...] = (
    (("uthorization",), _AUTHORIZATION, rf"\1{HIDDEN}"),
    (("Z", "UTHORIZATION"), _AUTHORIZATION, rf"\1{HIDDEN}"),
    (("earer",), _BEARER, rf"\1{HIDDEN}"),
    (("B", "EARER"), _BEARER, rf"\1{HIDDEN}"),
    (("://",), _form(_USER), f"://{HIDDEN}@"),
    (("://", "="), _form(r"://[^\s\\\"'<>]+"), _without_parameters),
    (("hooks.slack.com/",), _SLACK_HOOK, f"hooks.slack.com/services/{HIDDEN}"),
    (("github_pat_",), _form(r"github_pat_\w{22,}"), HIDDEN),
    (("I", "AIza"), _form(r"AIza[\w-]{30,}"), HIDDEN),
    (("I", "AKIA"), _AWS, HIDDEN),
    (("I", "ASIA"), _AWS, HIDDEN),
    (("J", ".eyJ"), _JWT, HIDDEN),
)
# Many words at once: most texts have no such run of letters behind an underscore or a hyphen.
_UNDERSCORE = _form(r"_[A-Za-z0-9]{16}")
_BEHIND_UNDERSCORES: tuple[_Form, ...] = (
    (("k_live_",), _STRIPE, HIDDEN),
    (("k_test_",), _STRIPE, HIDDEN),
    (("hf_",), _form(r"hf_[A-Za-z0-9]{30,}"), HIDDEN),
    *(((f"gh{kind}_",), _GITHUB, HIDDEN) for kind in "posur"),
)
_HYPHEN = _form(r"-[\w-]{10}")
_BEHIND_HYPHENS: tuple[_Form, ...] = (
    (("sk-",), _OPENAI, HIDDEN),
    (("glpat-",), _form(r"glpat-[\w-]{20,}"), HIDDEN),
    (("xox",), _form(r"xox[abeprs]-[\w-]{10,}"), HIDDEN),
)


def without_forms(text: str) -> str:
    """The text, be it JSON or not, without what has the form of a secret."""
    text = _without(text, _ANYWHERE)
    if _UNDERSCORE.search(text):
        text = _without(text, _BEHIND_UNDERSCORES)
    if _HYPHEN.search(text):
        text = _without(text, _BEHIND_HYPHENS)
    return text


def _without(text: str, forms: tuple[_Form, ...]) -> str:
    for marks, pattern, replacement in forms:
        for mark in marks:
            if mark not in text:
                break
        else:
            text = pattern.sub(replacement, text)
    return text
