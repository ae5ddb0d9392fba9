"""Image names, and the interpreters of this host that stand for them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST_MINOR = 10  # that can run the agent
IMAGE = re.compile(
    r"(?:docker\.io/)?(?:library/)?python"
    r"(?::(?:latest|3|3\.(?P<minor>\d+)(?:\.(?P<patch>\d+))?|slim)"
    r"(?:-slim)?(?:-(?:bullseye|bookworm|trixie))?)?"
)
# Says what a sandbox needs of an interpreter, and compiles the agent for it.
INSPECTION = """\
import sys, os, py_compile, ssl, _ctypes
py_compile.compile(sys.argv[1], cfile=sys.argv[2], dfile="agent.py", doraise=True)
libpython = "libpython%d.%d" % sys.version_info[:2]
with open("/proc/self/maps") as maps:
    mapped = {line.split(maxsplit=5)[-1].strip() for line in maps if libpython in line}
needed = {os.path.dirname(os.__file__), *mapped}
needed.update(path for path in sys.path if path.endswith("lib-dynload"))
if os.path.isdir(os.path.join(sys.base_prefix, "conda-meta")):  # brings libraries of its own
    needed.add(os.path.join(sys.base_prefix, "lib"))
print("%d.%d.%d" % sys.version_info[:3])
print("\\n".join(sorted(needed)))
"""


class NoSuchImageError(Exception):
    """No interpreter of this host stands for the image; the message lists what there is."""


class UnusableInterpreterError(Exception):
    """An interpreter that cannot be had in a sandbox, and why."""


@dataclass(frozen=True)
class Interpreter:
    """A CPython of this host; ``executable`` is the file itself, neither link nor shim."""

    executable: Path
    minor: int

    @property
    def image(self) -> str:
        return f"python:3.{self.minor}"


@dataclass(frozen=True)
class Image:
    """An interpreter made ready: ``local`` becomes /usr/local, ``paths`` are what it needs."""

    interpreter: Interpreter
    version: str
    local: Path
    paths: tuple[Path, ...]


def find(environment: Mapping[str, str]) -> list[Interpreter]:
    """The interpreters of this host, the running one first, then by version."""
    running = Interpreter(Path(sys._base_executable).resolve(), sys.version_info[1])  # type: ignore[attr-defined]  # noqa: SLF001 - where a virtual environment's interpreter comes from
    found = {running.executable: running}
    for path in _candidates(environment):
        named = re.fullmatch(r"python3\.(\d+)", path.name)
        if named and int(named[1]) >= OLDEST_MINOR and path not in found and _is_program(path):
            found[path] = Interpreter(path, int(named[1]))
    return [running, *sorted((i for i in found.values() if i != running), key=lambda i: i.minor)]


def select(image: str, interpreters: list[Interpreter]) -> list[Interpreter]:
    """The interpreters that may stand for an image, best first."""
    match = IMAGE.fullmatch(image)
    if match is None:
        raise NoSuchImageError(_nothing(image, interpreters))
    minor = interpreters[0].minor if match["minor"] is None else int(match["minor"])
    chosen = [i for i in interpreters if i.minor == minor]
    if not chosen:
        raise NoSuchImageError(_nothing(image, interpreters))
    return chosen


def prepare(interpreter: Interpreter, directory: Path, agent: Path) -> Image:
    """Lay out /usr/local for an interpreter: its names on PATH, and the compiled agent."""
    local = directory / str(interpreter.executable).strip("/").replace("/", "-")
    names, library = local / "bin", local / "lib" / "cwsandbox"
    names.mkdir(parents=True)
    library.mkdir(parents=True)
    try:
        inspection = subprocess.run(
            [interpreter.executable, "-I", "-S", "-c", INSPECTION, agent, library / "agent.pyc"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
            cwd="/",
            env={},
        )
    except (OSError, subprocess.SubprocessError) as error:
        shutil.rmtree(local)
        said = getattr(error, "stderr", None) or str(error)
        reason = said.strip().splitlines()[-1]
        raise UnusableInterpreterError(
            f"{interpreter.executable} cannot be used: {reason}"
        ) from error
    version, *needed = inspection.stdout.split("\n")
    paths = [interpreter.executable, *(Path(path) for path in needed if path)]
    for path in paths:  # those that lie in /usr/local are mounted there
        if path.is_relative_to("/usr/local"):
            mountpoint = local / path.relative_to("/usr/local")
            mountpoint.parent.mkdir(parents=True, exist_ok=True)
            mountpoint.mkdir(exist_ok=True) if path.is_dir() else mountpoint.touch()
    for name in ("python", "python3", f"python3.{interpreter.minor}"):
        if not (names / name).exists():
            (names / name).symlink_to(interpreter.executable)
    shutil.copyfile("/bin/sh", library / "init")
    (library / "init").chmod(0o111)
    return Image(interpreter, version, local, tuple(paths))


def matches(image: str, version: str) -> bool:
    """Whether an interpreter's exact version is what the image name asks for."""
    match = IMAGE.fullmatch(image)
    return match is not None and match["patch"] in (None, version.rpartition(".")[2])


def listing(interpreters: list[Interpreter]) -> list[str]:
    """The images of this host, the default one first."""
    return list(dict.fromkeys(interpreter.image for interpreter in interpreters))


def _nothing(image: str, interpreters: list[Interpreter]) -> str:
    return (
        f"no image {image!r} on this host: there are {', '.join(listing(interpreters))} "
        "(interpreters found on PATH, in pyenv and in uv)"
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    home = Path(environment.get("HOME", "/nonexistent"))
    directories = [Path(part) for part in environment.get("PATH", "").split(":") if part]
    directories += [Path("/usr/local/bin"), Path("/usr/bin")]
    pyenv = Path(environment.get("PYENV_ROOT") or home / ".pyenv") / "versions"
    uv = Path(environment.get("UV_PYTHON_INSTALL_DIR") or home / ".local/share/uv/python")
    directories += [path / "bin" for tree in (pyenv, uv) for path in _list(tree)]
    for directory in directories:
        for path in _list(directory, "python3"):
            yield path.resolve()


def _list(directory: Path, prefix: str = "") -> list[Path]:
    """What of such names a directory holds; nothing when it is not there or not for this user."""
    try:
        return sorted(path for path in directory.iterdir() if path.name.startswith(prefix))
    except OSError:
        return []


def _is_program(path: Path) -> bool:
    """Whether it is an executable in machine code: a version manager's shim is a script."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False
