"""Seccomp filters, checked in per architecture; ``generate.py`` is their source."""

from __future__ import annotations

import platform
from importlib import resources

ARCHITECTURES = ("x86_64", "aarch64")


def program() -> bytes | None:
    """This machine's filter in the form that bwrap loads; None where there is none."""
    machine = platform.machine()
    if machine not in ARCHITECTURES:
        return None
    return resources.files(__package__).joinpath(f"{machine}.bpf").read_bytes()
