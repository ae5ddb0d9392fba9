"""Completions as broken as models write them: a reward function must survive all of them.

It neither raises nor returns another number of rewards than it got completions; which reward it
gives is its own affair.
"""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

Message = dict[str, object]
Completion = str | list[Message]

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Format:
    """A way to write a completion; ``completion(solution)`` builds it around a right solution.

    ``messages`` tells that it is a list of messages, for reward functions that take those.
    """

    name: str
    completion: Callable[[str], Completion]
    messages: bool = False


def malformed() -> list[Format]:
    return [*_TEXTS, *(Format(name, build, messages=True) for name, build in _MESSAGES.items())]


def _fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def _answer(code: str) -> str:
    return f"<answer>\n{code}\n</answer>"


def _tabs_and_spaces(code: str) -> str:
    """Every other indented line with a tab."""
    lines = code.splitlines()
    return "\n".join(
        line.replace("    ", "\t") if number % 2 else line for number, line in enumerate(lines)
    )


_TEXTS = [
    Format(name, build)
    for name, build in {
        # nothing to run
        "empty": lambda _: "",
        "whitespace": lambda _: " \n\t\r\n \f\v ",
        "newlines": lambda _: "\n" * 1000,
        "prose-only": lambda _: "I am sorry, but I cannot help with that.",
        "one-word": lambda _: "None",
        "empty-fence": lambda _: "```python\n```",
        "empty-answer": lambda _: "<answer></answer>",
        "only-thought": lambda code: f"<think>\n{code}\n",
        "other-language": lambda _: '```javascript\nconsole.log("hello")\n```',
        "json-object": lambda code: '{"code": ' + repr(code) + "}",
        # blocks and tags
        "several-blocks": lambda code: f"First:\n{_fenced('x = 1')}\nthen:\n{_fenced(code)}",
        "draft-after-answer": lambda code: f"{_answer(code)}\nor, shorter:\n{_fenced('pass')}",
        "unclosed-fence": lambda code: f"```python\n{code}",
        "unopened-fence": lambda code: f"{code}\n```",
        "unclosed-answer": lambda code: f"<answer>\n{code}",
        "unopened-answer": lambda code: f"{code}\n</answer>",
        "nested-answers": lambda code: _answer(_answer(code)),
        "nested-fences": lambda code: f"````markdown\n{_fenced(code)}\n````",
        "fence-in-string": lambda code: _fenced(f"{code}\nNOTE = '''\n```\n'''"),
        "tilde-fence": lambda code: f"~~~\n{code}\n~~~",
        "upper-case-tags": lambda code: f"<ANSWER>{code}</ANSWER>",
        "many-blocks": lambda code: (_fenced("pass") + "\n") * 1000 + _fenced(code),
        "many-open-tags": lambda code: "<answer>" * 10_000 + code,
        "many-open-fences": lambda code: "```python\n" * 5_000 + code,
        "cut-off": lambda code: f"```python\n{code[: len(code) // 2]}",
        # line ends and invisible characters
        "crlf": lambda code: _fenced(code).replace("\n", "\r\n"),
        "lone-cr": lambda code: _fenced(code).replace("\n", "\r"),
        "unicode-line-ends": lambda code: _fenced(code).replace("\n", "\u2028"),
        "byte-order-mark": lambda code: "\ufeff" + _fenced("\ufeff" + code),
        "nul": lambda code: _fenced(f"{code}\n# \0\n"),
        "control-characters": lambda code: _fenced(f"{code}\n# {''.join(map(chr, range(1, 32)))}"),
        "lone-surrogates": lambda code: _fenced(f"{code}\n# \ud800 \udfff\n"),
        "surrogates-in-prose": lambda code: f"\udc80\ud83d\n{_fenced(code)}",
        "zero-width-spaces": lambda code: _fenced(code.replace(" ", " \u200b")),
        "no-break-spaces": lambda code: _fenced(code.replace(" ", "\u00a0")),
        "tabs-and-spaces": lambda code: _fenced(_tabs_and_spaces(code)),
        "right-to-left-marks": lambda code: (
            "\u202e\u2067" + _fenced("# \u202e\n" + code) + "\u2069"
        ),
        "emoji": lambda code: "\U0001f468\u200d\U0001f469\n" + _fenced("# \N{ROCKET}\n" + code),
        "combining-marks": lambda code: "a" + "\u0301" * 10_000 + _fenced(code),
        # other writing
        "chinese": lambda code: "这是答案:\n" + _fenced("# 说明\n" + code),
        "arabic": lambda code: f"هذا هو الحل:\n{_fenced(code)}",
        "smart-quotes": lambda code: _fenced(code.replace('"', "\u201d").replace("'", "\u2019")),
        "full-width": lambda code: _fenced(code.replace("(", "\uff08").replace(")", "\uff09")),
        "html-escaped": lambda code: _fenced(html.escape(code + "\nx = 1 < 2 and 3 > 2")),
        "html-page": lambda code: f"<pre><code>{html.escape(code)}</code></pre>",
        "escaped-newlines": lambda code: _fenced(code.replace("\n", "\\n")),
        "doctest-prompt": lambda code: _fenced(">>> " + code.replace("\n", "\n... ")),
        # size and shape
        "megabyte-of-prose": lambda code: "word " * (MEGABYTE // 5) + _fenced(code),
        "megabyte-of-code": lambda code: _fenced(code + "\nx = 1" * (MEGABYTE // 6)),
        "megabyte-line": lambda code: _fenced(f"{code}\nX = '{'x' * MEGABYTE}'"),
        "megabyte-of-backticks": lambda code: "`" * MEGABYTE + code,
        "deep-brackets": lambda code: _fenced(f"{code}\nx = {'[' * 5_000}{']' * 5_000}"),
        "deep-operators": lambda code: _fenced(f"{code}\nx = {'-' * 20_000}1"),
        "deep-attributes": lambda code: _fenced(f"{code}\nx = lambda a: a{'.a' * 20_000}"),
        "huge-number": lambda code: _fenced(f"{code}\nx = {'9' * 10_000}"),
        "huge-power": lambda code: _fenced(f"{code}\nx = lambda: 9**9**9"),
    }.items()
]

_MESSAGES: dict[str, Callable[[str], Completion]] = {
    "no-messages": lambda _: [],
    "content-none": lambda _: [{"role": "assistant", "content": None}],
    "content-missing": lambda _: [{"role": "assistant"}],
    "content-empty": lambda _: [{"role": "assistant", "content": ""}],
    "content-empty-list": lambda _: [{"role": "assistant", "content": []}],
    "content-parts": lambda code: [
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Here it is:"},
                {"type": "text", "text": _fenced(code)},
            ],
        }
    ],
    "content-image": lambda code: [
        {
            "role": "assistant",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
                {"type": "text", "text": _fenced(code)},
            ],
        }
    ],
    "content-number": lambda _: [{"role": "assistant", "content": 1.0}],
    "tool-calls-only": lambda code: [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "submit", "arguments": code},
                }
            ],
        }
    ],
    "ends-with-tool": lambda code: [
        {"role": "assistant", "content": _fenced(code)},
        {"role": "tool", "tool_call_id": "call_1", "content": "exit code 0"},
    ],
    "ends-with-user": lambda code: [
        {"role": "assistant", "content": _fenced(code)},
        {"role": "user", "content": "Thank you!"},
    ],
    "several-assistant-turns": lambda code: [
        {"role": "assistant", "content": _fenced(code)},
        {"role": "assistant", "content": "Done."},
    ],
    "role-missing": lambda code: [{"content": _fenced(code)}],
    "surrogates-in-content": lambda code: [
        {"role": "assistant", "content": f"\ud800\n{_fenced(code)}"}
    ],
}
