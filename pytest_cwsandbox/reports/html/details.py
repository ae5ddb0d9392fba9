"""What a page shows of a sample on click, packed so that ten thousand of them fit into a file.

Texts are gathered into chunks of some hundred kilobytes, each compressed by gzip and written in
base64; the browser unpacks the one that it needs.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.reports.html.document import CLIPPED, compact

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory
    from pytest_cwsandbox.runs.journal import Entry

BUDGET = 15_000_000  # characters of base64 in a page
LEFT_OUT = -2  # where a place's chunk would stand
CHUNK = 256_000  # of JSON: unpacked in a few milliseconds
LEVEL = 5  # of gzip: a higher one takes longer than it saves
THREADS = 4
KEYS = 200  # of a sample's metadata
LONGEST = 100_000  # characters of one text on a page; the run's files have all


@dataclass(slots=True)
class Details:
    """JSON of samples, or of problems, by their place in the page's table.

    Where not all of them fit, those of ``expendable`` places go first.
    """

    texts: dict[int, bytes] = field(default_factory=dict)
    expendable: set[int] = field(default_factory=set)

    def put(self, place: int, text: bytes, *, expendable: bool = False) -> None:
        self.texts[place] = text
        if expendable:
            self.expendable.add(place)


@dataclass(frozen=True, slots=True)
class Packed:
    """Chunks in base64, each of a JSON object by place; which chunk a place is in; what is not."""

    chunks: list[str]
    chunk_of: dict[int, int]
    left_out: frozenset[int] = frozenset()

    @property
    def size(self) -> int:
        return sum(map(len, self.chunks))

    def where(self, places: int) -> list[int]:
        """For every place the number of its chunk: -1 without details, ``LEFT_OUT`` if too many."""
        absent = dict.fromkeys(self.left_out, LEFT_OUT)
        return [self.chunk_of.get(place, absent.get(place, -1)) for place in range(places)]


def pack(details: Details, budget: int) -> Packed:
    """As many details as ``budget`` characters hold: the largest of the expendable go first."""
    places = sorted(details.texts)
    packed = _pack(details, places)
    while packed.size > budget:
        places = _fitting(details, places, budget / packed.size)
        packed = _pack(details, places)
    return replace(packed, left_out=frozenset(details.texts.keys() - set(places)))


def _fitting(details: Details, places: Sequence[int], share: float) -> list[int]:
    """The places without as many as bring their sizes down to that share."""
    sizes = {place: len(details.texts[place]) for place in places}
    surplus = (1 - share * 0.98) * sum(sizes.values())
    kept = set(places)
    for place in sorted(places, key=lambda p: (p not in details.expendable, -sizes[p])):
        if surplus <= 0:
            break
        surplus -= sizes[place]
        kept.discard(place)
    return [place for place in places if place in kept]


def _pack(details: Details, places: Sequence[int]) -> Packed:
    members: list[list[int]] = []
    length = CHUNK
    for place in places:
        if length >= CHUNK:
            members.append([])
            length = 0
        members[-1].append(place)
        length += len(details.texts[place])
    with ThreadPoolExecutor(THREADS) as threads:  # zlib works beside Python
        chunks = list(threads.map(partial(_chunk, details), members))
    chunk_of = {place: number for number, each in enumerate(members) for place in each}
    return Packed(chunks, chunk_of)


def _chunk(details: Details, places: Iterable[int]) -> str:
    text = b",".join(b'"%d":%s' % (place, details.texts[place]) for place in places)
    # No time stamp: the same run makes the same page.
    return b64encode(gzip.compress(b"{%s}" % text, LEVEL, mtime=0)).decode()


def encoded(detail: object) -> bytes:
    """JSON without texts that no reader gets through."""
    text = compact(detail)
    return (text if len(text) <= LONGEST else compact(shortened(detail))).encode()


def shortened(value: object) -> object:
    """The value with texts that no reader gets through cut short."""
    if isinstance(value, str):
        rest = len(value) - LONGEST
        return value if rest <= 0 else f"{value[:LONGEST]}\n[{rest:,} more characters]"
    if isinstance(value, dict):
        return {name: shortened(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [shortened(part) for part in value]
    return value


def of_entry(entry: Entry) -> bytes:
    """A sample beside its row in the table."""
    record = entry.record
    told = {
        "completion": record.completion,
        "grader": record.grader,
        "held_out": record.held_out,
        "detail": record.detail,
        "failure": entry.failure,
        "ending": entry.ending,
        "state": entry.state,
        "attempt": entry.attempt,
        "retries": record.retries,
        "worker": record.worker,
        "metadata": dict(islice(record.metadata.items(), KEYS)),
        "more": max(len(record.metadata) - KEYS, 0),
        "names": {
            name: text
            for name in ("id", "group", "problem", "verdict")
            if len(text := cast("str", getattr(record, name))) > CLIPPED
        },
    }
    return encoded(told)


def of_problem(problem: Problem) -> bytes:
    """What was asked, and how an answer is judged."""
    told = {
        "prompt": problem.prompt,
        "asserts": list(problem.test_list),
        "held_out": list(problem.challenge_test_list),
        "reference": problem.reference_solution,
    }
    return encoded(told)


def of_trajectory(recorded: RecordedTrajectory) -> bytes:
    """A rollout without what only a trainer needs: tools, log probabilities, token ids."""
    trajectory = recorded.trajectory
    left = {"submission", "model", "task_id", "source", "split", "held_out", "sample"}
    told = {
        "stop_reason": trajectory.stop_reason.value,
        "reward": trajectory.reward,
        "verdict": trajectory.verdict,
        "detail": trajectory.detail,
        "messages": [_message(cast("dict[str, object]", each)) for each in trajectory.messages],
        "metrics": trajectory.metrics,
        "metadata": {k: v for k, v in trajectory.metadata.items() if k not in left},
    }
    return encoded(told)


def _message(message: dict[str, object]) -> dict[str, object]:
    return {name: part for name, part in message.items() if name != "reasoning_items"}
