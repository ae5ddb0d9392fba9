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

from .child import ask, run, scenario, started

if TYPE_CHECKING:
    from pytest_cwsandbox.local.host import PreparedHost

ATTEMPTS = """
import json, os, socket, sys, ctypes
def allowed(attempts):
    found = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except (OSError, ValueError, AttributeError) as error:
            continue
        found.append(name)
    print(json.dumps(found))
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
    program = (
        ATTEMPTS
        + "allowed({p: lambda p=p: open(p, 'r+b' if os.path.exists(p) else 'wb') for p in sys.argv[1:]})"
    )
    async with started(host) as sandbox:
        assert await ask(sandbox, program, *paths) == []


@scenario
async def test_the_image_cannot_be_mounted_writable(host: PreparedHost) -> None:
    program = (
        ATTEMPTS
        + """
libc = ctypes.CDLL(None, use_errno=True)
def mount(*arguments):
    if libc.mount(*arguments) != 0:
        raise OSError(ctypes.get_errno())
allowed({
    "remount": lambda: mount(None, b"/usr", None, 32 | 4096, None),
    "bind": lambda: mount(b"/tmp", b"/usr", None, 4096, None),
    "tmpfs": lambda: mount(b"x", b"/tmp", b"tmpfs", 0, None),
    "chroot": lambda: os.chroot("/tmp"),
})
"""
    )
    async with started(host) as sandbox:
        assert await ask(sandbox, program) == []


@scenario
async def test_no_file_of_the_host_can_be_read(host: PreparedHost) -> None:
    with tempfile.TemporaryDirectory(dir=host.state_dir) as folder:
        secret = Path(folder, "secret")
        secret.write_text("of the host")
        Path(folder).chmod(0o755)
        leaked = os.open(folder, os.O_PATH)  # an inheritable descriptor in the runner
        os.set_inheritable(leaked, True)
        program = (
            ATTEMPTS
            + """
secret = sys.argv[1]
os.symlink(secret, "/tmp/link")
os.symlink("/proc/1/root" + secret, "/tmp/rooted")
reads = {path + secret: lambda path=path: open(path + secret).read() for path in (
    "", "/proc/1/root", "/proc/self/root", "/proc/1/cwd", "/../../..", "/proc/1/root/../..",
    "/proc/%d/root" % os.getppid(), "/dev/fd/../../..", "/proc/self/task/../../../../..")}
reads |= {f"fd {fd}": lambda fd=fd: os.open("../" * 20 + secret, os.O_RDONLY, dir_fd=fd) for fd in range(3, 64)}
reads |= {path: lambda path=path: open(path).read() for path in ("/tmp/link", "/tmp/rooted", "/etc/shadow", "/etc/machine-id")}
allowed(reads)
"""
        )
        try:
            async with started(host) as sandbox:
                assert await ask(sandbox, program, str(secret)) == []
                for link in ("/tmp/link", "/tmp/rooted"):
                    await _cannot_read(sandbox, link)
                users = await run(sandbox, "cat", "/etc/passwd")
                assert len(users.stdout.splitlines()) == 2
        finally:
            os.close(leaked)


async def _cannot_read(sandbox: object, path: str) -> None:
    from pytest_cwsandbox.local.sandbox import FileError, LocalSandbox

    assert isinstance(sandbox, LocalSandbox)
    try:
        content = await sandbox.read_file(path, 1 << 20)
    except FileError as error:
        assert error.kind in ("not_found", "permission_denied"), error
    else:
        raise AssertionError(content)


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
        program = (
            ATTEMPTS
            + """
port = int(sys.argv[1])
families = {"AF_VSOCK": 40, "AF_PACKET": 17, "AF_ALG": 38, "AF_BLUETOOTH": 31, "AF_CAN": 29, "AF_TIPC": 30, "AF_XDP": 44, "AF_RDS": 21, "AF_QIPCRTR": 42}
attempts = {name: lambda f=f: [socket.socket(f, kind) for kind in (1,)] for name, f in families.items()}
attempts |= {f"{name} {kind}": lambda f=f, kind=kind: socket.socket(f, kind) for name, f in families.items() for kind in (2, 3, 5)}
attempts["listener"] = lambda: socket.create_connection(("127.0.0.1", port), 5)
attempts["internet"] = lambda: socket.create_connection(("192.0.2.1", 80), 5)
attempts["datagram"] = lambda: socket.socket(2, 2).sendto(b"x", ("192.0.2.1", 53))
attempts["abstract"] = lambda: socket.socket(1).connect(chr(0) + sys.argv[2])
attempts["raw"] = lambda: socket.socket(2, 3, 1)
attempts["sctp"] = lambda: socket.socket(2, 1, 132)
attempts["audit"] = lambda: socket.socket(16, 3, 9)
allowed(attempts)
"""
        )
        async with started(host) as sandbox:
            port = str(listener.getsockname()[1])
            assert await ask(sandbox, program, port, name[1:]) == []
            interfaces = "import json, socket; print(json.dumps(socket.if_nameindex()))"
            assert [name for _, name in await ask(sandbox, interfaces)] == ["lo"]


@scenario
async def test_what_programs_need_of_the_kernel_works(host: PreparedHost) -> None:
    program = """
import asyncio, ctypes, multiprocessing, socket, sqlite3, ssl, subprocess, tempfile, threading
with socket.create_server(("127.0.0.1", 0)) as server, \\
        socket.create_connection(server.getsockname()) as client:
    client.sendall(b"x")
thread = threading.Thread(target=print); thread.start(); thread.join()
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
subprocess.run(["true"], check=True)
assert asyncio.run(asyncio.sleep(0, 7)) == 7
sqlite3.connect(":memory:").execute("select 1")
assert ssl.create_default_context().cert_store_stats() is not None
tempfile.NamedTemporaryFile().write(b"x")
"""
    async with started(host) as sandbox:
        result = await run(sandbox, "python3", "-c", program)
        assert result.returncode == 0, result


@scenario
async def test_no_process_has_capabilities_or_can_gain_privileges(host: PreparedHost) -> None:
    status = "while read -r name value; do case $name in Cap*|NoNewPrivs:|Seccomp:|Uid:) echo $name $value;; esac; done </proc/self/status"
    main = ("/bin/sh", "-c", f"({status}) >/tmp/main; sleep infinity")
    async with started(host, main) as sandbox:
        direct = await run(sandbox, "sh", "-c", status)
        below = await run(sandbox, "sh", "-c", f"setsid sh -c '({status}) & wait'")
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
    program = (
        ATTEMPTS
        + """
libc = ctypes.CDLL(None, use_errno=True)
def call(function, *arguments):
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno())
kinds = (0x10000000, 0x00020000, 0x20000000, 0x40000000, 0x10000000 | 0x00020000)
attempts = {f"unshare {kind:x}": lambda kind=kind: call("unshare", kind) for kind in kinds}
attempts |= {f"clone {kind:x}": lambda kind=kind: call("syscall", 56 if os.uname().machine == "x86_64" else 220, kind | 17, 0, 0, 0, 0) for kind in kinds}
attempts["setns"] = lambda: call("setns", os.open("/proc/self/ns/user", os.O_RDONLY), 0)
attempts["ptrace"] = lambda: call("ptrace", 16, 1, 0, 0)
attempts["limit of the agent"] = lambda: __import__("resource").prlimit(1, 7, (0, 0))
allowed(attempts)
"""
    )
    async with started(host) as sandbox:
        assert await ask(sandbox, program) == []


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
        mounts = [
            line.split() for line in (await run(sandbox, "cat", "/proc/mounts")).stdout.splitlines()
        ]
        writable = {
            place: options
            for _, place, kind, options, *_ in mounts
            if options.startswith("rw") and kind == "tmpfs"
        }
        assert {*writable} == {"/tmp", "/workspace", "/root", "/run", "/dev/shm"}
        assert all("size=" in options for options in writable.values())
        devices = {
            place
            for _, place, kind, options, *_ in mounts
            if options.startswith("rw") and place not in writable
        }
        assert {place for place in devices if not place.startswith(("/dev/", "/proc"))} == set()
        filled = await run(sandbox, "sh", "-c", "head -c 20000000 /dev/zero >/run/x")
        assert "No space left" in filled.stderr


@scenario
async def test_packages_of_the_host_cannot_be_imported(host: PreparedHost) -> None:
    program = "import importlib.util, json, sys; print(json.dumps([m for m in sys.argv[1:] if importlib.util.find_spec(m)]))"
    for image in host.images:
        async with started(host, image=image) as sandbox:
            names = ("pip", "setuptools", "pytest", "grpc", "yaml", "apt", "ssl")
            assert await ask(sandbox, program, *names) == ["ssl"]


@scenario
async def test_a_memory_bomb_ends_itself_only(host: PreparedHost) -> None:
    bomb = "data = []\nwhile True: data.append(bytearray(1 << 24))"
    async with started(host, memory_bytes=256 << 20) as sandbox, started(host) as other:
        result = await run(sandbox, "python3", "-c", bomb)
        assert result.returncode == 137 or "MemoryError" in result.stderr, result
        assert (await run(sandbox, "echo", "alive")).stdout == "alive\n"
        assert (await run(other, "echo", "alive")).stdout == "alive\n"


@scenario
async def test_files_in_memory_count_where_cgroups_hold(host: PreparedHost) -> None:
    if host.cgroups is None:
        assert "not counted" in host.limits
        return
    async with started(host, memory_bytes=128 << 20) as sandbox:
        program = "head -c 400000000 /dev/zero >/tmp/x; echo survived"
        assert "survived" not in (await run(sandbox, "sh", "-c", f"exec sh -c '{program}'")).stdout


@scenario
async def test_a_fork_bomb_is_contained_and_killed_whole(host: PreparedHost) -> None:
    bomb = """
import os, time
while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        print("full", flush=True)
        time.sleep(1)
"""
    async with started(host) as sandbox, started(host) as other:
        process = await sandbox.exec(["python3", "-c", bomb])
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
    daemon = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\nopen('/tmp/daemon', 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    async with started(host) as sandbox:
        other = await sandbox.exec(["sh", "-c", "echo on; read line; echo $line"], stdin=True)
        process = await sandbox.exec(
            ["sh", "-c", 'setsid setsid python3 -c "$0" & sleep 1000', daemon]
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
        while len(_processes(mark)) < 2:
            await asyncio.sleep(0.01)
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
        while len(_processes(mark)) < 2:
            await asyncio.sleep(0.01)
        runner.kill()
        await runner.wait()
        async with asyncio.timeout(10):
            while _processes(mark):
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
