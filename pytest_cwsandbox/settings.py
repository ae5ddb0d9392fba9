"""What the options say, checked."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.reader import Reader
from pytest_cwsandbox.rollouts.limits import EpisodeLimits
from pytest_cwsandbox.rollouts.model import ModelOptions
from pytest_cwsandbox.rollouts.scripted import is_scripted
from pytest_cwsandbox.runs.gate import Gates

SETTINGS = pytest.StashKey["Settings"]()
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What the options say, checked. Seconds and bytes unless the name says otherwise.

    ``explicit`` names the options that the command line or the ini file set.
    """

    backend: str = "auto"
    auth: str = ""
    base_url: str = ""
    image: str = ""
    tags: tuple[str, ...] = ()
    problems: str = "bundled"
    split: str = ""
    limit: int | None = None
    model: ModelOptions = field(default_factory=ModelOptions)
    limits: EpisodeLimits = field(default_factory=EpisodeLimits)
    model_price: tuple[float, float] | None = None
    alert_tool_calls: int | None = None
    visible_asserts: int | None = None
    tasks: str = "bundled"
    report_dir: Path = Path(".cwsandbox/runs")
    cpu_limit: int = 20
    wall_limit: float = 60.0
    memory_limit: int = 1 << 30
    retries: int = 2
    reward: str = ""
    reward_bounds: tuple[float, float] = (0.0, 1.0)
    reward_partial_credit: bool = False
    reward_max_seconds: float | None = None
    reward_timeout: float = 120.0
    reward_problems: int = 10
    attacks: tuple[Path, ...] = ()
    gates: Gates = field(default_factory=Gates)
    baseline: Path | None = None
    group_by: tuple[str, ...] = ()
    pass_k: tuple[int, ...] = ()
    resume: str = ""
    concurrency: int | None = None
    processes: int | Literal["auto"] | None = None
    max_sandboxes: int | None = None
    progress: str = "auto"
    junit_properties: bool = True
    explicit: frozenset[str] = field(default_factory=frozenset)

    @property
    def backend_options(self) -> BackendOptions:
        return BackendOptions(self.backend, self.auth, self.base_url, self.image)

    @property
    def gated(self) -> bool:
        """Whether samples below full reward are data and no failures."""
        gates = self.gates
        return bool(gates.pass_rate or gates.pass_rate_lower or self.baseline)

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read pytest's configuration; raises ``pytest.UsageError`` that names the bad option."""
        read = Reader(config)
        settings = cls(
            backend=read.text("backend", cls.backend),
            auth=read.text("auth", cls.auth),
            base_url=read.text("base-url", cls.base_url),
            image=read.text("image", cls.image),
            tags=read.texts("tag"),
            problems=read.source("problems", cls.problems),
            split=read.text("split", cls.split),
            limit=read.number("limit", int, at_least=1),
            model=_model(read),
            limits=_limits(read),
            model_price=read.pair("model-price"),
            alert_tool_calls=read.number("alert-tool-calls", int, at_least=1),
            visible_asserts=read.number("visible-asserts", int, at_least=0),
            tasks=read.source("tasks", cls.tasks),
            report_dir=read.path("report-dir", cls.report_dir),
            cpu_limit=read.number("cpu-limit", int, at_least=1) or cls.cpu_limit,
            wall_limit=read.number("wall-limit", float, above=0) or cls.wall_limit,
            memory_limit=read.size("memory-limit") or cls.memory_limit,
            retries=_default(read.number("retries", int, at_least=0), cls.retries),
            reward=read.text("reward", cls.reward),
            reward_bounds=read.interval("reward-bounds", cls.reward_bounds),
            reward_partial_credit=read.text("reward-partial-credit", "no") == "yes",
            reward_max_seconds=read.number("reward-max-seconds", float, above=0),
            reward_timeout=read.number("reward-timeout", float, above=0) or cls.reward_timeout,
            reward_problems=read.number("reward-problems", int, at_least=1) or cls.reward_problems,
            attacks=read.paths("attacks"),
            gates=_gates(read),
            baseline=read.optional_path("baseline"),
            group_by=read.words("group-by"),
            pass_k=read.numbers("pass-k"),
            resume=read.text("resume", cls.resume),
            concurrency=read.number("concurrency", int, at_least=1),
            processes=read.count_or_auto("processes"),
            max_sandboxes=read.number("max-sandboxes", int, at_least=1),
            progress=read.text("progress", cls.progress),
            junit_properties=read.text("junit-properties", "yes") == "yes",
            explicit=frozenset(read.explicit),
        )
        if settings.base_url and not re.fullmatch(r"https?://[^/\s]+/?", settings.base_url):
            raise pytest.UsageError(
                f"--cwsandbox-base-url must look like https://host[:port], "
                f"got {settings.base_url!r}"
            )
        alert, most = settings.alert_tool_calls, settings.limits.tool_calls
        if alert is not None and most is not None and alert >= most:
            raise pytest.UsageError(
                f"--cwsandbox-alert-tool-calls={alert} can never be exceeded: "
                f"--cwsandbox-max-tool-calls is {most}"
            )
        return settings


def _model(read: Reader) -> ModelOptions:
    default = ModelOptions()
    model = ModelOptions(
        model=read.text("model", default.model),
        base_url=read.text("model-base-url", default.base_url),
        api=read.text("model-api", default.api),
        temperature=read.number("temperature", float, at_least=0),
        top_p=read.number("top-p", float, above=0, at_most=1),
        max_tokens=read.number("max-tokens", int, at_least=1),
        seed=read.number("seed", int),
        extra_body=read.object("extra-body"),
        timeout_seconds=read.number("model-timeout", float, above=0) or default.timeout_seconds,
        retries=_default(read.number("model-retries", int, at_least=0), default.retries),
    )
    if model.base_url and is_scripted(model.model):
        raise pytest.UsageError(
            f"--cwsandbox-model-base-url: {model.model} plays on this machine and not there: "
            "name the endpoint's model with --cwsandbox-model"
        )
    return model


def _limits(read: Reader) -> EpisodeLimits:
    default = EpisodeLimits()
    return EpisodeLimits(
        tool_calls=read.number("max-tool-calls", int, at_least=1) or default.tool_calls,
        turns=read.number("max-turns", int, at_least=1),
        wall_seconds=read.number("rollout-timeout", float, above=0) or default.wall_seconds,
        total_tokens=read.number("max-total-tokens", int, at_least=1),
    )


def _gates(read: Reader) -> Gates:
    default = Gates()
    alpha = read.number("alpha", float, above=0, at_most=1)
    return Gates(
        pass_rate=read.rates("min-pass-rate"),
        pass_rate_lower=read.rates("min-pass-rate-lower"),
        max_infra_rate=_default(
            read.number("max-infra-rate", float, at_least=0, at_most=1), default.max_infra_rate
        ),
        alpha=_default(alpha, default.alpha),
    )


def _default(value: T | None, default: T) -> T:
    return default if value is None else value
