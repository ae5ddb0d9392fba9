"""Giving up root for good, before anything untrusted is started.

bubblewrap that root starts maps the sandbox's user to root outside, whatever ``--uid`` says: then
only the filters stand between a program and the host. So a runner started by root becomes a user
that nobody else is. What that user must read, such as an interpreter under root's private home, is
mounted again at its own path inside a mount namespace of the runner's own.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import stat
from pathlib import Path

from pytest_cwsandbox.errors import BackendError

CLONE_NEWNS = 0x00020000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    *(1, 2, 4, 32, 4096),
    *(16384, 1 << 18),
)
PR_SET_NO_NEW_PRIVS = 38
CAPABILITY_VERSION = 0x20080522
# Ids that no distribution, container tool or directory service gives out.
UNUSED_IDS = range(0x70000000, 0x7FFFFFF0)

_libc = ctypes.CDLL(None, use_errno=True)


def is_root() -> bool:
    return os.geteuid() == 0


def drop(user: int, needed: list[Path], useful: list[Path], writable: list[Path]) -> None:
    """Become an unprivileged user that can reach these paths, with no way back.

    It must be able to read what is ``needed``, not all that would be ``useful``.
    Must be called while the process has one thread: a mount namespace belongs to a thread.
    Raises ``BackendError``.
    """
    if len([*Path("/proc/self/task").iterdir()]) > 1:
        raise RuntimeError("root must be given up before the first thread is started")
    _make_reachable([*needed, *useful], writable)
    for path in writable:
        os.chown(path, user, user)
    try:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    except OSError as error:
        raise BackendError(
            f"root cannot be given up here ({error.strerror}): run as an ordinary user"
        ) from error
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capset")
    _check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")
    try:
        os.setuid(0)
    except PermissionError:
        pass
    else:
        raise BackendError("root was given up but can be taken back: run as an ordinary user")
    for path in needed:
        if not os.access(path, os.R_OK | os.X_OK):
            raise BackendError(
                f"{path} is closed to the unprivileged user that a runner started by root becomes: "
                f"chmod -R o+rX {path}"
            )


def unused_id() -> int:
    """A user id at random, so that two runners share no quota and cannot touch each other."""
    lines = Path("/proc/self/uid_map").read_text().splitlines()
    first, _, count = max((tuple(map(int, line.split())) for line in lines), key=lambda m: m[2])
    if first + count > UNUSED_IDS.stop:
        return secrets.choice(UNUSED_IDS)
    if count < 4096:
        raise BackendError(
            "this user namespace has no id to give up root for: run as an ordinary user"
        )
    return secrets.choice(range(first + count - 2048, first + count - 2))  # of a container's range


def blocked_by(path: Path) -> Path | None:
    """The topmost directory above ``path`` that only its owner may pass."""
    for directory in reversed(path.parents):
        if not directory.stat().st_mode & stat.S_IXOTH:
            return directory
    return None


def _make_reachable(readable: list[Path], writable: list[Path]) -> None:
    """Hide each directory in the way behind an empty one that holds nothing but the paths."""
    writable = [*writable, *(path.resolve() for path in writable)]
    hidden = _hidden([*readable, *writable])
    if not hidden:
        return
    if _libc.unshare(CLONE_NEWNS) != 0:
        barrier = next(iter(hidden))
        raise BackendError(
            f"{barrier} is closed to other users and this root may not make mounts: "
            f"use a Python outside it, or allow passing it (chmod o+x {barrier})"
        )
    _mount("/", MS_REC | MS_PRIVATE)
    # All are opened before the first mount covers any of them.
    opened = {
        barrier: {place: os.open(place, os.O_PATH) for place in places}
        for barrier, places in hidden.items()
    }
    for barrier, fds in opened.items():
        _mount(str(barrier), MS_NOSUID | MS_NODEV, kind=b"tmpfs", data=b"mode=711,size=1m")
        for place, fd in fds.items():
            _mount_again(place, fd, read_only=place not in writable)
            os.close(fd)


def _hidden(paths: list[Path]) -> dict[Path, list[Path]]:
    """By directory in the way, the paths behind it, without those inside others."""
    hidden: dict[Path, set[Path]] = {}
    for path in paths:
        literal = Path(os.path.abspath(path))  # noqa: PTH100 - links must stay
        for place in {literal, literal.resolve()}:
            barrier = blocked_by(place) if place.exists() else None
            if barrier is not None:
                hidden.setdefault(barrier, set()).add(place)
    return {
        barrier: sorted(p for p in places if not places.intersection(p.parents))
        for barrier, places in hidden.items()
    }


def _mount_again(place: Path, fd: int, *, read_only: bool) -> None:
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        place.mkdir(parents=True, exist_ok=True)
    else:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()
    _mount(str(place), MS_BIND | MS_REC, source=f"/proc/self/fd/{fd}")
    flags = MS_REMOUNT | MS_BIND | MS_NOSUID | MS_NODEV
    _mount(str(place), flags | (MS_RDONLY if read_only else 0))


def _mount(
    target: str, flags: int, *, source: str = "none", kind: bytes | None = None, data: bytes = b""
) -> None:
    result = _libc.mount(
        source.encode(), os.fsencode(target), kind, ctypes.c_ulong(flags), data or None
    )
    _check(result, f"mounting {target}")


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise BackendError(f"giving up root failed: {what}: {os.strerror(code)}")
