"""What an endpoint's failure means: the user's to mend, the model's doing, or nobody's."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from pytest_cwsandbox.errors import (
    ContextExceededError,
    EndpointError,
    HarnessError,
    ModelError,
)
from pytest_cwsandbox.rollouts.policy import Generation

if TYPE_CHECKING:
    from openai import OpenAIError

CONTEXT_CODES = {"context_length_exceeded", "exceed_context_size_error"}
CONTEXT_WORDS = re.compile(
    r"(maximum|max|available|the|model'?s|model|total|exceeds?) context (length|size|window)"
    r"|context (length|size|window) (of|exceeded|has been exceeded|is only)"
    r"|maximum (model|input) length|max(imum)? number of tokens allowed"
    r"|too many (input )?tokens|(prompt|input) is too (long|large)|exceeds? (the )?token limit"
    r"|reduce the length of the (messages|prompt|input)|`inputs` tokens \+ `max_new_tokens`",
    re.IGNORECASE,
)
# The setting alone does not fit; later the same words mean that the conversation has grown.
ANSWER_TOO_LONG = re.compile(r"max_(completion_|output_|new_)?tokens\W+.*too large", re.IGNORECASE)
FILTER_CODES = {"content_filter", "content_policy_violation"}
FILTER_WORDS = re.compile(
    r"content management policy|usage polic|content (filter|policy)", re.IGNORECASE
)
# llama.cpp: the model wrote a tool call that its server could not read.
UNREADABLE_CALL = re.compile(r"produced output that does not match the expected", re.IGNORECASE)
NOBODY_THERE = "nobody there"
EXCERPT = 300


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed request; ``status`` is None when there was no answer, or none that can be read."""

    status: int | None
    code: str
    text: str

    @classmethod
    def reported(cls, status: int | None, body: object) -> Self:
        """Read an endpoint's own report; inside an answer of status 200 its code may be one."""
        if not isinstance(body, dict):
            return cls(status or 500, "", str(body or ""))
        names = {str(body[name]) for name in ("code", "type") if body.get(name) is not None}
        number = next((int(name) for name in names if name.isascii() and name.isdigit()), 500)
        message = body.get("message") or body.get("detail")
        return cls(
            status or number,
            " ".join(sorted(names)),
            message if isinstance(message, str) else json.dumps(message or body),
        )

    @classmethod
    def of(cls, error: OpenAIError) -> Self:
        from openai import APIStatusError, APITimeoutError

        if isinstance(error, APIStatusError):
            return cls.reported(error.status_code, error.body)
        if isinstance(error, APITimeoutError):
            return cls(None, "", "no answer in time")
        reason = error.__cause__ or error
        # By name: httpx in openai 2, httpx2 in 3.
        code = NOBODY_THERE if type(reason).__name__ in {"ConnectError", "ConnectTimeout"} else ""
        return cls(None, code, f"no connection ({type(reason).__name__}: {reason})")


class BadAnswerError(Exception):
    """An answer of status 200 that is none; it never leaves this package."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def judge(fault: Fault, *, where: str, answered: bool) -> Generation | HarnessError:
    """Say what a fault means; ``answered`` tells that the endpoint has answered before.

    A refusal is an answer, and so is a tool call that is badly written. Of the errors only
    ``ModelError`` is worth another attempt.
    """
    said = f"{fault.status}: {one_line(fault.text)}" if fault.status else one_line(fault.text)
    if fault.status is None:
        return _unanswered(fault, said, where, answered=answered)
    codes = set(fault.code.split())
    if (answer := _answer(fault, codes)) is not None:
        return answer
    if "insufficient_quota" in codes or fault.status == 402:
        return EndpointError(
            f"the account behind the key has nothing left at {where} ({said}): "
            "add credit, or set OPENAI_API_KEY to another key"
        )
    if fault.status != 429 and "rate_limit_exceeded" not in codes:
        if ANSWER_TOO_LONG.search(fault.text) and not answered:
            return EndpointError(
                f"{where} cannot give answers that long ({said}): lower --cwsandbox-max-tokens"
            )
        if fault.status == 413 or codes & CONTEXT_CODES or CONTEXT_WORDS.search(fault.text):
            return ContextExceededError(f"the conversation is too long for {where} ({said})")
    return _refused(fault.status, said, where, answered=answered)


def _unanswered(fault: Fault, said: str, where: str, *, answered: bool) -> HarnessError:
    if fault.code == NOBODY_THERE and not answered:
        return EndpointError(
            f"{where} cannot be reached ({said}): start its server, or check "
            "--cwsandbox-model-base-url"
        )
    return ModelError(f"{where} failed: {said}")


def _answer(fault: Fault, codes: set[str]) -> Generation | None:
    """What the model said, where the endpoint reports it as an error."""
    if codes & FILTER_CODES or ("invalid_prompt" in codes and FILTER_WORDS.search(fault.text)):
        return Generation(
            {"role": "assistant", "content": None, "refusal": one_line(fault.text)},
            finish_reason="content_filter",
        )
    if UNREADABLE_CALL.search(fault.text):
        return Generation({"role": "assistant", "content": None}, finish_reason="stop")
    return None


def _refused(status: int, said: str, where: str, *, answered: bool) -> HarnessError:
    if status in {401, 403}:
        return EndpointError(
            f"{where} refuses the key ({said}): set OPENAI_API_KEY to one that may use this model, "
            "or choose another with --cwsandbox-model"
        )
    if status in {404, 405}:
        return EndpointError(
            f"{where} is not to be found ({said}): check --cwsandbox-model, "
            "--cwsandbox-model-base-url and --cwsandbox-model-api"
        )
    if status in {400, 422} and not answered:
        return EndpointError(
            f"{where} refuses the request ({said}): check --cwsandbox-model, "
            "--cwsandbox-model-api and the settings of the model"
        )
    return ModelError(f"{where} failed: {said}")


def one_line(text: str) -> str:
    """Squeeze to one short line that any terminal and any file can hold."""
    plain = "".join(mark if mark.isprintable() else " " for mark in text[: 4 * EXCERPT])
    line = " ".join(plain.split())
    return line if len(line) <= EXCERPT else f"{line[:EXCERPT]}…"
