"""The usual ways in which models wrap right code."""

from __future__ import annotations

from collections.abc import Callable

from pytest_cwsandbox.rewards.columns import Completion

Wrap = Callable[[str], Completion]


def answer(code: str) -> str:
    """The form that the guide's prompt asks for."""
    return f"<answer>\n{code}\n</answer>"


def message(text: str) -> Completion:
    """The conversational form of a completion."""
    return [{"role": "assistant", "content": text}]


# By name. Every one holds the answer tag or a fence: what a reward must understand.
WRAPPINGS: dict[str, Wrap] = {
    "answer tag": answer,
    "answer tag on one line": lambda code: f"<answer>{code}</answer>",
    "fence": lambda code: f"```python\n{code}\n```",
    "fence in answer tag": lambda code: answer(f"```python\n{code}\n```"),
    "prose around": lambda code: f"Let me think.\n\n{answer(code)}\n\nThis works.",
    "CRLF": lambda code: answer(code).replace("\n", "\r\n"),
    "message": lambda code: message(answer(code)),
    "message with prose": lambda code: message(f"Sure, here it is:\n{answer(code)}\nDone."),
}
