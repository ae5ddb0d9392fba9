# ruff: noqa: E501 - programs on one line

from __future__ import annotations

import time

import pytest

from pytest_cwsandbox.grading import extract_code

GOOD = "def add(a, b):\n    return a + b\n"


@pytest.mark.parametrize(
    "completion",
    [
        pytest.param(GOOD, id="bare"),
        pytest.param(f"~~~python\n{GOOD}~~~", id="tildes"),
        pytest.param(f"````\n{GOOD}````", id="four backticks"),
        pytest.param(f"``` {{.python .numberLines}}\n{GOOD}```", id="attributes"),
        pytest.param(f"The code: ```py\n{GOOD}```", id="fence after prose"),
        pytest.param("```\ndef add(a, b):\n    return a + b```", id="fence at the end of a line"),
        pytest.param(
            "1. So:\n   ```\n   def add(a, b):\n       return a + b\n   ```", id="in a list"
        ),
        pytest.param(f"<think>```\ndef add(a, b): 0\n```</think>{GOOD}", id="draft in a thought"),
        pytest.param(f"<think>maybe</think>\n```\n{GOOD}```", id="answer after a thought"),
        pytest.param(f"I use <answer> tags.\n```\n{GOOD}```", id="mention of a tag"),
        pytest.param(f"```\n{GOOD}```\n<answer>See above.</answer>", id="code outside the answer"),
        pytest.param(
            f"```\ndef add(a, b): 0\n```\n<ANSWER>{GOOD}</ANSWER>", id="answer beats fence"
        ),
        pytest.param(f"<answer>{GOOD}</answer>\n```\nadd(1, 2)\n```", id="demo after the answer"),
        pytest.param(
            f"```bash\npip install x\n```\n```\n{GOOD}```\n```\n3\n```", id="other blocks"
        ),
        pytest.param(
            f"```\nclass A:\n    def add(self): 0\n{GOOD}```\n```\nclass B:\n    def add(self): 0\n```",
            id="a method of the name",
        ),
        pytest.param(
            '```\ndef add(a, b):\n    """So:\n    ```\n    add(1, 2)\n    ```\n    """\n    return a + b\n```',
            id="fences in the docstring",
        ),
        pytest.param(f'<answer type="code">{GOOD}</answer>', id="tag with attributes"),
        pytest.param(f"\ufeff```\r\n{GOOD}```", id="mark"),
    ],
)
def test_the_answer_is_found(completion: str) -> None:
    code = extract_code(completion, "add")
    assert code is not None
    scope: dict[str, object] = {}
    exec(code, scope)  # noqa: S102 - the completions above
    assert scope["add"](1, 2) == 3  # type: ignore[operator]  # it is the function


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("async def f(): ...", "f"),
        ("class F: ...", "F"),
        ("f = lambda: 0", "f"),
        ("f: Callable = print", "f"),
        ("from math import gcd as f", "f"),
        ("@cache\ndef f(): ...", "f"),
        ("def f(): pass", "f"),
        ("import math; f = math.gcd", "f"),
        ("import operator as f", "f"),
    ],
)
def test_code_without_marks_counts_if_it_defines_the_entry_point(code: str, name: str) -> None:
    assert extract_code(code, name) == code
    assert extract_code(code, name + "x") is None


@pytest.mark.parametrize(
    "completion",
    ["", "  \n", "Sorry", "yes", "None", "add", "add is easy: a + b", "```\n```", "add(1, 2)"],
)
def test_a_text_without_code_is_no_answer(completion: str) -> None:
    assert extract_code(completion, "add") is None


def test_code_without_the_entry_point_is_still_code() -> None:
    assert extract_code("```\ndef Add(): ...\n```", "add") == "def Add(): ...\n"


@pytest.mark.parametrize(
    "part",
    [
        "```\n",
        "`",
        "~",
        "<answer>",
        "```x\n~~~\n",
        "from import ",
        "add:",
        "def ",
        " ",
        "\n",
        "<think>",
        "<answer>```\n",
        "</think>",
        "\t\n",
        "add;",
        ";add:",
        "; ",
        "import as ",
        "import as\n",
    ],
)
def test_a_hostile_text_takes_no_time(part: str) -> None:
    text = part * (1_000_000 // len(part))
    started = time.process_time()
    extract_code(text, "add")
    assert time.process_time() - started < 20  # quadratic would take hours
