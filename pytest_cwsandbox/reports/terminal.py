"""The `cwsandbox pass rates` section at the end of a test run."""

from __future__ import annotations

from collections import Counter
from io import StringIO
from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted

LISTED = 10

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.statistics import GroupSummary


def table(groups: Sequence[GroupSummary], pooled: GroupSummary, *, width: int, color: bool) -> str:
    """A table of pass rates that fits ``width`` columns, with the pooled line last."""
    rows = [*groups, pooled] if len(groups) > 1 else groups
    lines = _drawn(_table(rows, narrow=False), width=width, color=color)
    if len(lines) > len(rows) + 1:  # a name was broken: fewer numbers leave it more room
        lines = _drawn(_table(rows, narrow=True), width=width, color=color)
    return "\n".join(lines)


def _drawn(table: Table, *, width: int, color: bool) -> list[str]:
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=color, no_color=not color, highlight=False
    )
    console.print(table)
    return [line.rstrip() for line in buffer.getvalue().strip("\n").splitlines()]


def _table(rows: Sequence[GroupSummary], *, narrow: bool) -> Table:
    """With fewer numbers where the names of groups need the room."""
    from rich.table import Table

    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    built.add_column("group", overflow="fold", ratio=1)
    names = ("passed", "rate", "95% interval", "mean", "infra", "p50 s", "p95 s")
    shown = [name for name in names if not (narrow and name in {"mean", "p50 s"})]
    for name in shown:
        built.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        cells = {
            "passed": f"{row.passed}/{row.samples}",
            "rate": "-" if row.pass_rate is None else f"{row.pass_rate:.1%}",
            "95% interval": "-"
            if row.interval is None
            else f"{row.interval[0]:.1%}..{row.interval[1]:.1%}",
            "mean": _number(row.mean_reward, 3),
            "infra": str(row.infrastructure_errors or "-"),
            "p50 s": _number(row.p50_seconds, 2),
            "p95 s": _number(row.p95_seconds, 2),
        }
        built.add_row(
            row.group,
            *(cells[name] for name in shown),
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


def low_rewards(records: Sequence[SampleRecord]) -> list[str]:
    """A line per sample below full reward, and why; the first few."""
    low = [record for record in records if record.reward is not None and record.reward < 1]
    lines = []
    for record in low[:LISTED]:
        why = f"{record.verdict}: {record.detail}".strip(": ")
        lines.append(f"low reward: {record.id}: {record.reward:g} {why}".rstrip())
    return lines + _more("low reward", len(low) - LISTED)


def losses(records: Sequence[SampleRecord]) -> list[str]:
    """A line per reason why samples were lost to infrastructure; the first few."""
    reasons: dict[str, list[str]] = {}
    for record in records:
        if record.reward is None:
            reasons.setdefault(record.detail, []).append(record.id)
    lines = [
        f"infra: {ids[0]}: {detail}" if len(ids) == 1 else f"infra: {len(ids)} items: {detail}"
        for detail, ids in list(reasons.items())[:LISTED]
    ]
    return lines + _more("infra", sum(map(len, list(reasons.values())[LISTED:])))


def _more(what: str, count: int) -> list[str]:
    return [f"{what}: and {count} more"] if count > 0 else []


def verdicts(groups: Sequence[GroupSummary]) -> str:
    """One line that counts verdicts over all groups; empty when there are none."""
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.verdicts)
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
