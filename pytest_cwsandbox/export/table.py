"""What an export holds, and how it becomes a file: JSONL or Parquet, whole or not at all."""

from __future__ import annotations

import json
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pytest_cwsandbox.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory

Kind = Literal["text", "integer", "number", "messages"]
"""Of a column; "messages" is a list of JSON objects that need not have the same fields."""


@dataclass(slots=True)
class Table:
    """Rows in order. ``left_out`` counts trajectories by the reason; ``used`` are the others.

    ``contents`` says what the rows are, for the report.
    """

    columns: Mapping[str, Kind]
    rows: list[dict[str, object]] = field(default_factory=list)
    used: list[RecordedTrajectory] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    contents: str = ""


def json_text(value: object) -> str:
    """Strict JSON: ``UserError`` for NaN and infinities; half surrogate pairs become "?"."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise UserError(
            "a recorded number is not finite, which JSON cannot hold; "
            "look for NaN and Infinity in the run's trajectories files"
        ) from None
    return text.encode(errors="replace").decode()


def write(table: Table, path: Path) -> None:
    """Write to a file beside ``path`` and move it there; ``UserError`` when that fails."""
    content = _parquet(table) if path.suffix == ".parquet" else _jsonl(table.rows)
    try:
        _replace(path, content)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def _jsonl(rows: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json_text(row) + "\n" for row in rows).encode()


def _parquet(table: Table) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {
        "text": pa.string(),
        "integer": pa.int64(),
        "number": pa.float64(),
        "messages": pa.list_(pa.json_()),
    }
    arrays = []
    for name, kind in table.columns.items():
        values = [_cell(row[name], kind) for row in table.rows]
        # pyarrow makes no JSON arrays from Python values, but casts text to them.
        made_as = pa.list_(pa.string()) if kind == "messages" else kinds[kind]
        arrays.append(pa.array(values, type=made_as).cast(kinds[kind]))
    schema = pa.schema([(name, kinds[kind]) for name, kind in table.columns.items()])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(arrays, schema=schema), sink, compression="zstd")
    return bytes(sink.getvalue())


def _cell(value: object, kind: Kind) -> object:
    if kind == "messages" and isinstance(value, list):
        return [json_text(message) for message in value]
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return value


def _replace(path: Path, content: bytes) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)  # mkstemp's 0600 is for secrets
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
