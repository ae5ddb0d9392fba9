"""The `cwsandbox pass rates` section at the end of a test run."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.statistics import GroupSummary


def table(groups: Sequence[GroupSummary], pooled: GroupSummary, *, width: int, color: bool) -> str:
    """A table of pass rates that fits ``width`` columns, with the pooled line last."""
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=color, no_color=not color, highlight=False
    )
    console.print(_table([*groups, pooled] if len(groups) > 1 else groups))
    return "\n".join(line.rstrip() for line in buffer.getvalue().strip("\n").splitlines())


def _table(rows: Sequence[GroupSummary]) -> Table:
    from rich.table import Table

    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    built.add_column("group", overflow="fold", ratio=1)
    for name in ("passed", "rate", "95% interval", "mean", "infra", "p50 s", "p95 s"):
        built.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        built.add_row(
            row.group,
            f"{row.passed}/{row.samples}",
            "-" if row.pass_rate is None else f"{row.pass_rate:.1%}",
            "-" if row.interval is None else f"{row.interval[0]:.1%}..{row.interval[1]:.1%}",
            _number(row.mean_reward, 3),
            str(row.infrastructure_errors or "-"),
            _number(row.p50_seconds, 2),
            _number(row.p95_seconds, 2),
            style="bold" if row.group == "all" and len(rows) > 1 else None,
        )
    return built


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def models(records: Sequence[SampleRecord]) -> list[str]:
    """A line per model that was rolled out; empty without rollouts."""
    by_model: dict[str, list[SampleRecord]] = {}
    for record in records:
        if "model" in record.metadata:
            by_model.setdefault(record.metadata["model"], []).append(record)
    return [line for model in sorted(by_model) for line in _model(model, by_model[model])]


def _model(model: str, records: Sequence[SampleRecord]) -> list[str]:
    def mean(name: str) -> float:
        return sum(float(record.metadata[name]) for record in records) / len(records)

    tokens = mean("tokens_in") + mean("tokens_out")
    each = (
        f"{mean('turns'):.1f} turns, {mean('tool_calls'):.1f} tool calls, {tokens:,.0f} tokens each"
    )
    lines = [f"model {model}: {len(records)} rollouts, {each}"]
    costs = [float(record.metadata["cost"]) for record in records if "cost" in record.metadata]
    if costs:
        lines.append(f"model {model}: {sum(costs):,.2f} US dollars")
    if is_scripted(model):
        lines.append(f"model {model}: {NOT_A_MODEL}")
    if unknown := sum("unknown" in record.metadata for record in records):
        lines.append(
            f"model {model}: {unknown} of {len(records)} it does not know: choose a model with "
            "--cwsandbox-model"
        )
    return lines


def verdicts(groups: Sequence[GroupSummary]) -> str:
    """One line that counts verdicts over all groups; empty when there are none."""
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.verdicts)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
