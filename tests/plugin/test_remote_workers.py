"""Workers on other machines: what cannot work is said at once, the rest works."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SUITE = """
import pytest

@pytest.mark.parametrize("n", range(4))
def test_recorded(n, record_reward):
    record_reward(n % 2)

def test_boxed(sandbox):
    pass
"""
# A stand-in for another machine: a process that runs what it is sent over a socket.
SERVER = [sys.executable, "-u", "-m", "execnet.script.socketserver", "127.0.0.1:0"]


@pytest.fixture(autouse=True)
def _suite(pytester: pytest.Pytester) -> None:
    pytester.plugins = ["no:asyncio", "no:anyio", "no:cacheprovider"]
    pytester.makepyfile(test_it=SUITE)


@pytest.mark.parametrize(
    "args",
    [
        ("--tx=ssh=build1",),
        ("--tx=popen", "--tx=socket=192.0.2.1:8888"),
        ("--tx=3*ssh=build1//chdir=/srv",),
        ("--px=id=hop//ssh=build1", "--tx=popen//via=hop"),
    ],
)
def test_the_local_backend_and_workers_elsewhere_are_a_usage_error(
    pytester: pytest.Pytester, args: tuple[str, ...]
) -> None:
    result = pytester.runpytest_subprocess("-d", *args, "--cwsandbox-limit=1")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: cwsandbox: --tx *: *127.0.0.1*CWSANDBOX_API_KEY*--cwsandbox-backend=hosted*"]
    )


@pytest.mark.parametrize(
    "args", [("--tx=2*popen",), ("--px=id=hop//popen", "--tx=popen//via=hop", "--tx=popen//id=own")]
)
def test_workers_on_this_machine_are_none(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    pytester.runpytest_subprocess("-d", *args, "--cwsandbox-limit=1").assert_outcomes(passed=5)


@pytest.fixture
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """The port of the other machine, and a folder there."""
    home = tmp_path_factory.mktemp("elsewhere")
    with subprocess.Popen(SERVER, cwd=home, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline().rpartition(",")[2].strip(" )\n"))
        yield port, home
        server.kill()


def test_a_worker_elsewhere_says_what_it_cannot_do_and_reports_the_rest(
    pytester: pytest.Pytester, elsewhere: tuple[int, Path]
) -> None:
    port, home = elsewhere
    result = pytester.runpytest_subprocess(
        "-d", f"--tx=socket=127.0.0.1:{port}", "--rsyncdir=.", str(pytester.path / "test_it.py")
    )
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["*cwsandbox: worker gw0 on *: *127.0.0.1*CWSANDBOX_API_KEY*"])
    [merged] = pytester.path.glob(".cwsandbox/runs/*/samples.jsonl")
    rewards = [json.loads(line)["reward"] for line in merged.read_text().splitlines()]
    assert sorted(rewards) == [0, 0, 1, 1]
    assert [file.name for file in merged.parent.glob("samples-*")] == []
    assert list(home.rglob("samples-gw0.jsonl"))  # there, with what is too much for a report
