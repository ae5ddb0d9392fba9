"""What a check of a reward function found, as it travels from a worker to the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal, Self, get_args

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
        """Build from ``to_json``'s form; ``TypeError`` for any other."""
        match row:
            case {
                "check": str(),
                "name": str(),
                "status": str(status),
                "good": int(),
                "total": int(),
                "detail": str(),
                "exploits": list() | tuple() as exploits,
            } if status in get_args(Status):
                found = tuple(map(_exploit, exploits))
                return cls(**{**row, "exploits": found})  # type: ignore[arg-type]  # checked above, further names by the call
        raise TypeError("fields are missing or of other types")


def _exploit(row: object) -> Exploit:
    match row:
        case {
            "attack": str(),
            "kind": "reward" | "none",
            "problem": str(),
            "reward": int() | float() | None,
            "completion": str(),
            "reference": str(),
        } if isinstance(row, dict):
            return Exploit(**row)
    raise TypeError("exploits must have an attack, a kind, a problem, a reward and a completion")
