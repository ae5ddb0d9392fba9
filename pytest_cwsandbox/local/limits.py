"""How much of the machine a sandbox may use: cgroups where they can be made, rlimits elsewhere.

A runner owns one cgroup per hierarchy, with a child for itself and one for each sandbox. While the
runner lives, the kernel keeps its cgroups: those that can be removed are leftovers.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY = 2 << 30
PROCESSES = 512
ADDRESS_SPACE_FACTOR = 4  # programs reserve far more than they use
PREFIX = "pytest-cwsandbox-"
RUNNER = "runner"
REMOVE_SECONDS = 2.0
# Shares of the CPU, in those of one process: all sandboxes together, and the runner among them.
ALL_WEIGHT, RUNNER_WEIGHT = 16, 8
CPU_PERIOD = 100_000  # microseconds


@dataclass(frozen=True)
class Group:
    """The cgroups of one sandbox."""

    directories: tuple[Path, ...]

    @property
    def entrances(self) -> list[str]:
        """Files that take a process in."""
        return [f"{directory}/cgroup.procs" for directory in self.directories]

    def ran_out_of_memory(self) -> bool:
        for directory in self.directories:
            for name in ("memory.events", "memory.oom_control"):
                try:
                    counts = (directory / name).read_text().split("\n")
                except OSError:  # the other version's file
                    continue
                if any(c.startswith("oom_kill ") and c != "oom_kill 0" for c in counts):
                    return True
        return False

    def remove(self) -> bool:
        """Remove the cgroups; False while a process is left in one."""
        removed = [_remove(directory) for directory in self.directories]
        return all(removed)


@dataclass(frozen=True)
class Cgroups:
    """A runner's cgroups, by controller; in version 2 there is one for all."""

    version: int
    bases: dict[str, Path]

    def create(self, name: str, memory: int, cpus: float | None) -> Group:
        """Make the cgroups of a sandbox. Raises ``OSError``.

        One for the CPU as well: the kernel then shares it out by sandbox, and not by process, so
        that a program with hundreds of them does not starve the others.
        """
        directories = []
        for base in dict.fromkeys(self.bases.values()):
            directory = base / name
            directory.mkdir()
            directories.append(directory)
            for setting, value in self._settings(base, memory, cpus):
                if (directory / setting).exists():
                    (directory / setting).write_text(value)
        return Group(tuple(directories))

    def _settings(self, base: Path, memory: int, cpus: float | None) -> Iterator[tuple[str, str]]:
        if self.bases["memory"] == base:
            if self.version == 1:
                yield "memory.limit_in_bytes", str(memory)
                yield "memory.memsw.limit_in_bytes", str(memory)
            else:
                yield "memory.max", str(memory)
                yield "memory.swap.max", "0"
        if self.bases["pids"] == base:
            # A little more than the rlimit in the sandbox: to fail there costs a fork far less.
            yield "pids.max", str(PROCESSES + 16)
        if cpus and self.bases.get("cpu") == base:
            quota = max(1000, round(cpus * CPU_PERIOD))
            if self.version == 1:
                yield "cpu.cfs_quota_us", str(quota)
            else:
                yield "cpu.max", f"{quota} {CPU_PERIOD}"


def describe(version: int | None) -> str:
    """Which limits hold with cgroups of this version, or without any; for people."""
    memory = f"{MEMORY >> 30} GiB"
    if version is not None:
        return f"memory {memory} and {PROCESSES} processes per sandbox (cgroup v{version})"
    return (
        f"memory {memory} per process and {PROCESSES} processes per sandbox (rlimits); "
        "files in memory and CPU not counted"
    )


def obtainable() -> int | None:
    """The version of cgroups that ``delegate`` would find, as far as permissions tell."""
    for version, parents in ((2, _parents_v2()), (1, _parents_v1())):
        if {"memory", "pids"} <= set(parents) and all(
            os.access(parent, os.W_OK) for parent in parents.values()
        ):
            return version
    return None


def delegate(state_dir: Path, user: int | None = None) -> Cgroups | None:
    """Make the cgroups of this runner, move it into them, and give them to ``user``.

    None where that cannot be done.
    """
    sweep()
    name = _name(state_dir)
    for version, parents in ((2, _parents_v2()), (1, _parents_v1())):
        bases = {controller: parent / name for controller, parent in parents.items()}
        if "memory" not in bases or "pids" not in bases:
            continue
        try:
            for base in dict.fromkeys(bases.values()):
                _delegate(base, version, bases, user)
        except OSError:  # read-only, or not ours to change
            clear(state_dir)
            continue
        return Cgroups(version, bases)
    return None


def _delegate(base: Path, version: int, bases: dict[str, Path], user: int | None) -> None:
    runner = base / RUNNER
    runner.mkdir(parents=True)
    (runner / "cgroup.procs").write_text(str(os.getpid()))
    if version == 2:
        enabled = " ".join(f"+{controller}" for controller in bases)
        (base / "cgroup.subtree_control").write_text(enabled)
    for directory, weight in ((base, ALL_WEIGHT), (runner, RUNNER_WEIGHT)):
        for file, usual in (("cpu.shares", 1024), ("cpu.weight", 100)):
            if (directory / file).exists():
                (directory / file).write_text(str(weight * usual))
    if user is not None:
        os.chown(base, user, user)
        for file in ("cgroup.procs", "cgroup.subtree_control", f"{RUNNER}/cgroup.procs"):
            if (base / file).exists():
                os.chown(base / file, user, user)


def clear(state_dir: Path) -> None:
    """Remove a runner's cgroups once its processes are gone, which takes a moment."""
    deadline = time.monotonic() + REMOVE_SECONDS
    for parent in _parents():
        while not _remove(parent / _name(state_dir)) and time.monotonic() < deadline:
            time.sleep(0.02)


def sweep() -> None:
    """Remove the cgroups of runners that were killed."""
    for parent in _parents():
        for base in parent.glob(f"{PREFIX}*"):
            if not _has_processes(base / RUNNER):
                _remove(base)


def _name(state_dir: Path) -> str:
    """A name for a runner's cgroups that no other runner on this machine has."""
    return PREFIX + hashlib.sha256(os.fsencode(state_dir.absolute())).hexdigest()[:12]


def _has_processes(directory: Path) -> bool:
    try:
        return (directory / "cgroup.procs").read_text() != ""
    except FileNotFoundError:
        return False


def _remove(directory: Path) -> bool:
    try:
        for child in directory.iterdir():
            if child.is_dir():
                _remove(child)
        directory.rmdir()
    except FileNotFoundError:
        return True
    except OSError:  # a process is left, or another user's
        return False
    return True


def _parents() -> list[Path]:
    return list(dict.fromkeys([*_parents_v1().values(), *_parents_v2().values()]))


def _parents_v1() -> dict[str, Path]:
    """The cgroup of this process for each controller of version 1."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path)
    found: dict[str, Path] = {}
    for root, mountpoint, kind, options in _mounts():
        for controller in ("memory", "pids", "cpu"):
            if kind == "cgroup" and controller in options and controller in own:
                found[controller] = _outside(_under(mountpoint, root, own[controller]))
    return found


def _parents_v2() -> dict[str, Path]:
    """The nearest cgroup above this process that hands on what is needed."""
    own = next(
        line[3:] for line in Path("/proc/self/cgroup").read_text().splitlines() if line[:3] == "0::"
    )
    for root, mountpoint, kind, _ in _mounts():
        if kind == "cgroup2":
            directory = _outside(_under(mountpoint, root, own))
            for parent in (directory, *directory.parents):
                try:
                    handed_on = (parent / "cgroup.subtree_control").read_text().split()
                except OSError:  # above the mount
                    break
                if {"memory", "pids"} <= set(handed_on):
                    return {c: parent for c in ("memory", "pids", "cpu") if c in handed_on}
    return {}


def _mounts() -> Iterator[tuple[str, Path, str, list[str]]]:
    """Root within its hierarchy, mount point, kind and options of every cgroup mount."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, details = line.partition(" - ")
        kind, _, options = details.split(" ", 2)
        if kind in ("cgroup", "cgroup2"):
            root, mountpoint = mount.split(" ")[3:5]
            yield root, Path(mountpoint), kind, options.split(",")


def _under(mountpoint: Path, root: str, path: str) -> Path:
    """Where a cgroup is seen: a container's hierarchy is mounted from somewhere below its top."""
    return mountpoint / path.removeprefix("" if root == "/" else root).lstrip("/")


def _outside(directory: Path) -> Path:
    """A runner's own cgroup, seen from where it was started."""
    base = directory.parent
    inside = directory.name == RUNNER and base.name.startswith(PREFIX)
    return base.parent if inside else directory
