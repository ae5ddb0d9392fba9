"""Failures that a runner is asked to make, as ``--fault KIND[=VALUE][@SHARE]`` says them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import BackendError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Kind(StrEnum):
    """What can be made to go wrong; a latency takes seconds, the capacity a number of sandboxes."""

    CREATE_UNAVAILABLE = "create-unavailable"
    CREATE_EXHAUSTED = "create-exhausted"
    START_FAILED = "start-failed"
    EXEC_UNAVAILABLE = "exec-unavailable"
    EXEC_DROPPED = "exec-dropped"
    EXEC_LOST = "exec-lost"
    FILE_UNAVAILABLE = "file-unavailable"
    SANDBOX_TAKEN = "sandbox-taken"
    CREATE_LATENCY = "create-latency"
    EXEC_LATENCY = "exec-latency"
    CAPACITY = "capacity"


LATENCIES = frozenset({Kind.CREATE_LATENCY, Kind.EXEC_LATENCY})
NUMBERED = LATENCIES | {Kind.CAPACITY}


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of failure, and the share of the calls that it strikes.

    ``value`` is in seconds for a latency, in sandboxes for the capacity.
    """

    kind: Kind
    value: float = 0.0
    share: float = 1.0

    def __str__(self) -> str:
        """As ``--fault`` takes it."""
        value = f"={self.value:g}" if self.kind in NUMBERED else ""
        return f"{self.kind}{value}" + (f"@{self.share:g}" if self.share < 1 else "")


class Faults:
    """Decides call by call which faults strike.

    Every kind draws from a sequence of its own that ``seed`` determines: the nth call that a kind
    could strike has the same fate in every run, whatever other kinds are asked for.
    """

    def __init__(self, faults: Sequence[Fault], *, seed: int = 0) -> None:
        self._faults = {fault.kind: fault for fault in faults}
        self._draws = {kind: random.Random(f"{seed} {kind}") for kind in self._faults}  # noqa: S311 - reproducible, not secret

        full = self._faults.get(Kind.CAPACITY)
        self._capacity = math.inf if full is None else full.value

    def __str__(self) -> str:
        return ", ".join(map(str, self._faults.values()))

    def strikes(self, kind: Kind) -> bool:
        """Whether this call is to suffer the fault."""
        fault = self._faults.get(kind)
        return fault is not None and self._draws[kind].random() < fault.share

    def seconds(self, kind: Kind) -> float:
        """How much longer this call is to take."""
        return self._faults[kind].value if self.strikes(kind) else 0.0

    def is_full(self, sandboxes: int) -> bool:
        """Whether there is no room for another beside so many sandboxes."""
        return sandboxes >= self._capacity and self.strikes(Kind.CAPACITY)


def read_faults(texts: Sequence[str]) -> list[Fault]:
    """Read the values of ``--fault``; raises ``BackendError``."""
    faults: dict[Kind, Fault] = {}
    for text in texts:
        fault = _read(text)
        if fault.kind in faults:
            raise BackendError(f"--fault {text}: {fault.kind} is given twice")
        faults[fault.kind] = fault
    return list(faults.values())


def _read(text: str) -> Fault:
    what, at, share = text.partition("@")
    name, equals, value = what.partition("=")
    try:
        kind = Kind(name)
    except ValueError:
        raise BackendError(f"--fault {text}: no such fault; there are {', '.join(Kind)}") from None
    if kind in LATENCIES:
        if not 0 <= _number(value) < math.inf:
            raise BackendError(f"--fault {text}: needs seconds, such as {kind}=0.2")
    elif kind is Kind.CAPACITY:
        if not value.isdecimal():
            raise BackendError(f"--fault {text}: needs a number of sandboxes, such as {kind}=4")
    elif equals:
        raise BackendError(f"--fault {text}: {kind} takes no value")
    if at and not 0 <= _number(share) <= 1:
        raise BackendError(f"--fault {text}: the share must be between 0 and 1, such as @0.3")
    return Fault(kind, float(value or 0), float(share) if at else 1.0)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
