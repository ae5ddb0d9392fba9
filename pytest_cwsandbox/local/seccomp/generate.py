"""The source of the filters: ``python -m pytest_cwsandbox.local.seccomp.generate`` writes them.

A deny list. Programs in a sandbox have no capabilities anyway; the filter takes away what needs
none and reaches past the namespaces (sockets of kernel subsystems that know no network namespace),
what undoes the isolation (namespaces, mounts, other processes' memory and limits), and rarely used
parts of the kernel that have been exploited before.
"""

from __future__ import annotations

import errno
import struct
from dataclasses import dataclass, field
from pathlib import Path

# name: (number on x86_64, number on aarch64)
FORBIDDEN: dict[str, tuple[int | None, int | None]] = {
    "_sysctl": (156, None),
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "get_kernel_syms": (177, None),
    "init_module": (175, 105),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "mbind": (237, 235),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "query_module": (178, None),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "set_mempolicy_home_node": (450, 450),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
    "vmsplice": (278, 75),
}
# As if the kernel were older: programs then fall back to calls that can be checked.
ABSENT: dict[str, tuple[int | None, int | None]] = {
    "clone3": (435, 435),  # its flags are in memory, out of a filter's sight
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
}
NEWEST_KNOWN = 462  # mseal; what came later is absent, and so is x86_64's x32 variant of each call

CLONE, IOCTL, PRLIMIT64, SOCKET, SOCKETPAIR = (56, 220), (16, 29), (302, 261), (41, 198), (53, 199)
NAMESPACES = 0x7E020000  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
TIOCSTI, TIOCLINUX = 0x5412, 0x541C  # type into, or paste from, a terminal
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE = 0
INTERNET_PROTOCOLS = (0, 6, 17)  # default, TCP, UDP: others load kernel modules

AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

LOAD, RETURN = 0x20, 0x06
JUMP_EQUAL, JUMP_AT_LEAST, JUMP_ANY_BIT = 0x15, 0x35, 0x45
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
LABELS = {
    "allow": ALLOW,
    "kill": KILL_PROCESS,
    "forbidden": ERRNO | errno.EPERM,
    "absent": ERRNO | errno.ENOSYS,
    "family": ERRNO | errno.EAFNOSUPPORT,
}


@dataclass
class Program:
    """Instructions whose jumps name labels; a jump that is not taken goes on to the next."""

    code: list[tuple[int, int, str]] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def load(self, offset: int) -> None:
        self.code.append((LOAD, offset, ""))

    def argument(self, index: int) -> None:
        """Load the lower half of an argument, all that the kernel looks at in an int."""
        self.load(ARGUMENTS + 8 * index)

    def jump(self, test: int, value: int, label: str) -> None:
        self.code.append((test, value, label))

    def go(self, label: str) -> None:
        """Jump in any case: everything is at least 0."""
        self.jump(JUMP_AT_LEAST, 0, label)

    def mark(self, label: str) -> None:
        self.labels[label] = len(self.code)

    def assemble(self) -> bytes:
        for label, value in LABELS.items():
            self.mark(label)
            self.code.append((RETURN, value, ""))
        return b"".join(
            struct.pack("<HBBI", code, self.labels[label] - position - 1 if label else 0, 0, value)
            for position, (code, value, label) in enumerate(self.code)
        )


def generate(machine: str) -> bytes:
    """The filter of one architecture as an array of ``struct sock_filter``."""
    column = ("x86_64", "aarch64").index(machine)
    program = Program()
    program.load(ARCHITECTURE)
    program.jump(JUMP_EQUAL, AUDIT_ARCHITECTURES[machine], "known")
    program.go("kill")
    program.mark("known")
    program.load(NUMBER)
    program.jump(JUMP_AT_LEAST, NEWEST_KNOWN + 1, "absent")
    for calls, label in ((ABSENT, "absent"), (FORBIDDEN, "forbidden")):
        for numbers in calls.values():
            number = numbers[column]
            if number is not None:
                program.jump(JUMP_EQUAL, number, label)
    for numbers, label in (
        (CLONE, "clone"),
        (IOCTL, "ioctl"),
        (PRLIMIT64, "prlimit64"),
        (SOCKET, "socket"),
        (SOCKETPAIR, "socketpair"),
    ):
        program.jump(JUMP_EQUAL, numbers[column], label)
    program.go("allow")

    program.mark("clone")
    program.argument(0)
    program.jump(JUMP_ANY_BIT, NAMESPACES, "forbidden")
    program.go("allow")

    program.mark("ioctl")
    program.argument(1)
    program.jump(JUMP_EQUAL, TIOCSTI, "forbidden")
    program.jump(JUMP_EQUAL, TIOCLINUX, "forbidden")
    program.go("allow")

    program.mark("prlimit64")  # another process's, such as the agent's
    program.argument(0)
    program.jump(JUMP_EQUAL, 0, "allow")
    program.go("forbidden")

    program.mark("socketpair")
    program.argument(0)
    program.jump(JUMP_EQUAL, AF_UNIX, "allow")
    program.go("family")

    program.mark("socket")
    program.argument(0)
    program.jump(JUMP_EQUAL, AF_UNIX, "allow")
    program.jump(JUMP_EQUAL, AF_INET, "internet")
    program.jump(JUMP_EQUAL, AF_INET6, "internet")
    program.jump(JUMP_EQUAL, AF_NETLINK, "netlink")
    program.go("family")
    program.mark("internet")
    program.argument(2)
    for protocol in INTERNET_PROTOCOLS:
        program.jump(JUMP_EQUAL, protocol, "allow")
    program.go("family")
    program.mark("netlink")
    program.argument(2)
    program.jump(JUMP_EQUAL, NETLINK_ROUTE, "allow")
    program.go("family")
    return program.assemble()


if __name__ == "__main__":
    for machine in AUDIT_ARCHITECTURES:
        Path(__file__).with_name(f"{machine}.bpf").write_bytes(generate(machine))
