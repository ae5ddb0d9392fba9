"""What is a secret is hidden, and nothing else is."""

from __future__ import annotations

import json
import time
import timeit

import pytest

from pytest_cwsandbox.runs import redaction
from pytest_cwsandbox.runs.redaction import hide, is_secret_name, redact, redact_command, redacted

PLANTED = "kq8Zr2-planted-Wm41"


@pytest.fixture(autouse=True)
def _forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What one test hides is no secret of the next."""
    told: set[str] = set()
    monkeypatch.setattr(redaction, "_TOLD", told)
    monkeypatch.setattr(redaction, "_KNOWN", redaction._Known(told))


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "hf_token",
        "accessToken",
        "AWS_SECRET_ACCESS_KEY",
        "AZURE_KEY",
        "key",
        "DB_PASSWORD",
        "DB_PWD",
        "Authorization",
        "auth_tokens",
        "--api-key",
    ],
)
def test_a_secret_has_a_name_like_one(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "--cwsandbox-max-total-tokens", "TOKENIZERS_PARALLELISM", "PWD", "OLDPWD",
     "monkey", "top_k", "keyboard"],
)  # fmt: skip
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_a_variable_that_is_set_later_is_hidden_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert redact(PLANTED) == PLANTED
    monkeypatch.setenv("MY_API_KEY", PLANTED)
    assert redact(f"a {PLANTED} b {PLANTED}") == "a [redacted] b [redacted]"
    monkeypatch.delenv("MY_API_KEY")
    assert redact(PLANTED) == PLANTED


@pytest.mark.parametrize(
    "secret", ['qu"ote\\and more', "umlauts äöü and é", "two\nlines of secret", "tab\tand <tags>&"]
)
def test_a_secret_is_hidden_in_every_form_that_texts_have(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("MY_SECRET", secret)
    call = {"arguments": json.dumps({"code": f"print({secret!r})", "raw": secret})}
    line = json.dumps({"detail": secret, "call": call, "deep": json.dumps(call)})
    hidden = json.loads(redact(line))
    assert hidden["detail"] == "[redacted]"
    inner = json.loads(hidden["call"]["arguments"])
    assert inner["raw"] == "[redacted]"
    assert inner["code"] in {"print('[redacted]')", 'print("[redacted]")'}
    assert json.loads(json.loads(hidden["deep"])["arguments"])["raw"] == "[redacted]"


def test_each_line_of_a_private_key_is_hidden_where_a_traceback_indents_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [f"MIIEvQIBADANBgkqhkiG9w0{n}" for n in range(3)]
    monkeypatch.setenv("SIGNING_KEY", "\n".join(lines))
    shown = redact("\n".join(f"E     {line}" for line in lines))
    assert shown == "\n".join(["E     [redacted]"] * 3)


def test_of_secrets_that_overlap_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE_TOKEN", "abcdefgh1234")
    monkeypatch.setenv("TWO_TOKEN", "gh1234zyxwvu")
    monkeypatch.setenv("SUB_TOKEN", "cdefgh12")
    assert redact("<abcdefgh1234zyxwvu>") == "<[redacted]>"
    assert redact("<abcdefgh1234>gh1234zyxwvu") == "<[redacted]>[redacted]"


def test_parts_of_a_secret_are_hidden_where_pytest_left_out_the_middle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SECRET", PLANTED)
    shown = f"{{'given': '{PLANTED[:9]}...{PLANTED[-12:]}'}} but ...and so on..."
    assert redact(shown) == "{'given': '[redacted]...[redacted]'} but ...and so on..."


def test_numbers_and_short_values_survive(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"A_TOKEN": "1", "B_KEY": "local", "C_SECRET": "12345678"}.items():
        monkeypatch.setenv(name, value)
    row = json.dumps({"max_tokens": 12345678, "sample": 1, "backend": "local"})
    assert redact(row) == row


@pytest.mark.parametrize("secret", ["held_out", "nabcdefgh", "abcdefgh\\", "uabcd1234"])
def test_what_was_json_stays_json(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("MY_SECRET", secret)
    row = {"held_out": 'abcdefgh"', "text": "\nabcdefgh \uabcd1234", "end": "abcdefgh\n"}
    hidden = json.loads(redact(json.dumps(row)))
    assert hidden.keys() == row.keys()
    assert hidden["text"].startswith("\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("curl https://me:pa%20ss@host/x", "curl https://[redacted]@host/x"),
        ("https://me:p@ss@host:80/", "https://[redacted]@host:80/"),
        ("https://abcdefghijklmnopqrstuv@host", "https://[redacted]@host"),
        ("ssh://git@github.com/x", "ssh://git@github.com/x"),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1"),
        ("key sk-proj-abcdefghijklmnopqrst", "key [redacted]"),
        ("\nsk-proj-abcdefghijklmnopqrst", "\n[redacted]"),
        ("a task-of-many-words-in-a-row-here", "a task-of-many-words-in-a-row-here"),
        ("hf_" + "a1" * 17, "[redacted]"),
        ("the bearer of news", "the bearer of news"),
    ],
)
def test_a_secret_shows_by_its_form(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert json.loads(redact(json.dumps(text))) == expected


def test_what_stands_under_a_secrets_name_is_hidden_whatever_it_is() -> None:
    body = {"top_k": 20, "max_tokens": 4096, "auth": {"api_key": "x", "token": 7}, "l": ["a"]}
    assert redacted(body) == {
        "top_k": 20,
        "max_tokens": 4096,
        "auth": {"api_key": "[redacted]", "token": 7},
        "l": ["a"],
    }


def test_what_was_said_to_be_hidden_is_hidden_everywhere() -> None:
    hide({"extra_body": {"headers": [{"x-api-key": PLANTED}], "note": "an ordinary text"}})
    assert redact(f"the endpoint echoed {PLANTED}") == "the endpoint echoed [redacted]"
    assert redact("an ordinary text") == "an ordinary text"


def test_a_command_is_shown_without_its_secrets() -> None:
    shown = redact_command(
        [
            "evals",
            "-n2",
            "--token",
            "short",
            "--api-key=x",
            "--cwsandbox-max-tokens=4096",
            "-k",
            "token",
            '--cwsandbox-extra-body={"api_key": "x", "top_k": 20}',
            "--cwsandbox-extra-body",
            '{"api_key": "y"}',
            "--cwsandbox-model-base-url=http://me:pw@host/v1",
            "KEY=z",
        ]
    )
    assert shown == [
        "evals",
        "-n2",
        "--token",
        "[redacted]",
        "--api-key=[redacted]",
        "--cwsandbox-max-tokens=4096",
        "-k",
        "token",
        '--cwsandbox-extra-body={"api_key": "[redacted]", "top_k": 20}',
        "--cwsandbox-extra-body",
        '{"api_key": "[redacted]"}',
        "--cwsandbox-model-base-url=http://[redacted]@host/v1",
        "KEY=[redacted]",
    ]


@pytest.mark.parametrize("part", ["a", "://" + ":" * 60, "Bearer ", "sk-sk-sk-", "\\", "...a"])
def test_hostile_texts_cost_no_more_than_their_length(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setenv("MY_SECRET", "aaaaaaaa")

    def cost(text: str) -> float:
        runs = timeit.repeat(lambda: redact(text), timer=time.process_time, number=3, repeat=5)
        return min(runs)

    short, long = part * (2_000 // len(part)), part * (32_000 // len(part))
    assert cost(long) < 100 * cost(short)  # 16 where it is linear, 256 where it is quadratic
