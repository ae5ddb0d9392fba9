"""How many sandboxes a process may have at once: what its user allows, what the service can take.

Every sandbox has a `Place` from before its creation until its removal was acknowledged. One
`Admission`, the process's, gives them out, to pools on any thread.

Nobody waits for ever: whoever holds a sandbox of one `Kind` may wait for one of a later kind, and
the user's limit keeps a place for each of those; holders of the last kind wait for none. And what
is started ahead or kept for later goes when somebody waits for a place.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Kind(IntEnum):
    """Whose sandbox it is."""

    TEST = 0
    AGENT = 1
    GRADE = 2


LEAST = len(Kind)  # that a process must be allowed
# What the service can take is a guess: who has waited for it so long asks the service itself.
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Reached:
    """What came of it. ``mean`` is over the time in which there was at least one sandbox.

    ``again`` of the ``started`` were for one that did not start; ``refused`` counts the answers
    that the service has no room, ``lowered`` how often the limit was halved for them.
    """

    started: int = 0
    again: int = 0
    refused: int = 0
    lowered: int = 0
    highest: int = 0
    mean: float = 0.0

    def __add__(self, other: Self) -> Self:
        """Of two processes at the same time."""
        names = [field.name for field in fields(self)]
        return type(self)(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @classmethod
    def from_json(cls, told: Mapping[str, float]) -> Self:
        return cls(**told)  # type: ignore[arg-type]  # as asdict() made it


class Admission:
    """Gives out places, first come, first served. May be used from any thread.

    ``most`` is the user's limit, at least ``LEAST``. The service's is found out: every refusal
    halves it, and it grows by one after as many successes as it allows.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._lock = threading.RLock()  # a place that is asked for may be given back at once
        self._alive = dict.fromkeys(Kind, 0)
        self._waiting: list[_Waiting] = []
        self._idle: dict[Place, Callable[[], object]] = {}
        self._limit: int | None = None
        self._era = 0  # grows when the limit is lowered
        self._successes = 0
        self._refusing_since: float | None = None  # nothing has started since
        self._measured = _Measured()

    def begin(self, most: int | None) -> None:
        """A run begins that is allowed so many; what others had before it is not its own."""
        with self._lock:
            self.most = most
            self._measured = _Measured()
            self._measured.now(self._total)

    async def enter(self, kind: Kind, *, urgent: bool = False) -> Place:
        """Wait for a place.

        ``urgent`` is one without which another sandbox's holder does not get on: it does not wait
        for what the service can take.
        """
        waiting = _Waiting(kind, urgent)
        with self._lock:
            self._waiting.append(waiting)
            self._admit()
        place = asyncio.wrap_future(waiting.place)
        try:
            await asyncio.wait((place,), timeout=PATIENCE_SECONDS)
            if not place.done():
                with self._lock:
                    waiting.urgent = True
                    self._admit()
            return await place
        except asyncio.CancelledError:
            if not waiting.place.cancel():
                waiting.place.result().leave()
            raise
        finally:
            with self._lock:
                if waiting in self._waiting:
                    self._waiting.remove(waiting)

    def enter_now(self, kind: Kind) -> Place | None:
        """A place for what nobody needs yet; None where there is none, or somebody waits."""
        with self._lock:
            if self._waiting or not self._may(kind, urgent=False):
                return None
            return self._place(kind)

    def most_of(self, kind: Kind) -> int | None:
        """How many of a kind there can be at once at most, where the user set a limit."""
        return None if self.most is None else self.most - sum(each > kind for each in Kind)

    @property
    def limit(self) -> int | None:
        """What the service can take, as far as it is known."""
        return self._limit

    def reached(self) -> Reached:
        with self._lock:
            return self._measured.reached()

    def started_again(self) -> None:
        """Note that a sandbox started in the place of one that did not."""
        with self._lock:
            self._measured.again += 1

    # What places tell

    def leave(self, place: Place) -> None:
        with self._lock:
            self._idle.pop(place, None)
            self._alive[place.kind] -= 1
            self._measured.now(self._total)
            self._admit()

    def started(self, place: Place) -> None:
        with self._lock:
            self._measured.started += 1
            self._refusing_since = None
            if self._limit is None or place.era != self._era:
                return
            self._successes += 1
            if self._successes >= self._limit:
                self._limit, self._successes = self._limit + 1, 0
                self._admit()

    def refused(self, place: Place) -> float:
        """Lower the limit; returns for how many seconds the service has refused everything."""
        with self._lock:
            self._measured.refused += 1
            now = time.monotonic()
            if self._refusing_since is None:
                self._refusing_since = now
            if place.era == self._era:  # those that were under way before say nothing new
                self._limit = max(1, min(self._limit or self._total, self._total) // 2)
                self._era += 1
                self._successes = 0
                self._measured.lowered += 1
            return now - self._refusing_since

    def idle(self, place: Place, let_go: Callable[[], object]) -> None:
        """Nobody needs its sandbox now: ``let_go`` is called, on any thread, when one waits."""
        with self._lock:
            self._idle[place] = let_go
            self._admit()

    def busy(self, place: Place) -> None:
        """Take back that it is idle."""
        with self._lock:
            self._idle.pop(place, None)

    # Under the lock

    @property
    def _total(self) -> int:
        return sum(self._alive.values())

    def _may(self, kind: Kind, *, urgent: bool) -> bool:
        total = self._total
        most = self.most_of(kind)
        if self.most is not None and most is not None:
            before = sum(self._alive[each] for each in Kind if each <= kind)
            if total >= self.most or before >= most:
                return False
        # Of every kind there may be one, whatever the service said last.
        return urgent or self._limit is None or total < self._limit or not self._alive[kind]

    def _admit(self) -> None:
        """Give places to those who wait, in turn; where there are none, send away what is idle."""
        for waiting in [*self._waiting]:
            if self._may(waiting.kind, urgent=waiting.urgent):
                self._waiting.remove(waiting)
                if waiting.place.set_running_or_notify_cancel():
                    waiting.place.set_result(self._place(waiting.kind))
        for let_go in [self._idle.pop(place) for place in [*self._idle][: len(self._waiting)]]:
            let_go()

    def _place(self, kind: Kind) -> Place:
        self._alive[kind] += 1
        self._measured.now(self._total)
        return Place(self, kind, self._era)


class Place:
    """One sandbox's; ``used`` from when it may exist."""

    def __init__(self, admission: Admission, kind: Kind, era: int) -> None:
        self._admission = admission
        self._left = False
        self.used = False
        self.kind = kind
        self.era = era

    def started(self) -> None:
        """Its sandbox runs."""
        self._admission.started(self)

    def refused(self) -> float:
        """The service has no room for it; see ``Admission.refused``."""
        return self._admission.refused(self)

    def idle(self, let_go: Callable[[], object]) -> None:
        self._admission.idle(self, let_go)

    def busy(self) -> None:
        self._admission.busy(self)

    def leave(self) -> None:
        """Its sandbox is gone. More than once is as good as once."""
        if not self._left:
            self._left = True
            self._admission.leave(self)


class _Waiting:
    def __init__(self, kind: Kind, urgent: bool) -> None:  # noqa: FBT001 - a record
        self.kind = kind
        self.urgent = urgent
        self.place: Future[Place] = Future()


class _Measured:
    """Counts, and sandboxes over time."""

    def __init__(self) -> None:
        self.started = self.again = self.refused = self.lowered = 0
        self._highest = self._alive = 0
        self._since = 0.0
        self._sandbox_seconds = self._seconds = 0.0

    def now(self, alive: int) -> None:
        """There are so many from now on."""
        now = time.monotonic()
        if self._alive:
            self._seconds += now - self._since
            self._sandbox_seconds += self._alive * (now - self._since)
        self._alive, self._since = alive, now
        self._highest = max(self._highest, alive)

    def reached(self) -> Reached:
        self.now(self._alive)
        mean = self._sandbox_seconds / self._seconds if self._seconds else 0.0
        return Reached(
            self.started, self.again, self.refused, self.lowered, self._highest, round(mean, 2)
        )


PROCESS = Admission()  # for all that this process starts
