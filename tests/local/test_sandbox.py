"""A sandbox through the host's side of it, each test as root and as an ordinary user."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.local.process import GRACE_SECONDS
from pytest_cwsandbox.local.sandbox import LocalSandbox, Spec, StartError

from .child import file_error, file_problem, run, scenario, started

if TYPE_CHECKING:
    from pytest_cwsandbox.local.host import PreparedHost

MIB = 1 << 20


@scenario
async def test_a_command_returns_its_output_and_exit_code(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        result = await run(sandbox, "sh", "-c", "echo out; echo err >&2; exit 3")
        assert (result.returncode, result.stdout, result.stderr) == (3, "out\n", "err\n")


@scenario
async def test_a_signal_is_told_as_a_shell_does(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        assert (await run(sandbox, "sh", "-c", "kill -SEGV $$")).returncode == 128 + signal.SIGSEGV


@scenario
async def test_a_command_that_cannot_be_run_says_why(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        missing = await run(sandbox, "no-such-command")
        assert (missing.returncode, missing.stderr) == (127, "no-such-command: command not found\n")
        absent = await run(sandbox, "/no/such/file")
        assert (absent.returncode, absent.stderr) == (
            127,
            "/no/such/file: No such file or directory\n",
        )
        forbidden = await run(sandbox, "/etc/passwd")
        assert (forbidden.returncode, forbidden.stderr) == (126, "/etc/passwd: Permission denied\n")


@scenario
async def test_a_command_gets_default_signal_handling(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        shown = (await run(sandbox, "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")).stdout
        standard = (1 << 31) - 1  # the C library keeps two of the others to itself
        assert [int(line.split()[1], 16) & standard for line in shown.splitlines()] == [0, 0]


@scenario
async def test_input_reaches_a_command(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        text = b"0123456789abcdef" * 65536
        assert (await run(sandbox, "wc", "-c", stdin=text)).stdout == f"{len(text)}\n"
        assert (await run(sandbox, "cat")).stdout == ""


@scenario
async def test_input_that_nobody_reads_is_dropped(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        assert (await run(sandbox, "true", stdin=bytes(MIB))).returncode == 0
        closed = await run(sandbox, "sh", "-c", "exec <&-; echo on; sleep 0.1", stdin=bytes(MIB))
        assert closed.stdout == "on\n"


@scenario
async def test_long_output_arrives_whole(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        result = await run(sandbox, "seq", "1000000")
        assert result.stdout == "".join(f"{number}\n" for number in range(1, 1_000_001))


@scenario
async def test_long_arguments_arrive_whole(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        long = ["a" * 100_000, "b" * 120_000, "", "c" * 65_536]
        result = await run(
            sandbox, "sh", "-c", 'for a; do printf %s "$a" | wc -c; done', "sh", *long
        )
        assert result.stdout.split() == [str(len(argument)) for argument in long]


@scenario
async def test_a_command_that_is_not_read_waits_and_blocks_no_other(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        before = _memory()
        stuck = [await sandbox.exec(["yes"]) for _ in range(8)]
        for _ in range(20):
            assert (await run(sandbox, "echo", "on")).stdout == "on\n"
        assert _memory() - before < 16 * MIB
        await asyncio.gather(*(process.kill() for process in stuck))
        assert [process.returncode for process in stuck] == [137] * 8


@scenario
async def test_a_slow_reader_misses_nothing(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        slow = "echo first; until [ -e /tmp/read ]; do sleep 0.01; done; seq 10000; sleep 1000 &"
        process = await sandbox.exec(["sh", "-c", slow])
        read = b""
        async for _, data in process:
            read += data
            await sandbox.write_file("/tmp/read", b"")
            await process.ended
            await asyncio.sleep(GRACE_SECONDS)
        assert read.split()[-1] == b"10000"


@scenario
async def test_background_children_neither_hold_up_the_end_nor_are_killed(
    host: PreparedHost,
) -> None:
    async with started(host) as sandbox:
        async with asyncio.timeout(30):
            result = await run(sandbox, "sh", "-c", "sleep 1000 & echo $!")
        assert result.returncode == 0
        assert (await run(sandbox, "kill", "-0", result.stdout.strip())).returncode == 0


@scenario
async def test_a_terminal_has_its_size_and_ends_input(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        process = await sandbox.exec(
            ["sh", "-c", "tty; stty size; read line; stty size; cat; echo end"], tty=(100, 40)
        )
        output = b""
        async for stream, data in process:
            assert stream == "stdout"
            output += data
            if output.endswith(b"40 100\r\n"):
                await process.resize(120, 50)
                await process.write_stdin(b"go\n")
                await process.close_stdin()
        lines = output.decode().splitlines()
        assert lines[0].startswith("/dev/pts/")
        assert lines[1] == "40 100"
        assert "50 120" in lines
        assert lines[-1] == "end"
        assert process.returncode == 0


@scenario
async def test_files_are_written_and_read_back(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        content = os.urandom(5 * MIB)
        await sandbox.write_file("/workspace/new/directory/file", content)
        assert await sandbox.read_file("/workspace/new/directory/file", 5 * MIB) == content
        await sandbox.write_file("/workspace/new/directory/file", b"shorter")
        assert (await run(sandbox, "cat", "/workspace/new/directory/file")).stdout == "shorter"


@scenario
async def test_what_is_no_file_cannot_be_read_or_written(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        await run(
            sandbox,
            "sh",
            "-c",
            "mkfifo /tmp/pipe; touch /tmp/closed; chmod 0 /tmp/closed; ln -s /tmp/loop /tmp/loop",
        )
        for path, kind in (
            ("/no/such/file", "not_found"),
            ("/etc/passwd/x", "not_found"),
            ("/tmp", "is_directory"),
            ("/tmp/closed", "permission_denied"),
            ("/tmp/pipe", "io_failed"),
            ("/tmp/loop", "io_failed"),
            ("/dev/zero", "io_failed"),
            ("/proc/self/maps", "io_failed"),
            ("relative", "io_failed"),
        ):
            assert await file_problem(sandbox.read_file(path, MIB)) == kind, path
        for path, kind in (
            ("/tmp", "is_directory"),
            ("/tmp/pipe", "io_failed"),
            ("/dev/null", "io_failed"),
            ("/tmp/closed", "permission_denied"),
            ("/usr/x", "permission_denied"),
            ("/etc/passwd", "permission_denied"),
            ("/etc/passwd/x", "not_found"),
            ("relative", "io_failed"),
        ):
            assert await file_problem(sandbox.write_file(path, b"x")) == kind, path
        assert await file_problem(sandbox.write_file("/run/large", bytes(32 * MIB))) == "io_failed"


@scenario
async def test_a_file_that_is_too_large_says_how_large(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        await sandbox.write_file("/tmp/file", bytes(1001))
        assert len(await sandbox.read_file("/tmp/file", 1001)) == 1001
        error = await file_error(sandbox.read_file("/tmp/file", 1000))
        assert error is not None
        assert (error.kind, error.size, error.path) == ("too_large", 1001, "/tmp/file")


@scenario
async def test_mounted_files_are_there_and_stay(host: PreparedHost) -> None:
    files = {"/workspace/job/code.py": b"print(1)", "/etc/job": b"x", "/data": b"y" * 100_000}
    del files["/etc/job"]
    async with started(host, files=files) as sandbox:
        assert (await run(sandbox, "python3", "/workspace/job/code.py")).stdout == "1\n"
        assert await sandbox.read_file("/data", MIB) == files["/data"]
        for change in ("echo >/data", "rm -f /workspace/job/code.py", "mv /workspace/job /tmp"):
            assert (await run(sandbox, "sh", "-c", change)).returncode != 0


@scenario
async def test_a_file_that_cannot_be_mounted_fails_the_start(host: PreparedHost) -> None:
    message = await _start_error(host, Spec(host.images[0], ("true",), files={"/usr/x": b""}))
    assert "/usr/x" in message


@scenario
async def test_environment_and_directory_are_as_asked(host: PreparedHost) -> None:
    env = {"NAME": "a=b\nc", "HOME": "/tmp"}
    async with started(host, env=env, working_dir="/workspace/deep") as sandbox:
        result = await run(sandbox, "sh", "-c", 'pwd; echo "$NAME"; echo $HOME; hostname')
        assert result.stdout == "/workspace/deep\na=b\nc\n/tmp\nsandbox\n"


@scenario
async def test_every_image_is_what_its_name_says(host: PreparedHost) -> None:
    assert host.images
    for image in host.images:
        async with started(host, image=f"{image}-slim") as sandbox:
            for name in ("python", "python3", image.replace(":", "")):
                program = "import sys; print('%d.%d' % sys.version_info[:2])"
                result = await run(sandbox, name, "-c", program)
                assert result.stdout.strip() == image.partition(":")[2]


@scenario
async def test_an_unknown_image_fails_with_a_list_of_what_there_is(host: PreparedHost) -> None:
    for image in ("python:3.99", "ubuntu:24.04", f"{host.images[0]}.99"):
        message = await _start_error(host, Spec(image, ("true",)))
        assert image in message
        assert "there " in message


@scenario
async def test_a_main_process_that_cannot_be_run_fails_the_start(host: PreparedHost) -> None:
    assert "'no-such'" in await _start_error(host, Spec(host.images[0], ("no-such",)))


@scenario
async def test_the_main_process_ends_the_sandbox(host: PreparedHost) -> None:
    for command, code in (("exit 3", 3), ("kill -KILL $$", 137)):
        main = f"mkfifo /tmp/go; read x </tmp/go; {command}"
        async with started(host, ("sh", "-c", main)) as sandbox:
            process = await sandbox.exec(["sleep", "1000"])
            go = "until [ -p /tmp/go ]; do sleep 0.01; done; echo >/tmp/go"
            await sandbox.exec(["sh", "-c", go])
            assert await sandbox.main_exit == code
            async for _ in process:
                pass
            assert process.returncode is None
            assert (await run(sandbox, "true")).returncode is None
            assert await file_problem(sandbox.read_file("/etc/passwd", MIB)) == "io_failed"
            await sandbox.stop(0)
            assert not sandbox.died.done()


@scenario
async def test_stop_lets_the_main_process_end_within_its_grace(host: PreparedHost) -> None:
    command = ("sh", "-c", "trap 'exit 7' TERM; echo >/tmp/ready; sleep 1000 & wait")
    async with started(host, command) as sandbox:
        await run(sandbox, "sh", "-c", "until [ -e /tmp/ready ]; do sleep 0.01; done")
        await sandbox.stop(60)
        assert sandbox.main_exit.result() == 7


@scenario
async def test_stop_kills_what_ignores_it(host: PreparedHost) -> None:
    async with started(host, ("sh", "-c", "trap '' TERM; echo >/tmp/ready; sleep 1000")) as sandbox:
        await run(sandbox, "sh", "-c", "until [ -e /tmp/ready ]; do sleep 0.01; done")
        await sandbox.stop(0.1)
        assert not sandbox.main_exit.done()


@scenario
async def test_stop_may_be_called_by_many(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        await asyncio.gather(*(sandbox.stop(0) for _ in range(5)))
        await sandbox.stop(5)


@scenario
async def test_many_sandboxes_run_side_by_side(host: PreparedHost) -> None:
    async def one(number: int) -> str:
        async with started(host) as sandbox:
            await sandbox.write_file("/tmp/number", str(number).encode())
            return (await run(sandbox, "cat", "/tmp/number")).stdout

    numbers = range(24)
    assert await asyncio.gather(*map(one, numbers)) == [str(number) for number in numbers]


@scenario
async def test_a_sandbox_that_dies_says_so(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        process = await sandbox.exec(["sleep", "1000"])
        os.kill(_bwrap(), signal.SIGKILL)
        assert "killed" in await sandbox.died
        async for _ in process:
            pass
        assert process.returncode is None


@scenario
async def test_a_command_can_be_killed_more_than_once(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        process = await sandbox.exec(["sleep", "1000"])
        await asyncio.gather(process.kill(), process.kill())
        await process.kill()
        assert process.returncode == 137


async def _start_error(host: PreparedHost, spec: Spec) -> str:
    try:
        sandbox = await LocalSandbox.start(host, spec)
    except StartError as error:
        return str(error)
    await sandbox.stop(0)
    raise AssertionError("it started")


def _memory() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _bwrap() -> int:
    """The process that this one has started."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                status = (process / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has just ended
                continue
            if int(status[1]) == os.getpid() and status[0] != "Z":
                return int(process.name)
    raise AssertionError("no child")
