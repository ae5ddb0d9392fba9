"""Reads what an offline run of W&B keeps: records of protobuf in LevelDB's log format."""

from __future__ import annotations

import json
import struct
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE_HEADER = 7
BLOCK = 1 << 15
HEADER = struct.Struct("<IHB")  # checksum, length, kind
FULL, LAST = 1, 4
SECONDS = 60.0


def history(folder: Path) -> dict[int, dict[str, Any]]:
    """The rows of the one run below ``folder``, by step, without what W&B adds."""
    rows: dict[int, dict[str, Any]] = {}
    for record in _records(folder):
        if record.WhichOneof("record_type") == "history":
            values = {
                "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                for item in record.history.item
            }
            step = values["_step"]
            rows[step] = {name: values[name] for name in values if not name.startswith("_")}
    return rows


def alerts(folder: Path) -> list[tuple[str, str, str]]:
    """Title, text and level of the alerts of that run."""
    return [
        (record.alert.title, record.alert.text, record.alert.level)
        for record in _records(folder)
        if record.WhichOneof("record_type") == "alert"
    ]


def _records(folder: Path) -> list[Any]:
    """All of them; a run is written by a process of W&B's own, a little later than it finishes."""
    [file] = folder.glob("wandb/offline-run-*/*.wandb")
    deadline = time.monotonic() + SECONDS
    while True:
        records = list(_parsed(file.read_bytes()))
        if records and records[-1].WhichOneof("record_type") == "exit":
            return records
        assert time.monotonic() < deadline, f"{file} is not complete"
        time.sleep(0.05)


def _parsed(data: bytes) -> Iterator[Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    at, record = FILE_HEADER, b""
    while at + HEADER.size <= len(data):
        left = BLOCK - at % BLOCK
        if left < HEADER.size:  # the rest of a block is left empty
            at += left
            continue
        _, length, kind = HEADER.unpack_from(data, at)
        at += HEADER.size
        record += data[at : at + length]
        at += length
        if kind in {FULL, LAST}:
            yield Record.FromString(record)
            record = b""
