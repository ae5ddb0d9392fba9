"""The table of samples as compact JSON: a list per sample, names once."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.runs.lines import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_cwsandbox.outcome import SampleRecord

DETAIL = 300  # characters in the table; the sample's own view has all
VALUES = 24  # at most, of a metadata key that the table can be filtered by
# Numbers and marks of a rollout: many values, or of no use to filter by.
NO_FILTER = frozenset({"turns", "tool_calls", "tokens_in", "tokens_out", "cost"})


def table(records: Sequence[SampleRecord]) -> dict[str, object]:
    """Names that rows refer to by number, sorted, and the rows in the order given.

    A row: number of the id's first part and the rest of it, group, problem, sample, reward,
    verdict, seconds, detail, and a value's number for every key that can be filtered by.
    """
    keys = filter_keys(records)
    names = {
        "prefixes": _sorted(_split(record.id)[0] for record in records),
        "groups": _sorted(record.group for record in records),
        "problems": _sorted(record.problem for record in records),
        "verdicts": _sorted(record.verdict for record in records),
    }
    values = [_sorted(str(record.metadata.get(key, "")) for record in records) for key in keys]
    prefixes, groups, problems, verdicts = map(_numbers, names.values())
    numbers = [_numbers(each) for each in values]
    rows = [
        [
            prefixes[_split(record.id)[0]],
            _split(record.id)[1],
            groups[record.group],
            problems[record.problem],
            record.sample,
            record.reward,
            verdicts[record.verdict],
            round(record.seconds, 3),
            record.detail[:DETAIL],
            *(
                number[str(record.metadata.get(key, ""))]
                for key, number in zip(keys, numbers, strict=True)
            ),
        ]
        for record in records
    ]
    return {**names, "keys": keys, "values": values, "rows": rows}


def filter_keys(records: Iterable[SampleRecord]) -> list[str]:
    """Metadata keys with some values, but not as many as samples."""
    values: dict[str, Counter[str]] = {}
    total = 0
    for record in records:
        total += 1
        for key, value in record.metadata.items():
            if key not in NO_FILTER:
                values.setdefault(key, Counter())[str(value)] += 1
    return sorted(
        key
        for key, counted in values.items()
        if len(counted) <= VALUES and (len(counted) > 1 or counted.total() < total)
    )


def _split(name: str) -> tuple[str, str]:
    """A node id before and from its parameters."""
    place = name.find("[")
    return (name, "") if place < 0 else (name[:place], name[place:])


def _sorted(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=natural)


def _numbers(values: Sequence[str]) -> Mapping[str, int]:
    return {value: number for number, value in enumerate(values)}
