"""Reading what an endpoint answered: nothing in it is trusted to have its form."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.failures import BadAnswerError, Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_cwsandbox.rollouts.messages import Message, ToolCall

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
ODD_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def unreadable(why: str) -> BadAnswerError:
    return BadAnswerError(Fault(status=None, code="", text=why))


def decode(content: bytes) -> dict[str, object]:
    """Read the JSON object that an endpoint answered."""
    try:
        answer = json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise unreadable("the answer is not UTF-8") from None
    except (ValueError, RecursionError):
        start = content[:200].decode("utf-8", "replace")
        raise unreadable(f"the answer is no JSON ({start or 'it is empty'})") from None
    # Only an escape can smuggle half a character into valid UTF-8.
    answer = whole(answer) if b"\\ud" in content or b"\\uD" in content else answer
    if not isinstance(answer, dict):
        raise unreadable("the answer is no JSON object")
    if isinstance(answer.get("error"), dict | str) and answer["error"]:
        raise BadAnswerError(Fault.reported(None, answer["error"]))
    return answer


def whole(value: object) -> object:
    """Replace halves of characters, which no file and no request could hold."""
    if isinstance(value, str):
        return LONE_SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {whole(key): whole(part) for key, part in value.items()}
    if isinstance(value, list):
        return [whole(part) for part in value]
    return value


def whole_text(text: str) -> str:
    return LONE_SURROGATE.sub("\ufffd", text)


def text_of(value: object) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def objects(value: object, what: str) -> list[dict[str, object]]:
    """Return a list of objects; none is an empty one."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in value):
        raise unreadable(f"{what} of the answer are no list of objects")
    return value


def count(usage: object, name: str) -> int:
    """Return a number of tokens, 0 when the endpoint does not say."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and value > 0 else 0


def token_ids(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(part) is int for part in value):
        return tuple(value)
    return None


def tool_calls(
    asked: Iterable[tuple[object, object, object]], history: Sequence[Message]
) -> list[ToolCall]:
    """Build calls from (id, name, arguments); an id that is missing or taken gets a free one."""
    taken = {
        call["id"]
        for message in history
        if message["role"] == "assistant"
        for call in message.get("tool_calls", ())
    }
    calls: list[ToolCall] = []
    for given, name, arguments in asked:
        identity = _free(str(given) if isinstance(given, str | int) else "", taken)
        taken.add(identity)
        calls.append(
            {
                "id": identity,
                "type": "function",
                "function": {"name": text_of(name), "arguments": _arguments(arguments)},
            }
        )
    return calls


def _free(identity: str, taken: set[str]) -> str:
    number, free = 1, identity
    while not free or free in taken:
        number += bool(identity)
        free = f"{identity or 'call'}_{number}"
        number += not identity
    return free


def _arguments(value: object) -> str:
    """Return the model's own text; some servers parse it on the way."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def sendable_name(name: str) -> str:
    """Make a name that endpoints take back: they refuse a history that holds an odd one."""
    return ODD_IN_A_NAME.sub("_", name)[:64] or "unnamed"


def sendable_arguments(arguments: str) -> str:
    """Wrap what is no JSON object: chat templates parse it, and servers refuse the history."""
    try:
        if isinstance(json.loads(arguments), dict):
            return whole_text(arguments)
    except (ValueError, RecursionError):
        pass
    return json.dumps({"invalid_json": whole_text(arguments)})
