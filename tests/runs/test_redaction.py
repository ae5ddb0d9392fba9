"""What is a secret is hidden, and nothing else is."""

from __future__ import annotations

import json
import time
import timeit

import pytest

from pytest_cwsandbox.runs import redaction
from pytest_cwsandbox.runs.redaction import (
    hide,
    hide_named,
    redact,
    redact_command,
    redact_text,
    redact_value,
    redacted,
)
from pytest_cwsandbox.runs.secret_names import is_secret, is_secret_name

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
        "apiKey",
        "AWSSecretKey",
        "API_KEY_2",
        "DB_PASSWORD",
        "PGPASSWORD",
        "DB_PWD",
        "DB_PASS",
        "GH_PAT",
        "STRIPE_SK",
        "OPENAI_KEYS",
        "NPM_AUTH",
        "BASIC_AUTH",
        "SLACK_WEBHOOK_URL",
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
     "monkey", "top_k", "keyboard", "KEY", "SORT_KEY", "PUBLIC_KEY", "TOKEN_FILE", "TOKEN_MODE",
     "TOKEN_URL", "SECRET_NAME", "API_KEY_ID", "SSH_AUTH_SOCK", "SECRETARY", "eos_token",
     "PATH", "COMPASS"],
)  # fmt: skip
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


def test_an_ordinary_word_is_a_secret_under_a_plain_name_only() -> None:
    assert is_secret("DB_PASSWORD", "solution")
    assert not is_secret("AZURE_KEY", "solution")
    assert is_secret("AZURE_KEY", "solution1")
    assert is_secret("AZURE_KEY", "a_solution_of_letters_alone")


@pytest.mark.parametrize(
    "name", ["SORT_KEY", "TOKEN_FILE", "SECRETARY", "TOKEN_MODE", "SQLITE_KEY", "PROXY_AUTH"]
)
def test_code_is_not_spoilt_by_a_variable_that_is_no_secret(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "wrong_answer")
    assert redact("def wrong_answer(x):") == "def wrong_answer(x):"


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
    row = json.dumps({"max_tokens": 12345678, "sample": [1, 12345678], "backend": "local"})
    assert redact(row) == row
    assert redact(json.dumps(json.loads(row), indent=2)) == json.dumps(json.loads(row), indent=2)


def test_a_secret_of_digits_is_hidden_in_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIN_PASSWORD", "8675309123")
    text = "é8675309123, 8675309123. 86753091234 18675309123 \n8675309123"
    expected = "é[redacted], [redacted]. 86753091234 18675309123 \n[redacted]"
    assert redact(text) == expected
    row = {"max_tokens": 8675309123, "detail": text, "more": '"', "x": [8675309123, "8675309123"]}
    assert json.loads(redact(json.dumps(row))) == row | {
        "detail": expected,
        "x": [8675309123, "[redacted]"],
    }
    assert redact("{'pin': 8675309123}") == "{'pin': [redacted]}"


def test_a_secret_is_hidden_in_names_but_in_those_of_fields(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MY_SECRET", PLANTED)
    monkeypatch.setenv("MY_PASSWORD", "max_total")
    row = {"metadata": {PLANTED: "1", f"a {PLANTED}": "2"}, "max_total_tokens": 3}
    hidden = {"metadata": {"[redacted]": "1", "a [redacted]": "2"}, "max_total_tokens": 3}
    assert json.loads(redact(json.dumps(row))) == hidden
    assert redacted(row) == hidden
    assert redact_text('{"max_total": 1}') == '{"[redacted]": 1}'


@pytest.mark.parametrize("secret", ['"abcdefgh"', "nabcdefgh1", "'abcdefgh", '{"a": "abcdefgh"}'])
def test_a_part_of_a_secret_leaves_json_as_it_is(
    monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("MY_SECRET", secret)
    row = {
        "a": "abcdefgh",
        "b": '\nabcd...efgh"',
        "c": '..."}',
        "d": f"{secret[:6]}...",
        "e": "...",
    }
    assert json.loads(redact(json.dumps(row))).keys() == row.keys()


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
        ("bearer authentication", "bearer authentication"),
        ("bearer: 9f3kQ2vX7pLm", "bearer: [redacted]"),
        ('{"bearer": "9f3kQ2vX7pLm"}', '{"bearer": "[redacted]"}'),
        ("Authorization: Basic bWU6cGFzc3dvcmQ=", "Authorization: Basic [redacted]"),
        ('{"authorization": "Basic bWU6cGFz"}', '{"authorization": "Basic [redacted]"}'),
        ("gho_" + "a1" * 18, "[redacted]"),
        ("ghs_" + "a1" * 18, "[redacted]"),
        ("ghu_" + "a1" * 18, "[redacted]"),
        ("glpat-" + "a1" * 10, "[redacted]"),
        ("xoxb-123456789012-abcdef", "[redacted]"),
        ("AIza" + "a1" * 17 + "b", "[redacted]"),
        ("ASIA" + "A1" * 8, "[redacted]"),
        ("\neyJhbGciOiJI.eyJzdWIiOiIx.abc-DEF_123", "\n[redacted]"),
        ("sk_live_" + "a1" * 12, "[redacted]"),
        ("ask_test_of_completions", "ask_test_of_completions"),
        (
            "https://hooks.slack.com/services/T0/B0/x1",
            "https://hooks.slack.com/services/[redacted]",
        ),
        (
            "http://h/v1?api_key=x1&top_k=2&token=y1#access_token=z",
            "http://h/v1?api_key=[redacted]&top_k=2&token=[redacted]#access_token=[redacted]",
        ),
        ("http://h/v1?key=x1&amp;sig=y1", "http://h/v1?key=[redacted]&amp;sig=[redacted]"),
        ("f(a, token=next_token, key=b)", "f(a, token=next_token, key=b)"),
    ],
)
def test_a_secret_shows_by_its_form(text: str, expected: str) -> None:
    assert redact(text) == expected
    assert json.loads(redact(json.dumps(text))) == expected


def test_what_stands_below_a_secrets_name_is_hidden_whatever_it_is() -> None:
    body = {
        "top_k": 20,
        "max_tokens": 4096,
        "auth": {"api_key": "x", "token": 7, "mode": "basic"},
        "Authorization": ["x1", {"auth_type": "basic"}],
        "l": ["a"],
    }
    assert redacted(body) == {
        "top_k": 20,
        "max_tokens": 4096,
        "auth": {"api_key": "[redacted]", "token": 7, "mode": "basic"},
        "Authorization": ["[redacted]", {"auth_type": "[redacted]"}],
        "l": ["a"],
    }


def test_what_was_said_to_be_hidden_is_hidden_everywhere() -> None:
    hide({"extra_body": {"headers": [{"x-api-key": PLANTED}], "note": "an ordinary text"}})
    hide({"auth_token": {"v": ["list-of-secrets-1"]}})
    hide_named(["api_key=tag-of-secret-1", "token:tag-of-secret-2", "model=Qwen3-8B-Instruct"])
    assert redact(f"the endpoint echoed {PLANTED}") == "the endpoint echoed [redacted]"
    assert redact("list-of-secrets-1 tag-of-secret-1") == "[redacted] [redacted]"
    assert redact("<tag-of-secret-2>") == "<[redacted]>"
    assert redact("an ordinary text, Qwen3-8B-Instruct") == "an ordinary text, Qwen3-8B-Instruct"


def test_a_tag_is_shown_without_its_secret() -> None:
    tags = ["api_key=x1", "token:x2", "model:Qwen3-8B", "rl-training", "url:http://h:80/x"]
    assert list(map(redact_value, tags)) == [
        "api_key=[redacted]", "token:[redacted]", "model:Qwen3-8B", "rl-training",
        "url:http://h:80/x",
    ]  # fmt: skip


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
            "MY_TOKEN=z",
            "--cwsandbox-tag=api_key=z",
            "-o",
            "cwsandbox_tag=api_key=z",
            "--cwsandbox-auth=api-key",
            "evals/test_token.py::TestSecret::test_token",
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
        "MY_TOKEN=[redacted]",
        "--cwsandbox-tag=api_key=[redacted]",
        "-o",
        "cwsandbox_tag=api_key=[redacted]",
        "--cwsandbox-auth=api-key",
        "evals/test_token.py::TestSecret::test_token",
    ]


@pytest.mark.parametrize(
    "part",
    [
        "a", "://" + ":" * 60, "Bearer ", "sk-sk-sk-", "\\", "...a", "bearer=", "eyJ.eyJ",
        "://?a=b&token", "authorization: basic ", "... ",
    ],
)  # fmt: skip
def test_hostile_texts_cost_no_more_than_their_length(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    monkeypatch.setenv("MY_SECRET", "aaaaaaaa")

    def cost(text: str) -> float:
        runs = timeit.repeat(lambda: redact(text), timer=time.process_time, number=3, repeat=5)
        return min(runs)

    short, long = part * (2_000 // len(part)), part * (32_000 // len(part))
    assert cost(long) < 100 * cost(short)  # 16 where it is linear, 256 where it is quadratic


def test_an_ellipsis_costs_the_same_however_many_secrets_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "... " * 20_000

    def cost(secrets: int) -> float:
        for number in range(secrets):
            monkeypatch.setenv(
                f"T{chr(97 + number % 26)}{number // 26 * 'X'}_TOKEN", f"{number:08}"
            )
        redact(text)
        return min(timeit.repeat(lambda: redact(text), timer=time.process_time, number=1, repeat=5))

    few, many = cost(2), cost(200)
    assert many < 10 * few  # 100 where each is looked for at each
