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
from pytest_cwsandbox.rollouts.attempts import asked_pause, may_pass
from pytest_cwsandbox.rollouts.policy import Generation

if TYPE_CHECKING:
    from collections.abc import Mapping

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
ANSWER_TOO_LONG = re.compile(
    r"max_(completion_|output_|new_)?tokens\W{1,9}.{0,200}too large", re.IGNORECASE
)
FILTER_CODES = {"content_filter", "content_policy_violation"}
FILTER_WORDS = re.compile(
    r"content management policy|usage polic|content (filter|policy)", re.IGNORECASE
)
# llama.cpp: the model wrote a tool call that its server could not read.
UNREADABLE_CALL = re.compile(r"produced output that does not match the expected", re.IGNORECASE)
NOBODY_THERE = "nobody there"
SILENCE = "silence"
STATUS = re.compile(r"[45]\d\d", re.ASCII)
EXCERPT = 300
LONGEST_TEXT = 4096  # characters of a report that are looked at


@dataclass(frozen=True, slots=True)
class Fault:
    """A failed request; ``status`` is None when there was no answer, or none that can be read.

    ``passes`` says whether another attempt may succeed, ``wait`` how many seconds the endpoint
    asks to wait before it.
    """

    status: int | None
    code: str
    text: str
    passes: bool = True
    wait: float | None = None

    @property
    def said(self) -> str:
        text = one_line(self.text)
        return f"{self.status}: {text}" if self.status else text

    @classmethod
    def reported(
        cls, status: int | None, body: object, headers: Mapping[str, str] | None = None
    ) -> Self:
        """Read an endpoint's own report; inside an answer of status 200 its code may be one."""
        names: set[str] = set()
        said: object = body or ""
        if isinstance(body, dict):
            given = (body.get("code"), body.get("type"))
            names = {str(name)[:100] for name in given if isinstance(name, str | int)}
            said = body.get("message") or body.get("detail") or body
        if status is None:
            status = next((int(name) for name in sorted(names) if STATUS.fullmatch(name)), 500)
        return cls(
            status,
            " ".join(sorted(names)),
            _text(said),
            may_pass(status, headers or {}),
            asked_pause(headers or {}),
        )

    @classmethod
    def of(cls, error: OpenAIError) -> Self:
        from openai import APIStatusError, APITimeoutError

        if isinstance(error, APIStatusError):
            return cls.reported(error.status_code, error.body, error.response.headers)
        if isinstance(error, APITimeoutError):
            return cls.silence()
        reason = error.__cause__ or error
        # By name: httpx in openai 2, httpx2 in 3.
        code = NOBODY_THERE if type(reason).__name__ in {"ConnectError", "ConnectTimeout"} else ""
        return cls(None, code, _text(f"no connection ({type(reason).__name__}: {reason})"))

    @classmethod
    def silence(cls) -> Self:
        return cls(None, SILENCE, "no answer in time")


def _text(said: object) -> str:
    try:
        text = said if isinstance(said, str) else json.dumps(said)
    except (ValueError, RecursionError):
        text = "a report that cannot be read"
    return text[:LONGEST_TEXT]


class BadAnswerError(Exception):
    """An answer of status 200 that is none; it never leaves this package."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.text)
        self.fault = fault


def unreadable(why: str) -> BadAnswerError:
    return BadAnswerError(Fault(status=None, code="", text=why))


def judge(fault: Fault, *, where: str, answered: bool, api: str) -> Generation | HarnessError:
    """Say what a fault means; ``answered`` tells that the endpoint has answered before.

    A refusal is an answer, and so is a tool call that is badly written. A request that is refused
    later in a conversation may hold something of the model's that this endpoint does not take:
    that stays nobody's doing, as no answer tells it from an endpoint that is at fault.
    """
    said = fault.said
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
    return _refused(fault.status, said, where, answered=answered, api=api)


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


def _refused(status: int, said: str, where: str, *, answered: bool, api: str) -> HarnessError:
    if status in {401, 403}:
        return EndpointError(
            f"{where} refuses the key ({said}): set OPENAI_API_KEY to one that may use this model, "
            "or choose another with --cwsandbox-model"
        )
    if status in {404, 405}:
        other = "or take --cwsandbox-model-api=chat"  # which far more servers speak
        return EndpointError(
            f"{where} is not to be found ({said}): check --cwsandbox-model, "
            "--cwsandbox-model-base-url "
            f"{other if api == 'responses' else 'and --cwsandbox-model-api'}"
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
