"""Files that a run appends to, a JSON object per line, and that outlive whoever writes them."""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.runs.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

CUT_OFF = "skipped the last line, which was cut off when its process died"


def append(file: Path, row: Mapping[str, object]) -> None:
    """Add a line; the folder is made when missing. No secret gets into it.

    One unbuffered write of the whole line: a process that dies later loses nothing. ``OSError``
    where the disk does not take the line; the file is then as it was before.
    """
    line = redact(json.dumps(row)).encode() + b"\n"
    try:
        stream = file.open("ab", buffering=0)
    except FileNotFoundError:
        file.parent.mkdir(parents=True, exist_ok=True)
        stream = file.open("ab", buffering=0)
    with stream:
        before = os.fstat(stream.fileno()).st_size
        try:
            while line:
                line = line[stream.write(line) :]  # a disk that is nearly full takes a part
        except OSError:
            with contextlib.suppress(OSError):
                stream.truncate(before)
            raise


def read(file: Path, warn: Callable[[str], None]) -> Iterator[tuple[str, dict[str, object]]]:
    """Every object of the file with where it stands, as ``file:line``.

    A last line without its end was being written when its process died: it is skipped, and said.
    Raises ``ProblemFileError`` for any other line that is no JSON object.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ProblemFileError(f"{file}: cannot be read: {error.strerror}") from error
    lines = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{file}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                warn(f"{where}: {CUT_OFF}")
                continue
            raise ProblemFileError(f"{where}: not valid JSON: {error}") from None
        if not isinstance(row, dict):
            raise ProblemFileError(f"{where}: must be a JSON object, got {type(row).__name__}")
        yield where, row


def mend(file: Path, warn: Callable[[str], None]) -> None:
    """Take a last line that was cut off away, so that the file can be appended to again."""
    content = file.read_bytes()
    whole = content.rfind(b"\n") + 1
    last = content[whole:]
    if not last.strip():
        return
    try:
        json.loads(last)
    except (ValueError, RecursionError):
        number = content[:whole].count(b"\n") + 1
        warn(f"{file}:{number}: {CUT_OFF}")
        with file.open("r+b") as stream:
            stream.truncate(whole)
    else:
        with file.open("ab", buffering=0) as stream:
            stream.write(b"\n")


def natural(name: Path | str) -> list[tuple[int, str]]:
    """A sort key by which numbers in names count: gw2 before gw10."""
    key = []
    for place, part in enumerate(re.split(r"([0-9]+)", str(name))):
        digits = part.lstrip("0")  # of two numbers the longer is larger; int() takes only so many
        key.append((len(digits), digits) if place % 2 else (-1, part))
    return key
