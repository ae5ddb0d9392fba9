"""Sandboxes without an agent: what their only process can reach, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from pytest_cwsandbox.local import limits
from pytest_cwsandbox.local.one_shot import OneShot
from pytest_cwsandbox.local.sandbox import Spec

from . import attempts
from .child import scenario

if TYPE_CHECKING:
    from pytest_cwsandbox.local.host import PreparedHost


async def ended(host: PreparedHost, *command: str, **settings: Any) -> tuple[int, str]:
    """Exit code and output of a command that ends by itself."""
    sandbox = OneShot(host, Spec(host.images[0], command, one_shot=True, **settings))
    ends = (sandbox.main_exit, sandbox.died)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await sandbox.stop(0)
    return sandbox.main_exit.result(), sandbox.output.decode()


async def ask(host: PreparedHost, program: str, *arguments: str, **settings: Any) -> Any:
    code, output = await ended(host, "python3", "-I", "-c", program, *arguments, **settings)
    assert code == 0, output
    return json.loads(output)


@scenario
async def test_process_1_cannot_be_looked_into_or_changed(host: PreparedHost) -> None:
    paths = [f"/proc/1/{name}" for name in ("mem", "environ", "maps", "fd/1", "fd/2")]
    read = "import json, os, sys\nfound = []\nfor path in sys.argv[1:]:\n"
    read += "    try: os.close(os.open(path, os.O_RDONLY)); found.append(path)\n"
    read += "    except OSError: pass\nprint(json.dumps(found))"
    assert await ask(host, read, *paths) == []
    assert await ask(host, attempts.WRITE, *paths, "/proc/1/oom_score_adj", "/x", "/usr/x") == []
    assert await ask(host, attempts.MOUNT) == []


@scenario
async def test_a_program_has_three_descriptors_and_the_environment_it_is_given(
    host: PreparedHost,
) -> None:
    program = "import json, os; print(json.dumps([os.listdir('/proc/self/fd'), dict(os.environ)]))"
    descriptors, environment = await ask(host, program, env={"GIVEN": "yes"})
    opened_by_listing = 1
    assert len(descriptors) == 3 + opened_by_listing
    assert environment["GIVEN"] == "yes"
    assert "HOST_SECRET" not in environment


@scenario
async def test_what_was_written_cannot_be_taken_back(host: PreparedHost) -> None:
    program = """
import os
os.write(1, b"said")
try:
    print(os.read(os.open("/proc/self/fd/1", os.O_RDONLY | os.O_NONBLOCK), 9))
except OSError:
    print(" and kept")
"""
    assert await ended(host, "python3", "-I", "-c", program) == (0, "said and kept\n")


@scenario
async def test_no_process_has_capabilities_and_their_number_is_limited(host: PreparedHost) -> None:
    program = """
import json, resource
lines = [line.split() for line in open("/proc/self/status")]
status = {name: value for name, value, *_ in lines}
names = [name for name in status if name.startswith("Cap")]
print(json.dumps([[status[name] for name in names], status["NoNewPrivs:"], status["Seccomp:"],
    resource.getrlimit(resource.RLIMIT_NPROC), resource.getrlimit(resource.RLIMIT_CORE)]))
"""
    program = program.replace("lines = [line.split()", "lines = [(line.split() + [''])")
    capabilities, privileges, seccomp, processes, core = await ask(host, program)
    assert {int(value, 16) for value in capabilities} == {0}
    assert (privileges, seccomp) == ("1", "2")
    assert processes == [limits.PROCESSES] * 2
    assert core == [0, 0]


@scenario
async def test_too_much_memory_ends_the_program_and_not_the_account_of_it(
    host: PreparedHost,
) -> None:
    eater = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    code, output = await ended(host, "python3", "-I", "-c", eater, memory_bytes=64 << 20)
    assert code == 137 or "MemoryError" in output


@scenario
async def test_exit_codes_and_output_of_both_streams_are_kept(host: PreparedHost) -> None:
    assert await ended(host, "/bin/sh", "-c", "echo out; echo err >&2; exit 7") == (7, "out\nerr\n")
    assert (await ended(host, "/bin/sh", "-c", "kill -9 $$"))[0] == 137
    code, output = await ended(host, "no-such-program")
    assert code == 127
    assert "no-such-program" in output


@scenario
async def test_what_it_leaves_behind_ends_with_it(host: PreparedHost) -> None:
    assert await ended(host, "/bin/sh", "-c", "sleep 99 & echo done") == (0, "done\n")


@scenario
async def test_files_and_directory_are_as_asked_for(host: PreparedHost) -> None:
    settings = {"files": {"/run/given": b"content"}, "working_dir": "/workspace/deep"}
    command = ("/bin/sh", "-c", "pwd; cat /run/given")
    assert await ended(host, *command, **settings) == (0, "/workspace/deep\ncontent")


@scenario
async def test_output_without_end_is_cut_and_ends_it(host: PreparedHost) -> None:
    sandbox = OneShot(host, Spec(host.images[0], ("yes",), one_shot=True))
    await sandbox.main_exit
    await sandbox.stop(0)
    assert sandbox.truncated
