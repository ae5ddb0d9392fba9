"""Reading source on the host."""

from __future__ import annotations

import ast
import threading
import warnings
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOCK = threading.RLock()


@contextmanager
def parsing() -> Iterator[None]:
    """For ``ast.parse`` of what others wrote: without warnings, and one thread at a time.

    CPython 3.11 counts the depth of a tree per interpreter, so that threads that parse at once can
    make each other fail with a ``SystemError``; and filters of warnings belong to the process.
    """
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in a problem's code are not the user's
        yield


@lru_cache(maxsize=32)  # a row's asserts are looked at twice: whether they parse, what they call
def parse(source: str) -> ast.Module:
    """The tree, which is not to be changed; raises what ``ast.parse`` does."""
    with parsing():
        return ast.parse(source)
