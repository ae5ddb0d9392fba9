"""Tables of names and numbers for a terminal: they fit its width, and no number is ever broken."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.text import Text

GAP = 2
SHORTEST = 16
"""Columns that names keep: where the numbers need more than the rest, lines are longer."""


@dataclass(frozen=True, slots=True)
class Column:
    """Numbers, one per row. Where names need the room, those of higher ``spare`` go first."""

    title: str
    cells: Sequence[str]
    spare: int = 0
    styles: Sequence[str] = ()

    @property
    def width(self) -> int:
        return max(len(text) for text in (self.title, *self.cells)) + GAP


def fitting(names: Sequence[str], columns: Sequence[Column], *, width: int) -> list[Column]:
    """The columns that leave the names their room, in their order."""
    from rich.cells import cell_len

    wanted = max(map(cell_len, names), default=0)
    shown = list(columns)
    for column in sorted(columns, key=lambda column: -column.spare):
        if not column.spare or _room(shown, width) >= wanted:
            break
        shown.remove(column)
    return shown


def drawn(
    names: Sequence[str],
    columns: Sequence[Column],
    *,
    width: int,
    color: bool,
    bold: Sequence[int] = (),
) -> list[str]:
    """The table's lines; names that are too long are folded, ``bold`` says which rows are."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    built.add_column("group", overflow="fold", ratio=1)
    for column in columns:
        built.add_column(Text(column.title), justify="right", no_wrap=True)
    for number, name in enumerate(names):
        cells: list[Text] = [
            Text(column.cells[number], style=column.styles[number] if column.styles else "")
            for column in columns
        ]
        style = "bold" if number in bold else None
        built.add_row(Text(name), *cells, style=style)
    buffer = StringIO()
    needed = width - _room(columns, width) + SHORTEST
    console = Console(
        file=buffer,
        width=max(width, needed),
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
    )
    console.print(built)
    return [line.rstrip() for line in buffer.getvalue().strip("\n").splitlines()]


def printable(text: str) -> str:
    """The text without anything that a terminal would act on."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _room(columns: Sequence[Column], width: int) -> int:
    """What is left for names; the last column's gap is not needed, the names' own is."""
    return width - sum(column.width for column in columns)
