"""Runs inside the sandbox, in front of ``worker.py`` and the others: arguments, limits, the result.

Started anew for every grade, so it is small and imports C-level modules only. What it needs is
bound before the graded program runs; builtins are a private copy that the program cannot patch.
"""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with guard.py, no types, broad excepts because a hostile program raises what it likes.
# ruff: noqa: ANN001, ANN201, ANN202, ARG001, PLW2901, PTH123, SLF001

import builtins
import posix
import resource
import sys
from _signal import ITIMER_REAL, SIGALRM, setitimer, signal
from time import monotonic

# The interpreter starts without site, for speed; these are what site would have given a program.
builtins.exit = builtins.quit = sys.exit
sys.path[:] = [path for path in sys.path if path]
sys.path.append(sys.prefix + "/lib/python{}.{}/site-packages".format(*sys.version_info))
__builtins__ = dict(vars(builtins))

OUTPUT_BYTES = 16 << 20


def arguments():
    """What follows the source on the command line, or in the file that is named there."""
    kind, *given = sys.argv[1:]
    sys.argv[1:] = []
    if kind == "-":
        return given
    with open(kind, encoding="utf-8", errors="surrogatepass", newline="") as file:
        lengths, _, text = file.read().partition("\n")
    posix.unlink(kind)
    cut = 0
    for length in lengths.split():
        given.append(text[cut : (cut := cut + int(length))])
    return given


def limit(cpu, wall, memory, expire):
    """Set hard limits, and call ``expire`` after ``wall`` seconds that had a CPU to offer.

    SIGXCPU ends the program at its CPU limit, SIGKILL if it ignores that.
    """
    cpu, memory, wall = int(cpu), int(memory), float(wall)
    for kind, soft, hard in (
        (resource.RLIMIT_CPU, cpu, cpu + 1),
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_STACK, 64 << 20, -1),  # deep recursion in C is honest
    ):
        ceiling = resource.getrlimit(kind)[1]
        if ceiling >= 0:
            hard = ceiling if hard < 0 else min(hard, ceiling)
            soft = min(soft, hard)
        resource.setrlimit(kind, (soft, hard))

    def waited():
        try:
            file = posix.open("/proc/self/schedstat", posix.O_RDONLY)
        except OSError:
            return 0
        nanoseconds = read(file, 99).split()[1]
        close(file)
        return int(nanoseconds) / 1e9

    def check(signum, frame):
        left = end + waited() - monotonic()
        if left > 0:
            setitimer(ITIMER_REAL, left, 1)
        else:
            expire()

    read, close = posix.read, posix.close
    end = monotonic() + wall - waited()
    signal(SIGALRM, check)
    setitimer(ITIMER_REAL, wall, 1)


def detach():
    """Give the program /dev/null for its streams; the function sends the result and ends."""
    # Out of the way of programs that close or count their descriptors.
    channel = min(1000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 1)
    posix.dup2(1, channel, False)
    null = posix.open("/dev/null", posix.O_RDWR)
    for stream in 0, 1, 2:
        posix.dup2(null, stream)
    posix.close(null)
    getpid, write, leave = posix.getpid, posix.write, posix._exit
    pid = getpid()
    write(channel, b"=")  # from here on the program may have a hand in what is said

    def finish(result):
        setitimer(ITIMER_REAL, 0)
        data = result.encode("utf-8", "surrogatepass")
        data = data if len(data) <= OUTPUT_BYTES else b"O0:"
        rest = memoryview(data.hex("\n", 1 << 17).encode())  # logs are lines of text
        while rest and getpid() == pid:  # a forked copy has nothing to say
            rest = rest[write(channel, rest) :]
        leave(0)  # at once: no exit handler and no thread comes after

    return finish
