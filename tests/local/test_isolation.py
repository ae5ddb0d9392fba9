"""What a program in a sandbox can reach: nothing. Each test runs as root and as ordinary user."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import attempts
from .child import ask, file_problem, run, scenario, started

if TYPE_CHECKING:
    from pytest_cwsandbox.local.host import PreparedHost

STATUS = """
while read -r name value; do
    case $name in Cap*|NoNewPrivs:|Seccomp:|Uid:) echo $name $value ;; esac
done </proc/self/status
"""
IMPORTABLE = """
import importlib.util, json, sys
print(json.dumps([name for name in sys.argv[1:] if importlib.util.find_spec(name)]))
"""


@scenario
async def test_no_file_outside_the_writable_places_can_be_written(host: PreparedHost) -> None:
    paths = [
        *("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger", "/proc/sys/kernel/hostname"),
        *("/proc/sys/user/max_user_namespaces", "/proc/sys/net/ipv4/ip_forward"),
        *("/x", "/usr/x", "/usr/local/x", "/usr/local/bin/python3", "/bin/sh", "/etc/passwd"),
        *("/etc/x", "/dev/x", "/var/x", "/home/x", "/mnt/x", "/proc/1/mem"),
        *("/proc/1/oom_score_adj", "/proc/1/environ"),
    ]
    async with started(host) as sandbox:
        assert await ask(sandbox, attempts.WRITE, *paths) == []


@scenario
async def test_the_image_cannot_be_mounted_writable(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        assert await ask(sandbox, attempts.MOUNT) == []


@scenario
async def test_no_file_of_the_host_can_be_read(host: PreparedHost) -> None:
    with tempfile.TemporaryDirectory(dir=host.state_dir) as folder:
        secret = _secret(folder)
        leaked = os.open(folder, os.O_PATH)  # an inheritable descriptor in the runner
        os.set_inheritable(leaked, True)
        try:
            async with started(host) as sandbox:
                assert await ask(sandbox, attempts.READ, secret) == []
                for link in ("/tmp/link", "/tmp/rooted"):
                    problem = await file_problem(sandbox.read_file(link, 1 << 20))
                    assert problem in ("not_found", "permission_denied")
                users = await run(sandbox, "cat", "/etc/passwd")
                assert len(users.stdout.splitlines()) == 2
        finally:
            os.close(leaked)


@scenario
async def test_a_program_has_the_descriptors_it_is_given_and_no_more(host: PreparedHost) -> None:
    program = "import json, os; print(json.dumps(os.listdir('/proc/self/fd')))"
    async with started(host) as sandbox:
        opened_by_listing = 1
        assert len(await ask(sandbox, program)) == 3 + opened_by_listing


@scenario
async def test_no_process_of_the_host_is_visible(host: PreparedHost) -> None:
    program = """
import json, os
print(json.dumps([open(f"/proc/{p}/cmdline").read() for p in os.listdir("/proc") if p.isdigit()]))
"""
    async with started(host) as sandbox:
        commands = await ask(sandbox, program)
        kinds = ("agent.pyc", "sleep", "/proc/{p}/cmdline")
        assert [c for c in commands if not any(kind in c for kind in kinds)] == []


@scenario
async def test_the_environment_of_the_runner_stays_outside(host: PreparedHost) -> None:
    assert "HOST_SECRET" in os.environ
    async with started(host, env={"GIVEN": "yes"}) as sandbox:
        assert "HOST_SECRET" not in (found := (await run(sandbox, "env")).stdout)
        assert "GIVEN=yes" in found
        for place in ("/proc/1/environ", "/proc/1/maps", "/proc/1/mem"):
            assert (await run(sandbox, "cat", place)).returncode == 1


@scenario
async def test_there_is_no_network(host: PreparedHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as named:
        name = f"\0cwsandbox-test-{secrets.token_hex(8)}"
        named.bind(name)
        named.listen()
        async with started(host) as sandbox:
            port = str(listener.getsockname()[1])
            assert await ask(sandbox, attempts.CONNECT, port, name[1:]) == []
            interfaces = "import json, socket; print(json.dumps(socket.if_nameindex()))"
            assert [name for _, name in await ask(sandbox, interfaces)] == ["lo"]


@scenario
async def test_what_programs_need_of_the_kernel_works(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        result = await run(sandbox, "python3", "-c", attempts.HONEST)
        assert result.returncode == 0, result


@scenario
async def test_no_process_has_capabilities_or_can_gain_privileges(host: PreparedHost) -> None:
    main = ("/bin/sh", "-c", f"({STATUS}) >/tmp/main; sleep infinity")
    async with started(host, main) as sandbox:
        direct = await run(sandbox, "sh", "-c", STATUS)
        below = await run(sandbox, "sh", "-c", f"setsid sh -c '({STATUS}) & wait'")
        await run(sandbox, "sh", "-c", "until [ -s /tmp/main ]; do sleep 0.01; done")
        own = await run(sandbox, "cat", "/tmp/main")
        for shown in (direct, below, own):
            facts = dict(line.split(":", 1) for line in shown.stdout.splitlines())
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert int(facts[name], 16) == 0, (name, shown)
            assert facts["NoNewPrivs"].strip() == "1"
            assert facts["Seccomp"].strip() == "2"
            assert facts["Uid"].split() == ["1000"] * 4


@scenario
async def test_no_namespace_can_be_made_or_entered(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        assert await ask(sandbox, attempts.ENTER_NAMESPACES) == []


@scenario
async def test_the_agent_survives_every_signal_from_inside(host: PreparedHost) -> None:
    program = "for signal in KILL STOP TERM INT SEGV HUP USR1 ALRM CHLD; do kill -$signal 1; done"
    async with started(host) as sandbox:
        assert (await run(sandbox, "sh", "-c", program)).returncode == 0
        assert (await run(sandbox, "echo", "alive")).stdout == "alive\n"


@scenario
async def test_a_program_that_kills_its_supervisor_kills_the_sandbox(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        process = await sandbox.exec(["sh", "-c", "kill -KILL $PPID; sleep 1000"])
        async for _ in process:
            pass
        assert "supervises" in await sandbox.died
        assert process.returncode is None


@scenario
async def test_all_writable_files_are_in_memory_of_limited_size(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        mounts = (await run(sandbox, "cat", "/proc/mounts")).stdout.splitlines()
        kinds = {place: (kind, options) for _, place, kind, options, *_ in map(str.split, mounts)}
        writable = {p: kind for p, (kind, options) in kinds.items() if options.startswith("rw")}
        in_memory = {place for place, kind in writable.items() if kind == "tmpfs"}
        assert in_memory == {"/tmp", "/workspace", "/root", "/run", "/dev/shm"}
        assert all("size=" in kinds[place][1] for place in in_memory)
        others = writable.keys() - in_memory
        assert {place for place in others if not place.startswith(("/dev/", "/proc"))} == set()
        filled = await run(sandbox, "sh", "-c", "head -c 20000000 /dev/zero >/run/x")
        assert "No space left" in filled.stderr


@scenario
async def test_packages_of_the_host_cannot_be_imported(host: PreparedHost) -> None:
    for image in host.images:
        async with started(host, image=image) as sandbox:
            names = ("pip", "setuptools", "pytest", "grpc", "yaml", "apt", "ssl")
            assert await ask(sandbox, IMPORTABLE, *names) == ["ssl"]


@scenario
async def test_a_memory_bomb_ends_itself_only(host: PreparedHost) -> None:
    async with started(host, memory_bytes=256 << 20) as sandbox, started(host) as other:
        result = await run(sandbox, "python3", "-c", attempts.MEMORY_BOMB)
        assert result.returncode == 137 or "MemoryError" in result.stderr, result
        assert (await run(sandbox, "echo", "alive")).stdout == "alive\n"
        assert (await run(other, "echo", "alive")).stdout == "alive\n"


@scenario
async def test_files_in_memory_count_where_cgroups_hold(host: PreparedHost) -> None:
    if host.cgroups is None:
        assert "not counted" in host.limits
        return
    async with started(host, memory_bytes=128 << 20) as sandbox:
        filling = await run(sandbox, "sh", "-c", "exec head -c 400000000 /dev/zero >/tmp/x")
        assert filling.returncode != 0
        # Nothing that the kernel may kill gives these files back: it may take any process.
        if sandbox.died.done():
            assert sandbox.died.result() == "out of memory: the limit is 128 MiB"


@scenario
async def test_a_fork_bomb_is_contained_and_killed_whole(host: PreparedHost) -> None:
    async with started(host) as sandbox, started(host) as other:
        process = await sandbox.exec(["python3", "-c", attempts.FORK_BOMB])
        async for _, data in process:
            assert b"full" in data
            break
        assert (await run(other, "echo", "alive")).stdout == "alive\n"
        await process.kill()
        if not sandbox.died.done():
            result = await run(sandbox, "echo", "alive")
            assert result.stdout == "alive\n", result


@scenario
async def test_kill_catches_what_has_left_the_session_and_nothing_else(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        other = await sandbox.exec(["sh", "-c", "echo on; read line; echo $line"], stdin=True)
        process = await sandbox.exec(
            ["sh", "-c", 'setsid setsid python3 -c "$0" & sleep 1000', attempts.DAEMON]
        )
        await run(sandbox, "sh", "-c", "until [ -s /tmp/daemon ]; do sleep 0.01; done")
        await process.kill()
        assert process.returncode == 137
        left = await run(sandbox, "sh", "-c", "kill -0 $(cat /tmp/daemon)")
        assert left.returncode == 1
        await other.write_stdin(b"still here\n")
        assert b"".join([data async for _, data in other]) == b"on\nstill here\n"


@scenario
async def test_nothing_is_left_after_stop(host: PreparedHost) -> None:
    mark = str(secrets.randbelow(10**9) + 10**9)
    before = _directories(host)
    async with started(host, ("/bin/sleep", mark)) as sandbox:
        await run(sandbox, "sh", "-c", f"setsid sleep {mark} >/dev/null 2>&1 &")
        await _running(mark, 2)
    assert _processes(mark) == []
    assert _directories(host) == before


@scenario
async def test_descriptors_of_a_stopped_sandbox_are_closed(host: PreparedHost) -> None:
    async with started(host) as sandbox:
        await run(sandbox, "true")
    before = _descriptors()
    async with started(host, files={"/workspace/x": b"x"}) as sandbox:
        await run(sandbox, "true", stdin=b"x")
        await run(sandbox, "tty", tty=(80, 24))
        await sandbox.exec(["sleep", "1000"], stdin=True)
        await sandbox.exec(["sleep", "1000"], tty=(80, 24))
    assert _descriptors() == before


@scenario
async def test_sandboxes_die_with_a_killed_runner(host: PreparedHost) -> None:
    mark = str(secrets.randbelow(10**9) + 10**9)
    program = f"""
import asyncio, dataclasses, sys
from pathlib import Path
from pytest_cwsandbox.local.host import prepare
from pytest_cwsandbox.local.sandbox import LocalSandbox, Spec
host = prepare(Path(sys.argv[1]))
async def main():
    sandbox = await LocalSandbox.start(host, Spec(host.images[0], ("/bin/sleep", "{mark}")))
    process = await sandbox.exec(["setsid", "sleep", "{mark}"])
    print("ready", flush=True)
    await asyncio.sleep(1000)
asyncio.run(main())
"""
    with tempfile.TemporaryDirectory(dir=host.state_dir) as state:
        runner = await asyncio.create_subprocess_exec(
            sys.executable, "-c", program, state, stdout=asyncio.subprocess.PIPE
        )
        assert runner.stdout is not None
        assert await runner.stdout.readline() == b"ready\n"
        await _running(mark, 2)
        runner.kill()
        await runner.wait()
        async with asyncio.timeout(10):
            await _running(mark, 0)


def _secret(folder: str) -> str:
    """A file that everybody on the host may read."""
    path = Path(folder, "secret")
    path.write_text("of the host")
    path.parent.chmod(0o755)
    return str(path)


async def _running(mark: str, count: int) -> None:
    while len(_processes(mark)) != count:  # noqa: ASYNC110 - they are nobody's children here
        await asyncio.sleep(0.01)


def _processes(mark: str) -> list[str]:
    """Ids of the processes on this machine with ``mark`` as an argument of sleep."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                command = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if command[:2] in ([b"sleep", mark.encode()], [b"/bin/sleep", mark.encode()]):
                found.append(process.name)
    return found


def _directories(host: PreparedHost) -> list[Path]:
    cgroups = host.cgroups.bases.values() if host.cgroups else ()
    return sorted(p for top in (host.state_dir, *cgroups) for p in top.glob("*") if p.is_dir())


def _descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
