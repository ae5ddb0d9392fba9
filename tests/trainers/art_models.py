"""Models and backends that behave as ART's do, without a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from openai import AsyncOpenAI


@dataclass
class Model:
    """A registered ``art.TrainableModel``, as far as rollouts and the loop know it."""

    client: AsyncOpenAI | None = None
    name: str = "scripted"
    step: int = 0
    events: list[Any] = field(default_factory=list)

    def openai_client(self) -> AsyncOpenAI:
        assert self.client is not None, "the trained model was asked"
        return self.client

    def get_inference_name(self) -> str:
        return self.name

    async def get_step(self) -> int:
        return self.step

    async def log(
        self, trajectories: Sequence[Any], split: str, *, metrics: dict[str, float], step: int
    ) -> None:
        self.events.append(("log", split, step, metrics, list(trajectories)))


@dataclass
class Result:
    step: int
    metrics: dict[str, float]


class Backend:
    """Counts a step up with each call, as training does."""

    async def train(self, model: Any, groups: Sequence[Any], *, learning_rate: float) -> Result:
        model.step += 1
        model.events.append(("train", learning_rate, list(groups)))
        return Result(model.step, {"loss": 0.42})
