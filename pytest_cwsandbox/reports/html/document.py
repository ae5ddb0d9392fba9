"""One HTML file that needs nothing else: styles, scripts and data are inside.

What models wrote is hostile text. Templates escape it, data blocks cannot end early, scripts make
text nodes only, and the page's policy runs no script but ours.
"""

from __future__ import annotations

import hashlib
import json
import re
from base64 import b64encode
from importlib.resources import files
from typing import TYPE_CHECKING

from markupsafe import Markup, escape

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from jinja2 import Environment

STYLES = ("page.css", "charts.css")
SCRIPTS = ("theme.js",)
REPLACED = "\N{REPLACEMENT CHARACTER}"  # as browsers write a lone surrogate
CLIPPED = 300  # characters of a name, or of a line
# Controls, and characters that reorder or hide what stands around them.
_UNSEEN = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_BREAK = re.compile("[/_]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def write(
    output: Path,
    template: str,
    context: Mapping[str, object],
    *,
    styles: Iterable[str] = (),
    scripts: Iterable[str] = (),
) -> None:
    """Render a template that extends ``base.html.j2``, by pieces; a regular file appears whole."""
    style = "\n".join(map(_read, (*STYLES, *styles)))
    script = "\n".join(map(_read, (*SCRIPTS, *scripts)))
    pieces = (
        _environment()
        .get_template(template)
        .generate(
            style=Markup(style),  # noqa: S704 - our own file
            script=Markup(script),  # noqa: S704 - our own file
            policy=_policy(style, script),
            **context,
        )
    )
    special = output.exists() and not output.is_file()  # a pipe, /dev/stdout: nothing to replace
    target = output if special else output.resolve()  # a link stays one
    target.parent.mkdir(parents=True, exist_ok=True)
    written = target if special else target.with_name(f"{target.name}.part")
    with written.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(pieces)
    if not special:
        written.replace(target)


def visible(text: str) -> str:
    """The text with a sign in place of every character that could not be seen or written."""
    return _UNSEEN.sub(_sign, _SURROGATE.sub(REPLACED, text))


def clip(text: str, longest: int = CLIPPED) -> str:
    """The text, or its beginning where no place on a page has room for all of it."""
    return text if len(text) <= longest else f"{text[:longest]}…"


def breakable(text: str) -> Markup:
    """The text, which a line may break behind its slashes and underscores: names are long."""
    shown = str(escape(visible(text)))
    return Markup(_BREAK.sub(r"\g<0><wbr/>", shown))  # noqa: S704 - it is escaped


def data(value: object) -> Markup:
    """JSON for a ``<script type="application/json">``, which nothing inside can end."""
    return Markup(compact(value).replace("<", "\\u003c"))  # noqa: S704 - no markup is left in it


def compact(value: object) -> str:
    """JSON in ASCII, short, with null for numbers that a browser cannot read."""
    form = {"separators": (",", ":")}
    try:
        return json.dumps(value, allow_nan=False, **form)  # type: ignore[arg-type]  # separators only
    except ValueError:
        plain = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(plain, **form)  # type: ignore[arg-type]  # separators only


def _sign(found: re.Match[str]) -> str:
    character = found.group()
    if character < " ":
        return chr(0x2400 + ord(character))
    return f"⟨U+{ord(character):04X}⟩"


def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("pytest_cwsandbox.reports.html", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: (
            visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value
        ),
    )
    environment.filters["clip"] = clip
    environment.filters["searched"] = lambda text: _SURROGATE.sub(REPLACED, text)
    environment.filters["breakable"] = breakable
    environment.filters["percent"] = lambda share, digits=1: f"{share:.{digits}%}"
    environment.filters["number"] = lambda value, digits=0: f"{value:,.{digits}f}"
    return environment


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded, and only the style and the script of this very page count."""
    hashes = [
        b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (style, script)
    ]
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}'"
    )


def _read(name: str) -> str:
    return files("pytest_cwsandbox.reports.html").joinpath(name).read_text(encoding="utf-8")
