"""What runs inside a sandbox, as a command line.

Compiling a script takes a fifth of the time that a bare interpreter does. So the compiled form goes
along, for an interpreter of the same bytecode as this one; any other takes the source.
"""

from __future__ import annotations

import marshal
from functools import cache
from importlib.resources import files
from importlib.util import MAGIC_NUMBER

LAUNCH = """\
import marshal, sys, _frozen_importlib_external as loader
magic, code, source = sys.argv[1:4]
del sys.argv[1:4]
exec(marshal.loads(bytes.fromhex(code)) if magic == loader.MAGIC_NUMBER.hex() else source)
"""


def source(*names: str) -> str:
    """The modules' sources, one after the other."""
    folder = files("pytest_cwsandbox.grading")
    return "".join((folder / f"{name}.py").read_text(encoding="utf-8") for name in names)


@cache
def script(*names: str) -> tuple[str, ...]:
    """The command that runs the modules as one; its arguments follow.

    Without site, for speed; not isolated (-I), for that would ignore PYTHONHASHSEED.
    """
    text = source(*names)
    code = compile(text, f"<{names[-1]}>", "exec", dont_inherit=True, optimize=2)
    launch = ("python", "-s", "-S", "-c", LAUNCH)
    return (*launch, MAGIC_NUMBER.hex(), marshal.dumps(code).hex(), text)
