"""Problems and where they come from: bundled, toy, MBPP by name, or a file.

Importing this room reads no file, and ``load`` never touches the network: ``materialize`` is the
one function that does.
"""

from __future__ import annotations

from pytest_cwsandbox.problems.completions import Completion, load_completions
from pytest_cwsandbox.problems.entry_point import infer_entry_point
from pytest_cwsandbox.problems.problem import Problem
from pytest_cwsandbox.problems.sources import SOURCES, load, materialize
from pytest_cwsandbox.problems.toy import TOY_COMPLETIONS, ToyCompletion

__all__ = [
    "SOURCES",
    "TOY_COMPLETIONS",
    "Completion",
    "Problem",
    "ToyCompletion",
    "infer_entry_point",
    "load",
    "load_completions",
    "materialize",
]
