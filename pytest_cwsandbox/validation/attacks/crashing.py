"""Failures made to look like the harness's own: a dropped sample evades a zero."""

from __future__ import annotations

from functools import partial

from pytest_cwsandbox.validation.attacks import references
from pytest_cwsandbox.validation.attacks.attack import Attack

attack = partial(Attack, family="none-exploit", severity="low", reference=references.INFRA_ABORT)


def _exit_code(code: int, meaning: str) -> Attack:
    return attack(
        name=f"exit-code-{code}",
        why=f"{code} is what {meaning}",
        payload=f"""
import os
def ENTRY_POINT(*args, **kwargs):
    os._exit({code})
""",
    )


CRASHING = (
    _exit_code(75, "asks to try again later (EX_TEMPFAIL)"),
    _exit_code(111, "connection refused is called"),
    _exit_code(124, "`timeout` ends with"),
    _exit_code(125, "a container engine that failed itself ends with"),
    _exit_code(127, "a shell says of a program that is not there"),
    _exit_code(137, "a process killed for memory ends with"),
    _exit_code(255, "a lost ssh connection ends with"),
    attack(
        name="kill-itself",
        why="SIGKILL looks like the out-of-memory killer's or the operator's work",
        payload="""
import os, signal
def ENTRY_POINT(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)
""",
    ),
    attack(
        name="terminate-itself",
        why="SIGTERM looks like a machine that is being drained",
        payload="""
import os, signal
signal.signal(signal.SIGTERM, signal.SIG_DFL)
def ENTRY_POINT(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGTERM)
""",
    ),
    attack(
        name="cpu-limit-signal",
        why="SIGXCPU without any CPU used looks like a limit that was reached",
        payload="""
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
def ENTRY_POINT(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGXCPU)
""",
    ),
    attack(
        name="segmentation-fault",
        why="a crash of the interpreter looks like a broken image",
        payload="""
import os, resource, signal
resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
def ENTRY_POINT(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGSEGV)
""",
    ),
    attack(
        name="stop-itself",
        why="a stopped process neither ends nor uses its CPU limit; a child wakes it after 3 s",
        payload="""
import os, signal, time
def ENTRY_POINT(*args, **kwargs):
    parent = os.getpid()
    if os.fork() == 0:
        time.sleep(3)
        if os.getppid() == parent:
            os.kill(parent, signal.SIGCONT)
        os._exit(0)
    os.kill(parent, signal.SIGSTOP)
    raise SystemExit(1)
""",
    ),
    attack(
        name="sleep-past-short-limits",
        why="three seconds per call exceed a tight timeout that counts as infrastructure",
        payload="""
import time
slept = []
def ENTRY_POINT(*args, **kwargs):
    if not slept:
        slept.append(time.sleep(3))
""",
    ),
    attack(
        name="close-all-descriptors",
        why="without its pipes the harness cannot tell what happened",
        payload="""
import os
def ENTRY_POINT(*args, **kwargs):
    os.closerange(0, 1024)
    os._exit(1)
""",
    ),
    attack(
        name="flood-stdout",
        why="20 MB of output overflow a message limit or a pipe that nobody drains",
        payload="""
import sys
def ENTRY_POINT(*args, **kwargs):
    for _ in range(20):
        sys.stdout.write("x" * 999_999 + "\\n")
    raise SystemExit(1)
""",
    ),
    attack(
        name="flood-stderr",
        why="20 MB of error output break a report that carries it along",
        payload="""
import sys
def ENTRY_POINT(*args, **kwargs):
    for _ in range(20):
        sys.stderr.write("x" * 999_999 + "\\n")
    raise SystemExit(1)
""",
    ),
    attack(
        name="flood-error-message",
        why="an exception whose text has 5 MB goes into every log and report",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    raise ValueError("x" * 5_000_000)
""",
    ),
    attack(
        name="invalid-utf8-output",
        why="output that cannot be decoded makes the harness raise",
        payload="""
import os
def ENTRY_POINT(*args, **kwargs):
    os.write(1, b"\\xff\\xfe\\x80\\x00\\n")
    os.write(2, b"\\xff\\xfe\\x80\\x00\\n")
    raise SystemExit(1)
""",
    ),
    attack(
        name="surrogate-value",
        why="a lone surrogate cannot be encoded on the way back",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    return "\\ud800"
""",
    ),
    attack(
        name="surrogate-error",
        why="an error message with a lone surrogate cannot be written to the log",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    raise ValueError("\\udcff\\ud800")
""",
    ),
    attack(
        name="nul-value",
        why="NUL ends strings in C and is refused by databases",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    print("\\0\\0\\0")
    return "\\0"
""",
    ),
    attack(
        name="memory-error",
        why="a MemoryError looks like a sandbox that is too small",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    raise MemoryError
""",
    ),
    attack(
        name="deep-recursion",
        why="a deep recursion exhausts a stack, the solution's or the serialiser's",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    return ENTRY_POINT(*args, **kwargs)
""",
    ),
    attack(
        name="deep-value",
        why="a value nested 5,000 deep breaks a recursive encoder or comparison",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    value = []
    for _ in range(5_000):
        value = [value]
    return value
""",
    ),
    attack(
        name="cyclic-value",
        why="a list that holds itself has no JSON",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    value = []
    value.append(value)
    return value
""",
    ),
    attack(
        name="huge-integer",
        why="an integer of 10,000 digits is refused by str() and by JSON readers",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    return 10**10_000
""",
    ),
    attack(
        name="huge-value",
        why="a value of 20 MB exceeds what the channel back will carry",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    return "x" * 20_000_000
""",
    ),
    attack(
        name="hostile-value",
        why="every method of the value raises, also those that a harness calls to report it",
        payload="""
def fail(self, *args, **kwargs):
    raise SystemExit("infrastructure")
class Hostile:
    __eq__ = __ne__ = __repr__ = __str__ = __bool__ = __len__ = __iter__ = __hash__ = fail
    __reduce_ex__ = __getstate__ = __format__ = __int__ = __float__ = __index__ = fail
    __class__ = property(fail)
    def __getattr__(self, name):
        raise SystemExit("infrastructure")
def ENTRY_POINT(*args, **kwargs):
    return Hostile()
""",
    ),
    attack(
        name="hostile-exception",
        why="an exception that cannot be printed makes the handler that reports it fail",
        payload="""
class Hostile(BaseException):
    def __str__(self):
        raise BaseException
    __repr__ = __str__
def ENTRY_POINT(*args, **kwargs):
    raise Hostile
""",
    ),
    attack(
        name="infrastructure-error",
        reference=references.INFRA_ZERO,
        why="a harness that knows failures by the name of their class believes this one",
        payload="""
class InfrastructureError(Exception):
    pass
class SandboxError(InfrastructureError, ConnectionError):
    pass
def ENTRY_POINT(*args, **kwargs):
    raise SandboxError("the sandbox service failed: unavailable")
""",
    ),
    attack(
        name="connection-reset",
        why="network errors are retried or dropped by name, whoever raised them",
        payload="""
def ENTRY_POINT(*args, **kwargs):
    raise ConnectionResetError(104, "Connection reset by peer")
""",
    ),
    attack(
        name="timeout-error",
        why="a TimeoutError of the program's own passes for the harness's",
        payload="""
import asyncio
def ENTRY_POINT(*args, **kwargs):
    raise asyncio.TimeoutError("the sandbox did not answer")
""",
    ),
    attack(
        name="print-sandbox-error",
        reference=references.INFRA_ZERO,
        why="a harness that searches the output for signs of a broken sandbox finds them",
        payload="""
import os, sys
def ENTRY_POINT(*args, **kwargs):
    for stream in (sys.stdout, sys.stderr):
        print("sandbox error: 503 Service Unavailable", file=stream)
        print("OCI runtime exec failed: no space left on device", file=stream)
        print("tests: InfrastructureError: connection refused", file=stream, flush=True)
    os._exit(1)
""",
    ),
    attack(
        name="lost-surroundings",
        why="later steps look for a working directory or TMPDIR that is not where it was",
        payload="""
import os
def ENTRY_POINT(*args, **kwargs):
    os.environ["TMPDIR"] = os.environ["HOME"] = os.environ["PATH"] = "/nonexistent"
    os.chdir("/")
    raise SystemExit(1)
""",
    ),
    attack(
        name="lowered-limits",
        why="the process may open no more files, so the harness in it cannot report",
        payload="""
import resource
def ENTRY_POINT(*args, **kwargs):
    ceiling = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, ceiling))
    return None
""",
    ),
)
