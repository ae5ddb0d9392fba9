"""The `cwsandbox pass rates` section at the end of a test run."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports.columns import Column, drawn, fitting, printable
from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted
from pytest_cwsandbox.runs.statistics import metadata_keys, metric

LISTED = 10
CLUSTERED = "intervals of groups with several samples per problem are clustered by problem"
NO_METADATA = "none has any metadata: give some with record_reward(..., metadata={...})"

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_cwsandbox.outcome import SampleRecord
    from pytest_cwsandbox.runs.statistics import GroupSummary
    from pytest_cwsandbox.runs.summary import Summary


def tables(
    summary: Summary, records: Sequence[SampleRecord], *, width: int, color: bool
) -> Iterator[tuple[str, str]]:
    """The rates by group and by metadata, and what must be known to read them: text and style."""
    yield table(summary.groups, summary.pooled, width=width, color=color), ""
    if summary.pooled.pass_at:
        yield passes(summary.groups, summary.pooled, width=width, color=color), ""
    if summary.by:
        yield heading(summary.keys, records), "bold"
        yield table(summary.by, width=width, color=color, spent=True), ""
        if summary.pooled.pass_at:
            yield passes(summary.by, width=width, color=color), ""
    yield from ((line, "yellow") for line in unknown_keys(summary.keys, records))
    yield from ((line, "") for line in notes([*summary.groups, *summary.by, summary.pooled]))


def table(
    groups: Sequence[GroupSummary],
    pooled: GroupSummary | None = None,
    *,
    width: int,
    color: bool,
    spent: bool = False,
) -> str:
    """A table of pass rates that fits ``width`` columns, with the pooled line last.

    ``spent`` adds what rollouts took, where there is room.
    """
    rows = _rows(groups, pooled)
    columns = [
        Column("passed", [f"{row.passed}/{row.samples}" for row in rows]),
        Column("rate", [_share(row.pass_rate) for row in rows], styles=[_style(r) for r in rows]),
        Column("95% interval", [_interval(row) for row in rows]),
        Column("mean", [_number(row.mean_reward, 3) for row in rows], spare=4),
        Column(
            "infra",
            [str(row.infrastructure_errors or "-") for row in rows],
            styles=["yellow" if row.infrastructure_errors else "" for row in rows],
        ),
        Column("p50 s", [_number(row.p50_seconds, 2) for row in rows], spare=3),
        Column("p95 s", [_number(row.p95_seconds, 2) for row in rows]),
    ]
    if spent and any(row.tokens is not None for row in rows):
        columns.append(Column("tokens", [_number(row.tokens, 0) for row in rows], spare=1))
    if spent and any(row.cost is not None for row in rows):
        columns.append(Column("US $", [_number(row.cost, 2) for row in rows], spare=2))
    names = [printable(row.group) for row in rows]
    shown = fitting(names, columns, width=width)
    return "\n".join(drawn(names, shown, width=width, color=color, bold=_last(rows, pooled)))


def passes(
    groups: Sequence[GroupSummary],
    pooled: GroupSummary | None = None,
    *,
    width: int,
    color: bool,
) -> str:
    """A table of pass@k and pass^k, with the pooled line last; many k's need several."""
    rows = _rows(groups, pooled)
    names = [printable(row.group) for row in rows]
    columns = [Column(f"pass@{k}", [_share(r.pass_at[k]) for r in rows]) for k in rows[0].pass_at]
    columns += [
        Column(f"pass^{k}", [_share(row.pass_hat[k]) for row in rows])
        for k in rows[0].pass_hat
        if k > 1  # pass^1 is pass@1
    ]
    lines: list[str] = []
    problems = Column("problems", [str(row.problems) for row in rows])
    names_room = min(max(map(len, names)), width // 2)
    while columns:
        part = [problems]
        while columns and (
            len(part) == 1 or sum(c.width for c in [*part, columns[0]]) + names_room <= width
        ):
            part.append(columns.pop(0))
        lines += drawn(names, part, width=width, color=color, bold=_last(rows, pooled))
    return "\n".join(lines)


def notes(rows: Sequence[GroupSummary]) -> list[str]:
    """What must be known to read the tables of these rows."""
    lines = [CLUSTERED] if any(row.clustered for row in rows) else []
    for k in sorted({k for row in rows for k in row.pass_at}):
        if k > 1 and any(row.problems and row.pass_at[k] is None for row in rows):
            too_few = f"where a problem has fewer than {k} samples with a reward"
            lines.append(f"pass@{k}, pass^{k}: - {too_few}")
    return lines


def heading(keys: Sequence[str], records: Sequence[SampleRecord]) -> str:
    """What the table of rates by metadata is by."""
    there = metadata_keys(records)
    return f"by {', '.join(printable(key) for key in keys if key in there)}:"


def unknown_keys(keys: Sequence[str], records: Sequence[SampleRecord]) -> list[str]:
    """A line about the keys to group by that no sample has."""
    there = metadata_keys(records)
    unknown = [key for key in keys if key not in there]
    if not unknown:
        return []
    known = f"there are: {', '.join(map(printable, there))}" if there else NO_METADATA
    return [f"--cwsandbox-group-by: no sample has {', '.join(map(printable, unknown))}; {known}"]


def _rows(groups: Sequence[GroupSummary], pooled: GroupSummary | None) -> list[GroupSummary]:
    return [*groups, pooled] if pooled and len(groups) > 1 else [*groups]


def _last(rows: Sequence[GroupSummary], pooled: GroupSummary | None) -> list[int]:
    """The row of all samples, which is bold."""
    return [len(rows) - 1] if pooled and len(rows) > 1 else []


def _interval(row: GroupSummary) -> str:
    return "-" if row.interval is None else f"{row.interval[0]:.1%}..{row.interval[1]:.1%}"


def _style(row: GroupSummary) -> str:
    if row.pass_rate is None:
        return ""
    return "green" if row.pass_rate >= 0.9 else "yellow" if row.pass_rate >= 0.5 else "red"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def models(records: Sequence[SampleRecord]) -> list[str]:
    """A line per model that was rolled out; empty without rollouts."""
    by_model: dict[str, list[SampleRecord]] = {}
    for record in records:
        if "model" in record.metadata and _took(record) is not None:
            by_model.setdefault(str(record.metadata["model"]), []).append(record)
    return [line for model in sorted(by_model) for line in _model(model, by_model[model])]


def _took(record: SampleRecord) -> tuple[float, ...] | None:
    """Turns, tool calls and tokens of a rollout; None for a sample that is of none."""
    numbers = [metric(record, name) for name in ("turns", "tool_calls", "tokens_in", "tokens_out")]
    known = tuple(number for number in numbers if number is not None)
    return known if len(known) == len(numbers) else None


def _model(model: str, records: Sequence[SampleRecord]) -> list[str]:
    took = zip(*filter(None, map(_took, records)), strict=True)
    turns, tool_calls, *tokens = (sum(numbers) / len(records) for numbers in took)
    each = f"{turns:.1f} turns, {tool_calls:.1f} tool calls, {sum(tokens):,.0f} tokens each"
    lines = [f"model {model}: {len(records)} rollouts, {each}"]
    costs = [cost for record in records if (cost := metric(record, "cost")) is not None]
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
    """One line that counts verdicts over all groups; empty when there are none.

    Samples of a bare number have none, and are counted so that the line adds up.
    """
    counts: Counter[str] = Counter()
    for group in groups:
        counts.update(group.verdicts)
    samples = sum(group.samples + group.infrastructure_errors for group in groups)
    if counts and (without := samples - counts.total()):
        counts["no verdict"] += without
    return ", ".join(f"{name} {count}" for name, count in counts.most_common())
