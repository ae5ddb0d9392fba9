"""What this host can do, and what a runner prepares on it once."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest_cwsandbox
from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.local import bwrap, images, limits, privileges, seccomp
from pytest_cwsandbox.local.checks import Check, checks
from pytest_cwsandbox.local.sandbox import LocalSandbox, Spec, StartError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.local.images import Image, Interpreter
    from pytest_cwsandbox.local.limits import Cgroups

# Says the version, and how a socket past the network namespace and a new namespace fail.
TRIAL = """\
import errno, os, socket, ssl, sys, threading
said = ["%d.%d" % sys.version_info[:2]]
for attempt in (
    lambda: socket.socket(40, socket.SOCK_STREAM),
    lambda: os.chroot("/"),
):
    try:
        attempt()
        said.append("allowed")
    except OSError as error:
        said.append(errno.errorcode[error.errno])
print(*said)
"""

__all__ = ["Check", "PreparedHost", "checks", "prepare"]

AGENT_SOURCE = Path(__file__).with_name("agent.py")


@dataclass
class PreparedHost:
    """All that sandboxes share: made once, in ``state_dir``, before the first one."""

    state_dir: Path
    bwrap: Path
    isolation: str
    interpreters: list[Interpreter]
    cgroups: Cgroups | None
    _images: dict[Interpreter, Image] = field(default_factory=dict)
    _options: dict[Image, bytes] = field(default_factory=dict)

    @property
    def images(self) -> list[str]:
        """Names of the images that there are, the default one first."""
        return images.listing(self.interpreters)

    @property
    def limits(self) -> str:
        """Which limits hold, for people."""
        return limits.describe(self.cgroups.version if self.cgroups else None)

    def image(self, name: str) -> Image:
        """Raises ``NoSuchImageError`` or ``UnusableInterpreterError``."""
        found = []
        for interpreter in images.select(name, self.interpreters):
            if interpreter not in self._images:
                self._images[interpreter] = images.prepare(
                    interpreter, self.state_dir, AGENT_SOURCE
                )
            image = self._images[interpreter]
            if images.matches(name, image.version):
                return image
            found.append(f"python:{image.version}")
        raise images.NoSuchImageError(
            f"no image {name!r} on this host: there is {', '.join(found)}"
        )

    @property
    def etc(self) -> Path:
        return self.state_dir / "etc"

    @property
    def empty(self) -> Path:
        return self.state_dir / "empty"

    @property
    def seccomp(self) -> Path:
        return self.state_dir / "seccomp.bpf"

    def options(self, image: Image) -> bytes:
        """The options of bwrap that all sandboxes of an image share."""
        if image not in self._options:
            self._options[image] = bwrap.encode(bwrap.options(image, self.etc, self.empty))
        return self._options[image]


def prepare(state_dir: Path, environment: Mapping[str, str] = os.environ) -> PreparedHost:
    """Stage what sandboxes need in ``state_dir``, and become an unprivileged user if root.

    Call it before any thread is started. Raises ``BackendError``.
    """
    for check in checks(environment):
        if not check.ok:
            raise BackendError(f"{check.name}: {check.detail}: {check.remedy}")
    found = bwrap.find(environment.get("PATH", os.defpath))
    filters = seccomp.program()
    assert found is not None  # noqa: S101 - by the checks
    assert filters is not None  # noqa: S101
    interpreters = images.find(environment)
    cgroups = _become_unprivileged(state_dir, found[0], interpreters)
    host = PreparedHost(
        state_dir=state_dir,
        bwrap=found[0],
        isolation=bwrap.describe(found[1]),
        interpreters=interpreters,
        cgroups=cgroups,
    )
    bwrap.write_settings(host.etc)
    host.empty.mkdir()
    host.seccomp.write_bytes(filters)
    asyncio.run(_try_out(host))
    return host


async def _try_out(host: PreparedHost) -> None:
    """Run a first sandbox: better no runner than one whose sandboxes fail or do not hold."""
    spec = Spec(host.images[0], ("/bin/sleep", "infinity"))
    try:
        sandbox = await LocalSandbox.start(host, spec)
    except StartError as error:
        raise BackendError(f"sandboxes cannot be started on this host: {error}") from error
    try:
        process = await sandbox.exec(["python3", "-I", "-c", TRIAL])
        output = b"".join([data async for _, data in process]).decode(errors="replace")
    finally:
        await sandbox.stop(0)
    expected = f"3.{host.interpreters[0].minor} EAFNOSUPPORT EPERM"
    if output.strip() != expected:
        said = (output.strip().splitlines() or ["nothing"])[-1]
        raise BackendError(
            f"sandboxes do not work as they must on this host: a first one said {said!r}, not "
            f"{expected!r}; see whether {host.interpreters[0].executable} runs alone"
        )


def _become_unprivileged(
    state_dir: Path, program: Path, interpreters: list[Interpreter]
) -> Cgroups | None:
    if not privileges.is_root():
        return limits.delegate(state_dir)
    user = privileges.unused_id()
    cgroups = limits.delegate(state_dir, user)
    readable = [Path(path) for path in (sys.prefix, sys.base_prefix, *pytest_cwsandbox.__path__)]
    welcome = [Path(path) for path in sys.path if path and Path(path).exists()]
    welcome += [interpreter.executable.parent.parent for interpreter in interpreters]
    privileges.drop(user, readable, [*welcome, program], [state_dir])
    return cgroups
