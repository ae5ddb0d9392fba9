"""Runs inside a sandbox, after ``literals.py``: many programs on many calls, forked one by one.

Reads ``[seconds, patience, [[imports, code, setup, [call, ...]], ...]]`` as JSON from the file that
its argument names; prints ``[[[kind, text], ...], ...]``. Programs are not hostile here, but they
loop for ever, recurse, eat memory and crash. Each runs in a child of its own that is replaced when
it dies; CPU time is what counts, so that a busy machine makes nothing look slow.
"""

# mypy: ignore-errors
# Not part of the program here, but text that a sandbox's python of any version runs: one namespace
# with literals.py, no types, broad excepts because a program may raise anything.
# ruff: noqa: ANN001, ANN201, BLE001, F821, PTH123, S102, S307, T201

import json
import os
import resource
import select
import signal
import sys
import types

MEMORY_BYTES = 512 << 20
TEXT_CHARACTERS = 10_000


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        seconds, patience, programs = json.load(file)
    print(json.dumps([answers_of(program, seconds, patience) for program in programs]))


def answers_of(program, seconds, patience):
    *sources, calls = program
    answers = []
    while len(answers) < len(calls):
        if sum(kind == "timeout" for kind, _ in answers) >= patience:
            return answers + [["skipped", ""]] * (len(calls) - len(answers))
        answers += in_child(sources, calls[len(answers) :], seconds)
    return answers


def in_child(sources, calls, seconds):
    """Answers to the first calls, the last one that of a child that died over it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        evaluate(sources, calls, seconds, writing)
    os.close(writing)
    received = b""
    overdue = False
    while received.count(b"\n") < len(calls) and not overdue:
        if select.select([reading], [], [], 5 + 10 * seconds)[0]:
            if not (chunk := os.read(reading, 1 << 16)):
                break
            received += chunk
        else:
            overdue = not is_running(child)  # what computes is ended by SIGPROF
    os.close(reading)
    if overdue:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    answers = [json.loads(line) for line in received.split(b"\n")[:-1]]
    if len(answers) < len(calls):
        late = overdue or status == -signal.SIGPROF
        answers.append(["timeout", ""] if late else ["died", str(status)])
    return answers


def is_running(pid):
    with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
        return file.read().rpartition(")")[2].split()[0] == "R"


def evaluate(sources, calls, seconds, channel):
    """The child's whole life: one line of JSON for every call."""
    null = os.open(os.devnull, os.O_RDWR)
    for stream in 0, 1, 2:
        os.dup2(null, stream)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)  # ends what no exception would
    signal.setitimer(signal.ITIMER_PROF, seconds)
    module = types.ModuleType("solution")
    sys.modules["solution"] = module  # dataclasses, pickle and typing look their module up
    broken = None
    try:
        for source_text in sources:
            exec(source_text, module.__dict__)
    except BaseException as error:
        broken = ["error", type(error).__name__]
    for call in calls:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        line = json.dumps(broken or answer(call, module.__dict__)).encode() + b"\n"
        while line:
            line = line[os.write(channel, line) :]
    os._exit(0)


def answer(call, scope):
    try:
        value = eval(call, scope)
    except BaseException as error:
        return ["error", type(error).__name__]
    try:
        text = source(value)
    except BaseException:
        text = None
    if text is None or len(text) > TEXT_CHARACTERS:
        return ["other", type(value).__name__]
    return ["value", text]


main()
