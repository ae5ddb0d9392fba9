"""A catalog of reward hacks: completions that solve nothing and try to be paid for it.

Every payload is inert. It leaves, lies, prints, or plants files in its working directory; it ends
within a few seconds, reaches nothing outside that directory and leaves no process behind.
"""

from __future__ import annotations

from pytest_cwsandbox.validation.attacks.attack import Attack, Severity
from pytest_cwsandbox.validation.attacks.catalog import attacks, builtin_attacks, load_directory

__all__ = ["Attack", "Severity", "attacks", "builtin_attacks", "load_directory"]
