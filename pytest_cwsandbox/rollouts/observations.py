"""What a model is told of what it did."""

from __future__ import annotations

CHARACTERS = 8192


def observation(text: str) -> str:
    """At most ``CHARACTERS`` of it, the middle left out, and nothing that is no valid text."""
    if len(text) > CHARACTERS:
        text = _cut(text)
    return text.encode("utf-8", "replace").decode()


def of_run(returncode: int, stdout: str, stderr: str) -> str:
    """How a command ended and what it wrote."""
    return f"exit={returncode}\n{of_streams(stdout, stderr)}"


def of_streams(stdout: str, stderr: str) -> str:
    if not (stdout and stderr):
        return stdout or stderr
    return f"--- stdout ---\n{stdout.removesuffix(chr(10))}\n--- stderr ---\n{stderr}"


def _cut(text: str) -> str:
    room = CHARACTERS - len(_marker(len(text)))
    head = room - room // 2
    tail = room // 2
    marker = _marker(len(text) - head - tail)
    return text[:head] + marker + text[-tail:]


def _marker(left_out: int) -> str:
    return f"\n[... {left_out} characters left out ...]\n"
