"""The samples of a run for its page: the table, and as many details as the page can hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.reports.html import details, rows
from pytest_cwsandbox.reports.html.details import BUDGET, Details, Packed, pack
from pytest_cwsandbox.reports.html.document import compact, data
from pytest_cwsandbox.rollouts.recorded import iterate
from pytest_cwsandbox.runs.lines import natural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_cwsandbox.reports.html.source import Source

PAGE = 18_000_000  # characters of the table and the details


def samples(source: Source) -> dict[str, object]:
    """What the template shows of them; prompts come first, then code, then trajectories."""
    records = source.records
    table = rows.table(records)
    entries, problems = Details(), Details()
    for place, entry in enumerate(source.entries):
        passed = entry.record.reward is not None and entry.record.reward >= 1
        entries.put(place, details.of_entry(entry), expendable=passed)
    for place, name in enumerate(rows.problems(records)):
        if name in source.problems:
            problems.put(place, details.of_problem(source.problems[name]))
    budget = min(BUDGET, max(PAGE - len(compact(table)), 0))
    packed = {"problems": pack(problems, budget // 4)}
    packed["entries"] = pack(entries, budget - packed["problems"].size)
    left = budget - packed["problems"].size - packed["entries"].size
    packed["trajectories"] = pack(_trajectories(source), left)
    table["chunks"] = {name: of.where(_length(table, name)) for name, of in packed.items()}
    return {
        "samples": len(records),
        "table": data(table),
        "chunks": {name: of.chunks for name, of in packed.items()},
        "left_out": _left_out(packed),
    }


def _length(table: Mapping[str, object], name: str) -> int:
    return len(cast("list[object]", table["problems" if name == "problems" else "rows"]))


def _trajectories(source: Source) -> Details:
    """The rollouts of every sample: mostly one, which has the sample's id."""
    place_of = {record.id: place for place, record in enumerate(source.records)}
    rollouts: dict[int, dict[str, bytes]] = {}
    try:
        for each in iterate(source.folder, source.notes.append):
            place = place_of.get(each.id, place_of.get(each.id.rpartition("#")[0]))
            if place is not None:
                rollouts.setdefault(place, {})[each.id] = details.of_trajectory(each)
    except UserError as error:
        source.notes.append(str(error))
    found = Details()
    for place, several in sorted(rollouts.items()):
        ordered = [several[name] for name in sorted(several, key=natural)]
        reward = source.entries[place].record.reward
        found.put(
            place, b"[%s]" % b",".join(ordered), expendable=reward is not None and reward >= 1
        )
    return found


def _left_out(packed: Mapping[str, Packed]) -> list[str]:
    what = {
        "problems": "prompts of {} problems: problems.jsonl",
        "entries": "completions of {} samples: samples.jsonl",
        "trajectories": "trajectories of {} samples: trajectories-*.jsonl",
    }
    return [
        text.format(f"{len(packed[name].left_out):,}")
        for name, text in what.items()
        if packed[name].left_out
    ]
