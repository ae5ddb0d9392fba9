"""What a check of a reward function found, as it travels from a worker to the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Self

Status = Literal["good", "bad", "not checkable"]


@dataclass(frozen=True, slots=True)
class Exploit:
    """A wrong completion that earned reward, or ("none") that turned its own zero into None."""

    attack: str
    kind: Literal["reward", "none"]
    problem: str
    reward: float | None
    completion: str
    reference: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one item of a check.

    ``good`` of ``total`` single trials went well; ``detail`` is one line for people.
    """

    check: str
    name: str
    status: Status
    good: int = 0
    total: int = 0
    detail: str = ""
    exploits: tuple[Exploit, ...] = ()

    def to_json(self) -> dict[str, object]:
        return asdict(self)

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form."""
        exploits = tuple(Exploit(**exploit) for exploit in row.pop("exploits"))  # type: ignore[attr-defined]
        return cls(**row, exploits=exploits)  # type: ignore[arg-type]
