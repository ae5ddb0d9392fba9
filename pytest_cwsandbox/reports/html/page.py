"""The report's page: what is said where."""

from __future__ import annotations

import math
import shlex
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.reports import validation
from pytest_cwsandbox.reports.html import charts
from pytest_cwsandbox.reports.html.document import CLIPPED, clip
from pytest_cwsandbox.reports.html.samples import samples
from pytest_cwsandbox.reports.html.signal import signal_of
from pytest_cwsandbox.reports.html.verdict import verdict_of
from pytest_cwsandbox.reports.models import models_of
from pytest_cwsandbox.runs.statistics import metric

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pytest_cwsandbox.findings import Finding
    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.reports.html.source import Source

FLIPS = 50  # problems named per direction
ROWS = 1_000  # of a table of rates
LONG = 10_000  # characters of a fact


@dataclass(frozen=True, slots=True)
class Tile:
    """A number that people look for first."""

    name: str
    value: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Rate:
    """A group's line in the table of rates; ``k`` holds pass@k and pass^k by their names."""

    group: str
    samples: int
    passed: int
    pass_rate: float | None
    interval: tuple[float, float] | None
    mean_reward: float | None
    lost: int
    median: float | None
    p95: float | None
    k: dict[str, float | None]

    @classmethod
    def of(cls, group: Mapping[str, object]) -> Rate:
        """Of a group as summary.json has it."""
        told = cast("dict[str, float | None]", group)
        kinds = (("pass@", "pass_at"), ("pass^", "pass_hat"))
        return cls(
            group=str(group["group"]),
            samples=cast("int", group["samples"]),
            passed=cast("int", group["passed"]),
            pass_rate=told["pass_rate"],
            interval=cast("tuple[float, float] | None", group["interval"]),
            mean_reward=told["mean_reward"],
            lost=cast("int", group["infrastructure_errors"]),
            median=told["p50_seconds"],
            p95=told["p95_seconds"],
            k={
                f"{sign}{k}": value
                for sign, name in kinds
                for k, value in cast("dict[str, float | None]", group.get(name) or {}).items()
            },
        )

    def bar(self) -> charts.RateBar:
        return charts.RateBar(self.group, self.pass_rate, self.interval, self.passed, self.samples)


def context(source: Source) -> dict[str, object]:
    """What ``report.html.j2`` shows."""
    records = source.records
    told = source.summary
    pooled = Rate.of(_group(told["all"]))
    groups = [Rate.of(group) for group in _groups(told["groups"])]
    by = cast("dict[str, object]", told["by"])
    slices = [Rate.of(group) for group in _groups(by["groups"])]
    several = [*groups, pooled] if len(groups) > 1 else groups
    scored = [record for record in records if record.reward is not None]
    return {
        "run": told["run"],
        "verdict": verdict_of(source),
        "low": len(scored) - pooled.passed,
        "lost": pooled.lost,
        "notes": source.notes,
        "head": list(_head(source)),
        "provenance": list(_facts(source.provenance)),
        "tiles": list(_tiles(source, pooled)),
        "rates": several,
        "slices": slices,
        "slice_keys": ", ".join(cast("list[str]", by["keys"])),
        "rates_chart": charts.rates_chart([rate.bar() for rate in several]),
        "slices_chart": charts.rates_chart([rate.bar() for rate in slices]),
        "verdict_chart": charts.verdict_chart(_verdicts(records)),
        "latency_chart": charts.latency_histogram(record.seconds for record in scored),
        "signal": signal_of(records),
        "comparison": told["comparison"],
        "flips": FLIPS,
        "rows": ROWS,
        "short": CLIPPED,
        **_validation(source.findings),
        **samples(source),
    }


def _group(told: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", told)


def _groups(told: object) -> Sequence[Mapping[str, object]]:
    return cast("Sequence[Mapping[str, object]]", told)


def _head(source: Source) -> Iterator[tuple[str, str]]:
    """The line below the title: what ran, on what."""
    if models := models_of(source.records, str(source.provenance.get("model") or "")):
        yield "model", models
    if origin := source.rescored_from:
        yield "rescored from", origin
    for name in ("started", "backend", "image", "command"):
        value = source.provenance.get(name)
        if isinstance(value, list):
            yield name, shlex.join(map(str, value))
        elif isinstance(value, str | int | float) and value != "":
            yield name, str(value)


def _facts(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Nested JSON as lines, each with the way to it."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _facts(part, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        yield clip(name), clip(" ".join(map(str, value)), LONG)
    elif value is not None and value != "":
        yield clip(name), clip(str(value), LONG)


def _verdicts(records: Sequence[SampleRecord]) -> Counter[str]:
    """All samples by verdict; nothing where none has one."""
    counts = Counter(record.verdict or charts.NO_VERDICT for record in records)
    return counts if counts.keys() != {charts.NO_VERDICT} else Counter()


def _tiles(source: Source, pooled: Rate) -> Iterator[Tile]:
    records = source.records
    if pooled.pass_rate is not None:
        low, high = pooled.interval or (0.0, 1.0)
        yield Tile("pass rate", f"{pooled.pass_rate:.1%}", f"{low * 100:.1f}..{high:.1%}")
    note = f"of {source.planned:,} planned" if source.planned > len(records) else ""
    yield Tile("samples", f"{len(records):,}", note or f"{pooled.passed:,} passed")
    if problems := {(record.group, record.problem) for record in records if record.problem}:
        groups = len({group for group, _ in problems})
        yield Tile("problems", f"{len(problems):,}", f"in {groups} groups" if groups > 1 else "")
    if pooled.mean_reward is not None:
        yield Tile("mean reward", f"{pooled.mean_reward:.3f}")
    share = pooled.lost / len(records) if records else 0.0
    yield Tile("infra lost", f"{pooled.lost:,}", f"{share:.1%}" if pooled.lost else "")
    yield Tile("retried", f"{cast('int', source.summary['retries']):,}")
    read, wrote, costs = (_metrics(records, name) for name in ("tokens_in", "tokens_out", "cost"))
    if read:
        tokens = sum(read) + sum(wrote)
        yield Tile("tokens", _short(tokens), f"{tokens / len(read):,.0f} each")
    if costs:
        yield Tile("cost", f"${sum(costs):,.2f}")
    if pooled.median is not None:
        yield Tile("median time", f"{pooled.median:.2f} s", f"p95 {pooled.p95:.2f} s")


def _metrics(records: Iterable[SampleRecord], name: str) -> list[float]:
    """The numbers of this name that samples have; nothing where their sum is none."""
    found = [value for record in records if (value := metric(record, name)) is not None]
    return found if math.isfinite(sum(found)) else []


def _short(count: float) -> str:
    for unit, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= unit:
            return f"{count / (unit if name != 'k' else 1e3):.1f}{name}"
    return f"{count:,.0f}"


def _validation(findings: Sequence[Finding]) -> dict[str, object]:
    if not findings:
        return {"findings": []}
    ready, line = validation.verdict("the reward function", findings)
    return {
        "findings": [
            {
                "check": check,
                "items": len(of),
                "bad": sum(finding.status == "bad" for finding in of),
                "unknown": sum(finding.status == "not checkable" for finding in of),
                "good": sum(finding.good for finding in of),
                "total": sum(finding.total for finding in of),
            }
            for check in validation.ORDER
            if (of := [finding for finding in findings if finding.check == check])
        ],
        "reward_ready": ready,
        "reward_verdict": line,
        "exploits": validation.exploits(findings),
        "complaints": validation.complaints(findings),
    }
