"""Charts for HTML reports: plain SVG that follows the page's width and colours.

Every function returns one ``<figure class="chart ...">`` that a page takes in as it is; an empty
``Markup`` where there is nothing to draw. Coordinates are percentages, so that a chart takes the
width that it gets while its text keeps its size. ``charts.css`` styles the classes below; a page
includes it after its own style sheet, which may set the colours ``--good``, ``--bad``, ``--warn``,
``--accent``, ``--muted`` and ``--line`` (there are defaults for light and dark).

``chart`` with ``chart-rows`` (a ``chart-row`` of ``chart-name``, ``chart-plot``, ``chart-value``
for each group or verdict, ``chart-axis`` below) or ``chart-columns`` (``chart-plot`` over
``chart-axis``). Inside: ``grid``, ``interval``, ``dot``, ``bar``, ``mark``, and their tone:
``good``, ``bad``, ``warn``, ``accent``, ``muted``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from markupsafe import Markup

from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.reports.html.document import breakable, clip, visible
from pytest_cwsandbox.reports.preflight import by_pass_rate
from pytest_cwsandbox.runs.statistics import quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_cwsandbox.runs.statistics import GroupSummary

NOTHING = Markup()
QUARTERS = (0, 0.25, 0.5, 0.75, 1)
ROW = 22  # pixels
ROWS = 60  # at most, of groups or verdicts
COLUMNS = 140  # pixels
BINS = 24  # at most, of a histogram
LABELS = 6  # at most, below a histogram: a phone has no room for more
NO_VERDICT = "no verdict"
LOST = frozenset({Verdict.INFRASTRUCTURE_ERROR.value, "model_error"})


@dataclass(frozen=True, slots=True)
class RateBar:
    """A pass rate from 0 to 1 with its interval; None without samples.

    ``before`` is the same group's in an earlier run, drawn above it.
    """

    name: str
    rate: float | None
    interval: tuple[float, float] | None = None
    passed: int = 0
    samples: int = 0
    before: RateBar | None = None

    @classmethod
    def of(cls, group: GroupSummary, before: GroupSummary | None = None) -> Self:
        return cls(
            group.group,
            group.pass_rate,
            group.interval,
            group.passed,
            group.samples,
            cls.of(before) if before else None,
        )

    def __str__(self) -> str:
        if self.rate is None:
            return "no samples"
        text = f"{self.rate:.1%}"
        if self.interval is not None:
            text += f" ({self.interval[0]:.1%} to {self.interval[1]:.1%})"
        return f"{text}, {self.passed:,} of {self.samples:,} passed" if self.samples else text


def rates_chart(rows: Sequence[RateBar], *, label: str = "Pass rate with 95% interval") -> Markup:
    """A dot with its interval per group, on an axis from 0 to 100 %."""
    if not rows:
        return NOTHING
    lowest = sorted(rows, key=lambda row: math.inf if row.rate is None else row.rate)[:ROWS]
    drawn = [_rate_row(row) for row in (rows if len(rows) <= ROWS else lowest)]
    axis = Markup().join(_text(share, f"{share:.0%}", 12, _anchor(share)) for share in QUARTERS)
    drawn.append(_row(NOTHING, _svg(axis, 16, "chart-axis"), NOTHING))
    if len(rows) > ROWS:
        drawn.append(_caption(f"The {ROWS} with the lowest rates, of {len(rows):,}."))
    return _figure("chart-rows", f"{label}: {_many(len(rows), 'group')}", drawn)


def verdict_chart(counts: Mapping[str, int], *, label: str = "Verdicts") -> Markup:
    """A bar per verdict, the most frequent first."""
    total = sum(counts.values())
    if not total:
        return NOTHING
    most = max(counts.values())
    drawn = []
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    for verdict, count in ordered[:ROWS]:
        tone = "good" if verdict == Verdict.PASSED.value else "bad"
        tone = "warn" if verdict in LOST else "muted" if verdict == NO_VERDICT else tone
        told = f"{clip(verdict)}: {count:,} of {total:,} ({count / total:.1%})"
        bar = _rect(0, count / most, 5, ROW - 10, f"bar {tone}", told)
        value = Markup("{:,} <small>{:.1%}</small>").format(count, count / total)
        drawn.append(_row(_name(verdict), _svg(bar, ROW), value))
    if len(counts) > ROWS:
        drawn.append(_caption(f"The {ROWS} most frequent, of {len(counts):,}."))
    return _figure("chart-rows", f"{label}: {_many(total, 'sample')}", drawn)


def flips_chart(regressed: int, improved: int, unchanged: int) -> Markup:
    """One bar that shows how many problems changed sides between two runs."""
    total = regressed + improved + unchanged
    if not total:
        return NOTHING
    parts = (
        ("regressed", regressed, "bad"),
        ("unchanged", unchanged, "muted"),
        ("improved", improved, "good"),
    )
    drawn, start = [], 0.0
    for name, count, tone in parts:
        told = f"{name}: {count:,} of {total:,} ({count / total:.1%})"
        if count:
            drawn.append(_rect(start, count / total, 3, 16, f"bar {tone}", told))
        start += count / total
    label = ", ".join(f"{count:,} {name}" for name, count, _ in parts)
    return _figure("chart-columns", label, [_svg(Markup().join(drawn), 22), _caption(label)])


def latency_histogram(
    seconds: Iterable[float], *, label: str = "Samples by wall time in seconds"
) -> Markup:
    """Samples by wall time, with the median and the 95th percentile marked.

    Bins have equal widths, or equal ratios where the times span more than a factor of 20.
    """
    times = sorted(time for time in seconds if math.isfinite(time) and time >= 0)
    if not times:
        return NOTHING
    edges = _edges(times[0], times[-1])
    counts = [0] * (len(edges) - 1)
    place = 0
    for time in times:
        while place < len(counts) - 1 and time >= edges[place + 1]:
            place += 1
        counts[place] += 1
    told = [
        f"{_seconds(low)} to {_seconds(high)}: {_many(count, 'sample')}"
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    marks = []
    for name, share in (("median", 0.5), ("95th percentile", 0.95)):
        value = quantile(times, share) or 0.0
        marks.append((_position(value, edges), f"{name}: {_seconds(value)}"))
    every = math.ceil(len(edges) / LABELS)
    labels = [
        (place / len(counts), _seconds(edge))
        for place, edge in enumerate(edges)
        if place % every == 0
    ]
    columns = [(count, told, "accent") for count, told in zip(counts, told, strict=True)]
    return _columns(f"{label}: {_many(len(times), 'sample')}", columns, labels, marks)


def signal_histogram(rates: Iterable[float], *, label: str = "Problems by pass rate") -> Markup:
    """Problems by pass rate; at both ends there is nothing to learn."""
    counts = by_pass_rate(rates)
    total = sum(counts.values())
    if not total:
        return NOTHING
    columns, labels = [], []
    for place, (name, count) in enumerate(counts.items()):
        end = name in {"0%", "100%"}
        told = f"pass rate {name}: {_many(count, 'problem')}" + (", nothing to learn" * end)
        columns.append((count, told, "muted" if end else "accent"))
        labels.append(((place + 0.5) / len(counts), name))
    return _columns(f"{label}: {_many(total, 'problem')}", columns, labels, ())


def _rate_row(row: RateBar) -> Markup:
    rates = [(row, "accent")] if row.before is None else [(row.before, "muted"), (row, "accent")]
    parts = [
        Markup('<line class="grid" x1="{0}" x2="{0}" y1="0" y2="100%"/>').format(_percent(share))
        for share in QUARTERS
    ]
    for place, (rate, tone) in enumerate(rates):
        parts.append(_dot(rate, ROW * (place + 0.5), tone, f"{clip(row.name)}: {rate}"))
    values = Markup().join(map(_value, (rate for rate, _ in rates)))
    return _row(_name(row.name), _svg(Markup().join(parts), ROW * len(rates)), values)


def _dot(rate: RateBar, y: float, tone: str, told: str) -> Markup:
    if rate.rate is None:
        return NOTHING
    line = NOTHING
    if rate.interval is not None:
        line = Markup('<line class="interval {}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(
            tone, *map(_percent, rate.interval), y, y
        )
    return Markup(
        '<g>{}<circle class="dot {}" cx="{}" cy="{}" r="4.5"/><title>{}</title></g>'
    ).format(line, tone, _percent(rate.rate), y, visible(told))


def _value(rate: RateBar) -> Markup:
    if rate.rate is None:
        return Markup("<span>-</span>")
    interval = NOTHING
    if rate.interval is not None:
        low, high = rate.interval
        interval = Markup(" <small>{:.1f}..{:.1%}</small>").format(low * 100, high)
    return Markup("<span>{:.1%}{}</span>").format(rate.rate, interval)


def _columns(
    label: str,
    columns: Sequence[tuple[int, str, str]],
    labels: Iterable[tuple[float, str]],
    marks: Iterable[tuple[float, str]],
) -> Markup:
    """Columns side by side, as (count, what it says, tone); labels and marks have a place."""
    most = max(count for count, _, _ in columns)
    width = 1 / len(columns)
    parts = [
        Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>').format(COLUMNS),
        _text(0, f"{most:,}", 11, "start"),
    ]
    for place, (count, told, tone) in enumerate(columns):
        height = max(round(count / most * (COLUMNS - 18), 1), 2) if count else 0
        x = place * width + width * 0.05
        bar = _rect(x, width * 0.9, COLUMNS - height, height, f"bar {tone}", told)
        parts.append(bar if count else NOTHING)
    for x, told in marks:
        line = Markup(
            '<g><line class="mark" x1="{0}" x2="{0}" y1="14" y2="{1}"/><title>{2}</title></g>'
        )
        parts.append(line.format(_percent(x), COLUMNS, told))
    axis = Markup().join(_text(x, name, 12, _anchor(x)) for x, name in labels)
    body = [
        _svg(Markup().join(parts), COLUMNS + 1),
        _svg(axis, 18, "chart-axis"),
    ]
    if told := "; ".join(told for _, told in marks):
        body.append(_caption(told))
    return _figure("chart-columns", label, body)


def _edges(low: float, high: float) -> list[float]:
    """Round edges of at most ``BINS`` bins from ``low`` to beyond ``high``."""
    floor = max(low, 0.001)
    if high > 20 * floor:
        steps = (1, 2, 5) if math.log10(high / floor) > 3 else (1, 1.5, 2, 3, 5, 7)
        decades = range(math.floor(math.log10(floor)), math.ceil(math.log10(high)) + 1)
        edges = [step * 10.0**decade for decade in decades for step in steps]
        first = max(place for place, edge in enumerate(edges) if edge <= floor or place == 0)
        last = next(place for place, edge in enumerate(edges) if edge > high or edge is edges[-1])
        edges = edges[first : last + 1]
        return [0.0, *edges[1:]] if low < edges[0] else edges
    raw = max(high - low, 0.001) / 12
    scale = 10.0 ** math.floor(math.log10(raw))
    step = next(scale * factor for factor in (1, 2, 5, 10) if scale * factor >= raw)
    first = math.floor(low / step)
    last = math.floor(high / step) + 1
    return [round(step * place, 9) for place in range(first, last + 1)]


def _position(value: float, edges: Sequence[float]) -> float:
    """Where a value stands between edges that are drawn at equal distances, from 0 to 1."""
    place = max((i for i, edge in enumerate(edges[:-1]) if edge <= value), default=0)
    inside = (value - edges[place]) / (edges[place + 1] - edges[place])
    return min(max((place + inside) / (len(edges) - 1), 0), 1)


def _figure(kind: str, label: str, body: Iterable[Markup]) -> Markup:
    return Markup('<figure class="chart {}" role="img" aria-label="{}">{}</figure>').format(
        kind, visible(label), Markup().join(body)
    )


def _row(name: Markup, plot: Markup, value: Markup) -> Markup:
    return Markup('<div class="chart-row">{}{}<span class="chart-value">{}</span></div>').format(
        name or Markup('<span class="chart-name"></span>'), plot, value
    )


def _name(name: str) -> Markup:
    """The style sheet cuts a long name where the room ends; the title has all of it."""
    return Markup('<span class="chart-name" title="{}">{}</span>').format(
        visible(clip(name)), breakable(clip(name))
    )


def _caption(text: str) -> Markup:
    return Markup("<figcaption>{}</figcaption>").format(text)


def _svg(content: Markup, height: float, kind: str = "chart-plot") -> Markup:
    return Markup(
        '<svg class="{}" xmlns="http://www.w3.org/2000/svg" width="100%" height="{}" '
        'overflow="visible" aria-hidden="true">{}</svg>'
    ).format(kind, height, content)


def _rect(x: float, width: float, y: float, height: float, kind: str, told: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    ).format(kind, _percent(x), y, _percent(width), height, visible(told))


def _text(x: float, text: str, y: float, anchor: str) -> Markup:
    return Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(
        _percent(x), y, anchor, text
    )


def _anchor(share: float) -> str:
    """Labels at the ends stay inside."""
    if share < 0.02:
        return "start"
    return "end" if share > 0.98 else "middle"


def _percent(share: float) -> str:
    return f"{share * 100:.4g}%"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value < 1000 else f"{value:,.0f} s"


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)
