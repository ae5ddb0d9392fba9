"""What a runner remembers of sandboxes that are gone is bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cwsandbox._proto import sandbox_pb2 as pb

from pytest_cwsandbox.local import records
from pytest_cwsandbox.local.records import Record, Records

if TYPE_CHECKING:
    import pytest


def ended(known: Records, name: str, *, size: int = 0) -> Record:
    """A sandbox that has come and gone."""
    container = pb.Container(name="main", args=["x" * size])
    record = Record(name, pb.SandboxSpec(containers=[container]), request_id=f"request-{name}")
    known.add(record)
    record.end(pb.STATE_COMPLETED, exit_code=0)
    known.retire(record)
    return record


async def test_the_oldest_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ENDED_RECORDS", 2)
    known = Records()
    for name in ("a", "b", "c"):
        ended(known, name)
    assert known.get("a") is None
    assert known.made_by("request-a") is None
    assert [record.id for record in known.ended()] == ["b", "c"]


async def test_large_ones_count_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ENDED_BYTES", 100_000)
    known = Records()
    for name in ("a", "b", "c", "d"):
        ended(known, name, size=40_000)
    assert [record.id for record in known.ended()] == ["c", "d"]


async def test_the_living_are_never_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ENDED_RECORDS", 0)
    known = Records()
    alive = Record("alive", pb.SandboxSpec(containers=[pb.Container()]))
    known.add(alive)
    ended(known, "a")
    assert known.get("alive") is alive
    assert known.live() == [alive]
    assert known.ended() == []
