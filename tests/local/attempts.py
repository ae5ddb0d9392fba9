"""Programs that try to get out of a sandbox; each prints, as JSON, which attempts succeeded."""

from __future__ import annotations

_HEAD = """
import ctypes, json, os, resource, socket, sys

libc = ctypes.CDLL(None, use_errno=True)

def call(function, *arguments):
    if getattr(libc, function)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), function)

def allowed(attempts):
    found = []
    for name, attempt in attempts.items():
        try:
            attempt()
        except OSError:
            continue
        found.append(name)
    print(json.dumps(found))
"""

# Arguments: paths.
WRITE = (
    _HEAD
    + """
def write(path):
    open(path, "r+b" if os.path.exists(path) else "wb")

allowed({path: lambda path=path: write(path) for path in sys.argv[1:]})
"""
)

MOUNT = (
    _HEAD
    + """
MS_REMOUNT, MS_BIND = 32, 4096
allowed({
    "remount": lambda: call("mount", None, b"/usr", None, MS_REMOUNT | MS_BIND, None),
    "bind": lambda: call("mount", b"/tmp", b"/usr", None, MS_BIND, None),
    "tmpfs": lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, None),
    "unmount": lambda: call("umount2", b"/etc", 2),
    "chroot": lambda: os.chroot("/tmp"),
})
"""
)

# Argument: the path of a file of the host.
READ = (
    _HEAD
    + """
secret = sys.argv[1]
os.symlink(secret, "/tmp/link")
os.symlink("/proc/1/root" + secret, "/tmp/rooted")

def read(path, fd=None):
    os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 1)

prefixes = ["", "/proc/1/root", "/proc/self/root", "/proc/1/cwd", "/../../..", "/dev/fd/../../.."]
prefixes += ["/proc/1/root/../..", f"/proc/{os.getppid()}/root", "/proc/self/task/../../../.."]
attempts = {prefix: lambda prefix=prefix: read(prefix + secret) for prefix in prefixes}
for fd in range(3, 64):
    attempts[f"descriptor {fd}"] = lambda fd=fd: read("../" * 20 + secret, fd)
for path in ("/tmp/link", "/tmp/rooted", "/etc/shadow", "/etc/machine-id"):
    attempts[path] = lambda path=path: read(path)
allowed(attempts)
"""
)

# Arguments: a TCP port and the name of an abstract socket, both listening outside.
CONNECT = (
    _HEAD
    + """
port, name = int(sys.argv[1]), sys.argv[2]
families = {"vsock": 40, "packet": 17, "alg": 38, "bluetooth": 31, "can": 29, "tipc": 30}
families |= {"xdp": 44, "rds": 21, "qipcrtr": 42, "key": 15, "kcm": 41, "smc": 43}
attempts = {
    "listener": lambda: socket.create_connection(("127.0.0.1", port), 5),
    "internet": lambda: socket.create_connection(("192.0.2.1", 80), 5),
    "datagram": lambda: socket.socket(2, 2).sendto(b"x", ("192.0.2.1", 53)),
    "abstract": lambda: socket.socket(1).connect(chr(0) + name),
    "raw": lambda: socket.socket(2, 3, 1),
    "sctp": lambda: socket.socket(2, 1, 132),
    "audit": lambda: socket.socket(16, 3, 9),
}
for family, number in families.items():
    for kind in (1, 2, 3, 5):
        attempts[f"{family} {kind}"] = lambda n=number, kind=kind: socket.socket(n, kind)
allowed(attempts)
"""
)

ENTER_NAMESPACES = (
    _HEAD
    + """
SYS_clone = 56 if os.uname().machine == "x86_64" else 220
SIGCHLD = 17
NEWNS, NEWUSER, NEWPID, NEWNET = 0x00020000, 0x10000000, 0x20000000, 0x40000000

def clone(kind):
    if (pid := libc.syscall(SYS_clone, kind | SIGCHLD, 0, 0, 0, 0)) == 0:
        os._exit(0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "clone")

attempts = {
    "setns": lambda: call("setns", os.open("/proc/self/ns/user", os.O_RDONLY), 0),
    "ptrace of the agent": lambda: call("ptrace", 16, 1, 0, 0),
    "limits of the agent": lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
}
for kind in (NEWUSER, NEWNS, NEWPID, NEWNET, NEWUSER | NEWNS):
    attempts[f"unshare {kind:x}"] = lambda kind=kind: call("unshare", kind)
    attempts[f"clone {kind:x}"] = lambda kind=kind: clone(kind)
allowed(attempts)
"""
)

# What honest programs do; a fork server of threads, processes, sockets and files.
HONEST = """
import asyncio, multiprocessing, socket, sqlite3, ssl, subprocess, tempfile, threading

with socket.create_server(("127.0.0.1", 0)) as server:
    with socket.create_connection(server.getsockname()) as client:
        client.sendall(b"x")
thread = threading.Thread(target=print)
thread.start()
thread.join()
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
subprocess.run(["true"], check=True)
assert asyncio.run(asyncio.sleep(0, 7)) == 7
sqlite3.connect(":memory:").execute("select 1")
ssl.create_default_context()
tempfile.NamedTemporaryFile().write(b"x")
"""

MEMORY_BOMB = """
data = []
while True:
    data.append(bytearray(1 << 24))
"""

FORK_BOMB = """
import os, time

while True:
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        print("full", flush=True)
        time.sleep(1)
"""

# Leaves its process group, its session and its parent.
DAEMON = """
import os, time

if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open("/tmp/daemon", "w") as file:
    file.write(str(os.getpid()))
time.sleep(1000)
"""
