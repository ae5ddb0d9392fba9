"""The filters as checked in, for both architectures, run by a small interpreter of BPF."""

from __future__ import annotations

import errno
import struct
from pathlib import Path

import pytest

from pytest_cwsandbox.local import seccomp
from pytest_cwsandbox.local.seccomp import generate

MACHINES = ("x86_64", "aarch64")
ALLOWED = 0x7FFF0000
KILLED = 0x80000000
X32 = 0x40000000

# What programs cannot do without: (x86_64, aarch64).
NEEDED = {
    "read": (0, 63),
    "write": (1, 64),
    "openat": (257, 56),
    "mmap": (9, 222),
    "execve": (59, 221),
    "futex": (202, 98),
    "wait4": (61, 260),
    "exit_group": (231, 94),
    "rt_sigaction": (13, 134),
    "getrandom": (318, 278),
    "memfd_create": (319, 279),
    "statx": (332, 291),
    "rseq": (334, 293),
    "pidfd_open": (434, 434),
    "close_range": (436, 436),
    "openat2": (437, 437),
    "epoll_pwait2": (441, 441),
}


def refused(code: int) -> int:
    return 0x00050000 | code


def decide(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """What the checked-in filter answers to a system call."""
    program = _checked_in(machine)
    if architecture is None:
        architecture = generate.AUDIT_ARCHITECTURES[machine]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *arguments, *[0] * (6 - len(arguments)))
    position = loaded = 0
    while True:
        code, jump_true, jump_false, value = struct.unpack_from("<HBBI", program, 8 * position)
        position += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, value)
        elif code == 0x06:
            return int(value)
        else:
            test = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            position += jump_true if test else jump_false


def _checked_in(machine: str) -> bytes:
    return Path(seccomp.__file__).with_name(f"{machine}.bpf").read_bytes()


@pytest.mark.parametrize("machine", MACHINES)
def test_the_checked_in_filter_is_what_its_source_generates(machine: str) -> None:
    assert _checked_in(machine) == generate.generate(machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_ordinary_calls_pass(machine: str) -> None:
    column = MACHINES.index(machine)
    for name, numbers in NEEDED.items():
        assert decide(machine, numbers[column]) == ALLOWED, name


@pytest.mark.parametrize("machine", MACHINES)
def test_forbidden_calls_are_refused_and_unknown_ones_absent(machine: str) -> None:
    column = MACHINES.index(machine)
    for name, numbers in generate.FORBIDDEN.items():
        if (number := numbers[column]) is not None:
            assert decide(machine, number) == refused(errno.EPERM), name
    for name, numbers in generate.ABSENT.items():
        number = numbers[column]
        assert number is not None
        assert decide(machine, number) == refused(errno.ENOSYS), name
    for number in (generate.NEWEST_KNOWN + 1, 1000, X32, X32 + 1, 0xFFFFFFFF):
        assert decide(machine, number) == refused(errno.ENOSYS), number


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_kill(machine: str) -> None:
    for other in {*generate.AUDIT_ARCHITECTURES.values(), 0x40000003, 0x40000028}:
        if other != generate.AUDIT_ARCHITECTURES[machine]:
            assert decide(machine, 0, architecture=other) == KILLED


@pytest.mark.parametrize("machine", MACHINES)
def test_new_processes_may_not_be_in_new_namespaces(machine: str) -> None:
    clone = generate.CLONE[MACHINES.index(machine)]
    fork, thread = 0x01200011, 0x003D0F00
    assert decide(machine, clone, fork) == decide(machine, clone, thread) == ALLOWED
    for namespace in (17, 25, 26, 27, 28, 29, 30):
        assert decide(machine, clone, fork | 1 << namespace) == refused(errno.EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_sockets_are_local_or_of_the_internet(machine: str) -> None:
    socket = generate.SOCKET[MACHINES.index(machine)]
    unix, inet, inet6, netlink, stream = 1, 2, 10, 16, 1
    for family, protocol in ((unix, 0), (inet, 0), (inet, 6), (inet6, 17), (netlink, 0)):
        assert decide(machine, socket, family, stream, protocol) == ALLOWED
    others = [family for family in range(64) if family not in (unix, inet, inet6, netlink)]
    for family, protocol in ((inet, 132), (inet6, 33), (netlink, 9), *((f, 0) for f in others)):
        assert decide(machine, socket, family, stream, protocol) == refused(errno.EAFNOSUPPORT)
    pair = generate.SOCKETPAIR[MACHINES.index(machine)]
    assert decide(machine, pair, unix) == ALLOWED
    assert decide(machine, pair, 30) == refused(errno.EAFNOSUPPORT)


@pytest.mark.parametrize("machine", MACHINES)
def test_terminals_cannot_be_typed_into_nor_limits_of_others_changed(machine: str) -> None:
    column = MACHINES.index(machine)
    ioctl, prlimit = generate.IOCTL[column], generate.PRLIMIT64[column]
    size, steal = 0x5413, 0x5412
    assert decide(machine, ioctl, 0, size) == ALLOWED
    assert decide(machine, ioctl, 0, steal) == refused(errno.EPERM)
    assert decide(machine, ioctl, 0, 1 << 32 | steal) == refused(errno.EPERM)
    assert decide(machine, prlimit, 0, 7) == ALLOWED
    assert decide(machine, prlimit, 1, 7) == refused(errno.EPERM)


def test_this_machine_gets_its_own_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    assert seccomp.program() == _checked_in("aarch64")
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert seccomp.program() is None
