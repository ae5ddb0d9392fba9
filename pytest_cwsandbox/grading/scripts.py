"""What runs inside a sandbox, as a command line or as a file.

Compiling a script takes a fifth of the time that a bare interpreter does. So the compiled form goes
along, for an interpreter of the same bytecode as this one; any other takes the source.
"""

from __future__ import annotations

import marshal
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import MAGIC_NUMBER
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

# Without site, for speed; not isolated (-I), for that would ignore PYTHONHASHSEED.
PYTHON = ("python", "-s", "-S", "-c")
LAUNCH = """\
import marshal, sys, _frozen_importlib_external as loader
magic, code, source = sys.argv[1:4]
del sys.argv[1:4]
exec(marshal.loads(bytes.fromhex(code)) if magic == loader.MAGIC_NUMBER.hex() else source)
"""
LAUNCH_FILE = """\
import marshal, sys, _frozen_importlib_external as loader
with open(sys.argv[1], "rb") as file:
    magic, code, source, given = marshal.loads(file.read())
sys.argv[1:] = ["-", *given]
exec(marshal.loads(code) if magic == loader.MAGIC_NUMBER else source)
"""
FORMAT = 2  # of marshal, as every version of Python reads it


@dataclass(frozen=True, slots=True)
class Script:
    """``code`` is the compiled ``source``."""

    code: bytes
    source: str

    @property
    def command(self) -> tuple[str, ...]:
        """The command that runs it; its arguments follow."""
        return (*PYTHON, LAUNCH, MAGIC_NUMBER.hex(), self.code.hex(), self.source)

    def file(self, arguments: Sequence[str]) -> bytes:
        """The file that ``LAUNCH_FILE`` runs."""
        return marshal.dumps((MAGIC_NUMBER, self.code, self.source, tuple(arguments)), FORMAT)


def source(*names: str) -> str:
    """The modules' sources, one after the other."""
    folder = files("pytest_cwsandbox.grading")
    return "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in names)


@cache
def script(*names: str) -> Script:
    """The modules as one script."""
    text = source(*names)
    code = compile(text, f"<{names[-1]}>", "exec", dont_inherit=True, optimize=2)
    return Script(marshal.dumps(code), text)
