"""The whole catalog: built in, from entry points, from directories."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, cast, get_args

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.validation.attacks import references
from pytest_cwsandbox.validation.attacks.attack import Attack, Severity
from pytest_cwsandbox.validation.attacks.background import BACKGROUND
from pytest_cwsandbox.validation.attacks.confusion import CONFUSION
from pytest_cwsandbox.validation.attacks.crashing import CRASHING
from pytest_cwsandbox.validation.attacks.equality import EQUALITY
from pytest_cwsandbox.validation.attacks.forging import FORGING
from pytest_cwsandbox.validation.attacks.introspection import INTROSPECTION
from pytest_cwsandbox.validation.attacks.leaving import LEAVING
from pytest_cwsandbox.validation.attacks.patching import PATCHING
from pytest_cwsandbox.validation.attacks.persuasion import PERSUASION
from pytest_cwsandbox.validation.attacks.planting import PLANTING
from pytest_cwsandbox.validation.attacks.reading import READING
from pytest_cwsandbox.validation.attacks.skipping import SKIPPING

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "pytest_cwsandbox.attacks"
HEADER = re.compile(r"#[ \t]*(severity|family|why|reference)[ \t]*:[ \t]*(.+?)[ \t]*\Z")
NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def builtin_attacks() -> list[Attack]:
    return [
        *LEAVING,
        *SKIPPING,
        *EQUALITY,
        *PATCHING,
        *READING,
        *INTROSPECTION,
        *FORGING,
        *PLANTING,
        *BACKGROUND,
        *CRASHING,
        *CONFUSION,
        *PERSUASION,
    ]


def attacks(*directories: Path) -> list[Attack]:
    """All attacks: built in, those of installed packages, and those of the directories.

    Raises ``UserError`` for one that is broken or has the name of another.
    """
    origins: dict[str, str] = {}
    catalog = []
    for origin, attack in [
        *(("the built-in catalog", attack) for attack in builtin_attacks()),
        *_from_packages(),
        *((str(path), attack) for folder in directories for path, attack in _files(folder)),
    ]:
        if attack.name in origins:
            raise UserError(
                f'{origin}: {origins[attack.name]} has an attack "{attack.name}" too;'
                " give it another name"
            )
        origins[attack.name] = origin
        catalog.append(attack)
    return catalog


def load_directory(path: Path) -> list[Attack]:
    """The attacks in a directory's ``*.py`` files, by name; see docs/attacks.md for their form.

    Raises ``UserError`` that names the file.
    """
    return [attack for _, attack in _files(path)]


def _files(folder: Path) -> list[tuple[Path, Attack]]:
    if not folder.is_dir():
        raise UserError(f"{folder}: not a directory of attacks; name one that holds *.py files")
    paths = sorted(folder.glob("*.py"))
    if not paths:
        raise UserError(f"{folder}: holds no *.py files, so no attacks")
    return [(path, _from_file(path)) for path in paths]


def _from_file(path: Path) -> Attack:
    try:
        code = path.read_text(encoding="utf-8")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(code, str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, SyntaxError, ValueError) as error:
        raise UserError(f"{path}: no Python: {error}; mend or remove the file") from error
    name = path.stem.replace("_", "-")
    header = _header(path, code)
    severity = header.get("severity", "medium")
    _check_name(str(path), name)
    _check_severity(str(path), severity)
    if "why" not in header:
        raise UserError(f'{path}: say in a line "# why: ..." what the attack exploits')
    return Attack(
        name,
        header.get("family", "custom"),
        cast("Severity", severity),
        header.get("reference", references.NONE),
        header["why"],
        code,
    )


def _header(path: Path, code: str) -> dict[str, str]:
    """The ``# key: value`` lines among the comments that the file begins with."""
    header: dict[str, str] = {}
    for line in code.splitlines():
        if not line.startswith("#"):
            break
        if match := HEADER.match(line):
            if match[1] in header:
                raise UserError(f'{path}: has two lines "# {match[1]}: ..."; keep one')
            header[match[1]] = match[2]
    return header


def _from_packages() -> list[tuple[str, Attack]]:
    found = []
    for point in entry_points(group=GROUP):
        origin = f'the entry point "{point.name} = {point.value}" of {GROUP}'
        try:
            loaded = point.load()
        except Exception as error:
            raise UserError(
                f"{origin}: cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        given = [loaded] if isinstance(loaded, Attack) else loaded
        if not isinstance(given, Iterable):
            raise UserError(f"{origin}: is neither an Attack nor an iterable of them")
        for attack in given:
            if not isinstance(attack, Attack):
                raise UserError(f"{origin}: holds {attack!r:.80}, which is no Attack")
            _check_name(origin, attack.name)
            _check_severity(origin, attack.severity)
            found.append((origin, attack))
    return found


def _check_name(origin: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise UserError(f'{origin}: "{name}" is no attack\'s name: use lower case and hyphens')


def _check_severity(origin: str, severity: str) -> None:
    known = get_args(Severity)
    if severity not in known:
        raise UserError(f'{origin}: severity "{severity}" is none of {", ".join(known)}')
