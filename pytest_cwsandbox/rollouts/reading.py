"""Reading what an endpoint answered: nothing in it is trusted to have its form."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.failures import BadAnswerError, Fault, unreadable
from pytest_cwsandbox.rollouts.plain_json import read_answer, read_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_cwsandbox.rollouts.messages import Message, ToolCall

LONE_SURROGATE = re.compile(r"[\ud800-\udfff]")
ODD_IN_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")
LARGEST = 2**53  # where JavaScript, and with it much JSON, stops to count
MOST_CALLS = 128  # of one answer; nobody executes more


def decode(content: bytes) -> dict[str, object]:
    """Read the JSON object that an endpoint answered."""
    try:
        answer = read_answer(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise unreadable("the answer is not UTF-8") from None
    except ValueError:
        start = content[:200].decode("utf-8", "replace")
        raise unreadable(f"the answer is no sound JSON ({start or 'it is empty'})") from None
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
    """Return a number of tokens, 0 when the endpoint does not say or tells nonsense."""
    value = usage.get(name) if isinstance(usage, dict) else None
    return value if type(value) is int and 0 < value < LARGEST else 0


def token_ids(value: object) -> tuple[int, ...] | None:
    if isinstance(value, list) and all(type(part) is int and 0 <= part < LARGEST for part in value):
        return tuple(value)
    return None


def logprobs_of(value: object) -> dict[str, object] | None:
    """Return a choice's log probabilities, None unless each token has one: half are of no use."""
    if not isinstance(value, dict):
        return None
    rows = value.get("content")
    if rows is not None and not (isinstance(rows, list) and all(map(_has_logprob, rows))):
        return None
    return value


def _has_logprob(row: object) -> bool:
    return isinstance(row, dict) and type(row.get("logprob")) in {int, float}


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
    numbers: Counter[str] = Counter()
    calls: list[ToolCall] = []
    for given, name, arguments in itertools.islice(asked, MOST_CALLS):
        identity = _free(str(given) if isinstance(given, str | int) else "", taken, numbers)
        taken.add(identity)
        calls.append(
            {
                "id": identity,
                "type": "function",
                "function": {"name": text_of(name), "arguments": _arguments(arguments)},
            }
        )
    return calls


def _free(identity: str, taken: set[str], numbers: Counter[str]) -> str:
    """Number an id that is missing or taken; ``numbers`` are those that each has used up."""
    free = identity
    while not free or free in taken:
        numbers[identity] += 1
        # The first that has an id keeps it.
        free = f"{identity}_{numbers[identity] + 1}" if identity else f"call_{numbers['']}"
    return free


def _arguments(value: object) -> str:
    """Return the model's own text; some servers parse it on the way."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value)


def sendable_name(name: str) -> str:
    """Make a name that endpoints take back: they refuse a history that holds an odd one."""
    return ODD_IN_A_NAME.sub("_", name[:64]) or "unnamed"


def sendable_arguments(arguments: str) -> str:
    """Wrap what is no JSON object: chat templates parse it, and servers refuse the history."""
    try:
        if isinstance(read_arguments(arguments), dict):
            return whole_text(arguments)
    except ValueError:
        pass
    return json.dumps({"invalid_json": whole_text(arguments)})
