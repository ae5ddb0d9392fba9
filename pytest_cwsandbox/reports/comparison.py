"""Two runs beside each other, as text."""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports.columns import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from pytest_cwsandbox.runs.comparison import Comparison, Flip, Paired

LISTED = 10


def table(compared: Comparison, *, width: int, color: bool) -> str:
    """A row per group, the pooled one last, in ``width`` columns."""
    from rich.console import Console

    buffer = StringIO()
    console = Console(
        file=buffer, width=width, force_terminal=color, no_color=not color, highlight=False
    )
    console.print(_table(compared, width))
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines())


def _table(compared: Comparison, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    rows = [*compared.groups, compared.pooled] if len(compared.groups) != 1 else compared.groups
    cells = [_cells(row) for row in rows]
    numbers = ("pairs", "before", "after", "change", "p worse")
    room = width - sum(
        2 + max(len(name), *(len(row[place]) for row in cells))
        for place, name in enumerate(numbers)
    )
    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    built.add_column("group", no_wrap=True)
    for name in numbers:
        built.add_column(name, justify="right", no_wrap=True)
    for row, values in zip(rows, cells, strict=True):
        pooled = row is compared.pooled and len(rows) > 1
        group = Text(cut(row.group, max(room, 8)))  # brackets in it are no markup
        built.add_row(group, *values, style="bold" if pooled else None)
    return built


def _cells(row: Paired) -> tuple[str, ...]:
    before, after = row.rate_before, row.rate_after
    if before is None or after is None or row.p_value is None:
        return str(row.pairs), "-", "-", "-", "-"
    change = f"{100 * (after - before):+.1f}"
    return str(row.pairs), f"{before:.1%}", f"{after:.1%}", change, f"{row.p_value:.2g}"


def counts(compared: Comparison, *, width: int) -> list[str]:
    """What the two runs are called, and which samples are in one only."""
    alone = {
        "not run": compared.missing,
        "lost to infrastructure": compared.lost,
        "new": compared.new,
    }
    said = ", ".join(f"{count} {what}" for what, count in alone.items() if count)
    pairs = compared.pooled.pairs
    return [
        f"compared with: {cut(compared.before, width - 15)}",
        f"compared: {pairs} samples in both" + (f"; {said}" if said else ""),
    ]


def flips(word: str, flipped: Sequence[Flip], *, width: int) -> list[str]:
    """A line per problem that flipped; the first few."""
    lines = []
    for flip in flipped[:LISTED]:
        numbers = f": {flip.before}/{flip.pairs} -> {flip.after}/{flip.pairs}"
        name = cut(name_of(flip), width - len(word) - len(numbers) - 2)
        lines.append(f"{word}: {name}{numbers}")
    more = len(flipped) - LISTED
    return lines + ([f"{word}: and {more} more"] if more > 0 else [])


def name_of(flip: Flip) -> str:
    """The problem with its group; the id of a sample without a problem names both."""
    return flip.problem if "::" in flip.problem else f"{flip.group} {flip.problem}"


def verdict(compared: Comparison, alpha: float) -> tuple[str, bool]:
    """Whether the later run is significantly worse, in a line, and as a truth value."""
    of = compared.pooled
    if of.p_value is None:
        return "no sample in common: nothing to compare", False
    regressed = of.regressed(alpha)
    word = "REGRESSED" if regressed else "no significant regression"
    return (
        f"{of.before} of {of.pairs} passed before, {of.after} after ({of.test}): {word}",
        regressed,
    )


def cut(name: str, width: int) -> str:
    """The name as text, without its middle where it is too long: ends tell names apart."""
    name = printable(name)
    if len(name) <= width:
        return name
    head = max(width // 3 - 3, 0)
    return f"{name[:head]}...{name[len(name) - (width - head - 3) :]}"
