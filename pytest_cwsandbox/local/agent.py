"""The agent: process 1 of every sandbox.

It runs on the image's interpreter inside all restrictions, starts the main process and commands,
opens files, reaps and kills; whatever it starts inherits the restrictions. The host talks to it
over an inherited SOCK_SEQPACKET socket and passes the ends of pipes along, so that no output flows
through here. Only modules written in C are imported: others cost more than the
interpreter's own start.

A frame is one letter, a 4-byte id, and fields separated by NUL (which nothing that reaches execve
can hold). From the host:
  +  the frame with this id goes on in the next one
  S  start the main process: data bytes, address space bytes, processes, directory, number of
     arguments, arguments, environment
  X  run a command on three descriptors: arguments
  T  run a command on a terminal of its own: columns, lines, arguments
  K  kill the command with this id and all its descendants
  Q  ask the main process to end
  R  open a file for reading: path
  W  open a file for writing: path
To the host:
  s  the main process runs            m  it ended: status
  e  a command ended: status          g  and so have all its descendants
  t  its terminal, as a descriptor
  f  a file, as a descriptor          !  an operation failed: errno
  d  the sandbox cannot go on: reason
"""

import _ctypes
import _signal  # type: ignore[import-not-found]  # typeshed leaves it out
import _socket
import errno
import posix
import resource
import select
import sys

FRAME = 1 << 16  # at most
MAIN = bytes(4)  # id of what concerns the main process
RTLD_NOW = 2
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
NOT_FOUND, NOT_EXECUTABLE = 127, 126  # a shell's exit codes
LOOK_AGAIN_SECONDS = 0.1  # for a process that was missed
# When memory runs out, the kernel takes a command first, then the main process, then the agent.
COMMAND_OOM_SCORE, MAIN_OOM_SCORE = b"800", b"400"
SUPERVISED = (_signal.SIGCHLD, _signal.SIGTERM)
end_process = posix._exit  # noqa: SLF001 - it has no other name
IGNORED_BY_PYTHON = (_signal.SIGPIPE, _signal.SIGXFSZ)


def main(sock: _socket.socket) -> None:
    """Serve the host until it hangs up; the end of process 1 ends everything in the sandbox."""
    oom_score = posix.open("/proc/self/oom_score_adj", posix.O_RDWR | posix.O_CLOEXEC)
    prctl(PR_SET_DUMPABLE, 0)  # no program may look into this process
    wakeup, wakeup_end = posix.pipe()
    posix.set_blocking(wakeup, False)
    posix.set_blocking(wakeup_end, False)
    _signal.set_wakeup_fd(wakeup_end)
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    for number in (_signal.SIGINT, _signal.SIGHUP):  # from inside, process 1 cannot be killed
        _signal.signal(number, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_BLOCK, (_signal.SIGTERM,))  # for the supervisors

    agent = Agent(sock, oom_score)
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    poll.register(wakeup, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd == wakeup:
                posix.read(wakeup, 4096)
                agent.reap()
            elif not agent.serve():
                end_process(0)  # at once: to tidy up the interpreter takes a millisecond


class Agent:
    def __init__(self, sock: _socket.socket, oom_score: int) -> None:
        self.sock = sock
        self.oom_score = oom_score
        self.own_score = posix.read(oom_score, 16)
        self.parts: dict[bytes, bytes] = {}  # beginnings of long frames, by id
        self.environment: dict[bytes, bytes] = {}
        self.main_pid = 0
        self.supervisors: dict[int, bytes] = {}  # process id to command id

    def serve(self) -> bool:
        """Handle one frame; False when the host has hung up."""
        frame, ancillary, _, _ = self.sock.recvmsg(FRAME, 256, _socket.MSG_CMSG_CLOEXEC)
        if not frame:
            return False
        fds = [
            int.from_bytes(data[i : i + 4], sys.byteorder)
            for _, _, data in ancillary
            for i in range(0, len(data), 4)
        ]
        letter, ident, payload = frame[:1], frame[1:5], frame[5:]
        if letter == b"+":
            self.parts[ident] = self.parts.get(ident, b"") + payload
            return True
        fields = (self.parts.pop(ident, b"") + payload).split(b"\0")
        try:
            self.handle(letter, ident, fields, fds)
        except OSError as error:
            self.tell(b"!", ident, b"%d" % (error.errno or errno.EIO))
        finally:
            for fd in fds:
                posix.close(fd)
        return True

    def handle(self, letter: bytes, ident: bytes, fields: list[bytes], fds: list[int]) -> None:
        """Do what a frame asks; ``fds`` are closed afterwards."""
        if letter == b"S":
            self.start(fields)
        elif letter in b"XT":
            self.run(ident, fds, fields, on_terminal=letter == b"T")
        elif letter == b"K":
            for pid, command in self.supervisors.items():
                if command == ident:
                    posix.kill(pid, _signal.SIGTERM)
        elif letter == b"Q" and self.main_pid:
            posix.kill(self.main_pid, _signal.SIGTERM)
        elif letter in b"RW":
            fds.append(open_regular(fields[0], for_writing=letter == b"W"))
            self.tell(b"f", ident, fd=fds[0])

    def tell(
        self, letter: bytes, ident: bytes = MAIN, payload: bytes = b"", fd: int | None = None
    ) -> None:
        rights = []
        if fd is not None:
            rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))]
        self.sock.sendmsg([letter + ident + payload], rights)

    def start(self, fields: list[bytes]) -> None:
        data, address_space, processes, directory, count = fields[:5]
        last = 5 + int(count)
        for name, text in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, data),
            (resource.RLIMIT_AS, address_space),
            (resource.RLIMIT_NPROC, processes),
        ):
            hard = resource.getrlimit(name)[1]
            limit = int(text)
            if limit >= 0 and (hard == resource.RLIM_INFINITY or limit < hard):
                resource.setrlimit(name, (limit, limit))
        for setting in fields[last:]:
            variable, _, value = setting.partition(b"=")
            self.environment[variable] = value
        posix.putenv(b"PATH", self.environment[b"PATH"])  # where posix_spawnp looks
        make_directories(directory)
        posix.chdir(directory)
        null = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
        posix.write(self.oom_score, MAIN_OOM_SCORE)
        try:
            self.main_pid = self.spawn(fields[5:last], [null] * 3)
        finally:
            posix.write(self.oom_score, self.own_score)
            posix.close(null)
        self.tell(b"s")

    def spawn(self, arguments: list[bytes], fds: list[int], terminal: str | None = None) -> int:
        """A process in a session of its own, on ``fds`` or on a terminal."""
        actions: list[tuple[object, ...]] = [
            (posix.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)
        ]
        if terminal is not None:  # the first terminal that a session opens controls it
            opening = (posix.POSIX_SPAWN_OPEN, 0, terminal, posix.O_RDWR, 0)
            actions = [opening, *((posix.POSIX_SPAWN_DUP2, 0, number) for number in (1, 2))]
        return posix.posix_spawnp(
            arguments[0],
            arguments,
            self.environment,
            file_actions=actions,
            setsid=True,
            setsigmask=(),
            setsigdef=IGNORED_BY_PYTHON,
        )

    def run(self, ident: bytes, fds: list[int], fields: list[bytes], *, on_terminal: bool) -> None:
        """Fork a supervisor for one command: adoptive parent of all its descendants."""
        posix.write(self.oom_score, COMMAND_OOM_SCORE)
        try:
            pid = posix.fork()
        except OSError as error:
            self.fail(ident, fds, b"cannot fork", error)
            self.tell(b"g", ident)
            return
        finally:
            posix.write(self.oom_score, self.own_score)
        if pid:
            self.supervisors[pid] = ident
            return
        try:
            self.supervise(ident, fds, fields, on_terminal=on_terminal)
            end_process(0)
        except BaseException:  # noqa: BLE001 - told to the host, which then ends the sandbox
            sys.excepthook(*sys.exc_info())
            end_process(1)

    def fail(self, ident: bytes, fds: list[int], what: bytes, error: OSError) -> None:
        """Report a command that did not start, as a shell would."""
        reason = str(error.strerror)
        code = NOT_EXECUTABLE
        if isinstance(error, FileNotFoundError):
            code = NOT_FOUND
            if b"/" not in what:
                reason = "command not found"
        if fds:
            posix.write(fds[-1], what[:4096] + b": " + reason.encode() + b"\n")
        self.tell(b"e", ident, b"%d" % code)

    def supervise(
        self, ident: bytes, fds: list[int], fields: list[bytes], *, on_terminal: bool
    ) -> None:
        """Runs in the fork: start the command, report its end, outlive its last descendant."""
        _signal.set_wakeup_fd(-1)
        _signal.pthread_sigmask(_signal.SIG_BLOCK, SUPERVISED)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        terminal = None
        if on_terminal:
            terminal = self.open_terminal(ident, fds, int(fields.pop(0)), int(fields.pop(0)))
        try:
            root = self.spawn(fields, fds, terminal)
        except OSError as error:
            self.fail(ident, fds, fields[0], error)
            return
        for fd in fds:
            posix.close(fd)
        left = True
        while left:
            killing = _signal.sigwait(SUPERVISED) == _signal.SIGTERM
            ended, left = kill_descendants() if killing else ended_children()
            for pid, status in ended:
                if pid == root:
                    self.tell(b"e", ident, b"%d" % exit_status(status))

    def open_terminal(self, ident: bytes, fds: list[int], columns: int, lines: int) -> str:
        """A new terminal of which the host gets the other side; its path."""
        import fcntl
        import termios

        master, slave = posix.openpty()
        fds += (master, slave)
        size = b"".join(number.to_bytes(2, sys.byteorder) for number in (lines, columns, 0, 0))
        fcntl.ioctl(master, termios.TIOCSWINSZ, size)
        self.tell(b"t", ident, fd=master)
        return posix.ttyname(slave)

    def reap(self) -> None:
        for pid, status in ended_children()[0]:
            if pid == self.main_pid:
                self.main_pid = 0
                self.tell(b"m", payload=b"%d" % exit_status(status))
            elif pid in self.supervisors:
                if status != 0:
                    self.tell(b"d", payload=b"a program killed what supervises it")
                    end_process(1)
                self.tell(b"g", self.supervisors.pop(pid))


def open_regular(path: bytes, *, for_writing: bool) -> int:
    """Open a file of the sandbox: no pipe, device, or view into a process (/proc)."""
    flags = posix.O_NONBLOCK | posix.O_NOCTTY | posix.O_CLOEXEC
    if for_writing:
        make_directories(path[: path.rindex(b"/")] or b"/")
        fd = posix.open(path, flags | posix.O_WRONLY | posix.O_CREAT, 0o644)
    else:
        fd = posix.open(path, flags | posix.O_RDONLY)
    status = posix.fstat(fd)
    kind = status.st_mode & 0o170000
    if kind == 0o100000 and status.st_dev != posix.stat("/proc").st_dev:
        if for_writing:
            posix.ftruncate(fd, 0)
        return fd
    posix.close(fd)
    code = errno.EISDIR if kind == 0o040000 else errno.EINVAL
    raise OSError(code, "not a regular file")


def make_directories(path: bytes) -> None:
    try:
        posix.mkdir(path, 0o755)
    except FileExistsError:
        return
    except FileNotFoundError:
        make_directories(path[: path.rindex(b"/")])
        posix.mkdir(path, 0o755)


def prctl(option: int, value: int) -> None:
    program = _ctypes.dlopen(None, RTLD_NOW)  # type: ignore[arg-type]  # None is the program
    function = _ctypes.dlsym(program, "prctl")
    if _ctypes.call_function(function, (option, value, 0, 0, 0)) != 0:
        raise OSError(errno.EINVAL, "prctl")


def exit_status(status: int) -> int:
    code = posix.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def ended_children() -> tuple[list[tuple[int, int]], bool]:
    """Collect the children that have ended; also, whether there are others."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = posix.waitpid(-1, posix.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended.append((pid, status))


def kill_descendants() -> tuple[list[tuple[int, int]], bool]:
    """Kill and collect all: what a killed process leaves behind becomes a child of this one.

    First all are stopped: a tree that is full of forks cannot grow meanwhile, as it would into the
    room that the killed ones make.
    """
    ended: list[tuple[int, int]] = []
    while True:
        stopped: set[int] = set()
        while found := {*descendants()} - stopped:
            signal_each(found, _signal.SIGSTOP)
            stopped |= found
        signal_each(stopped, _signal.SIGKILL)
        while True:
            more, left = ended_children()
            ended += more
            if not left:
                return ended, False
            if not more and _signal.sigtimedwait((_signal.SIGCHLD,), LOOK_AGAIN_SECONDS) is None:
                break


def signal_each(pids: set[int], signal: int) -> None:
    for pid in pids:
        try:  # noqa: SIM105 - contextlib is in Python
            posix.kill(pid, signal)
        except ProcessLookupError:
            pass


def descendants() -> list[int]:
    """The processes below this one, as /proc shows them now."""
    children: dict[int, list[int]] = {}
    for name in posix.listdir("/proc"):
        if name.isdigit():
            try:
                fd = posix.open("/proc/" + name + "/stat", posix.O_RDONLY | posix.O_CLOEXEC)
            except FileNotFoundError:
                continue
            try:
                # The command's name stands in parentheses and may hold anything.
                parent = posix.read(fd, 4096).rpartition(b")")[2].split()[1]
                children.setdefault(int(parent), []).append(int(name))
            except ProcessLookupError:
                pass
            finally:
                posix.close(fd)
    found: list[int] = []
    unseen = [posix.getpid()]
    while unseen:
        below = children.get(unseen.pop(), ())
        found += below
        unseen += below
    return found


channel = int(sys.argv[1])
posix.set_inheritable(channel, False)  # no program gets it
main(_socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, channel))
