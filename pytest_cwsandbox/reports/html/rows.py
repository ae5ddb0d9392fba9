"""The table of samples as compact JSON: a list per sample, names once."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports.html.document import CLIPPED, clip, compact
from pytest_cwsandbox.runs.lines import natural

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_cwsandbox.outcome import SampleRecord

KEYS = 8  # of metadata, at most, that the table can be filtered by
VALUES = 50  # at most, of such a key
TABLE = 8_000_000  # characters of JSON: beyond, texts are cut shorter
LENGTHS = (CLIPPED, 80, 20)  # characters of a text; the sample's own view has all
# Numbers and marks of a rollout: many values, or of no use to filter by.
NO_FILTER = frozenset({"turns", "tool_calls", "tokens_in", "tokens_out", "cost"})


def table(records: Sequence[SampleRecord]) -> dict[str, object]:
    """Names that rows refer to by number, sorted, and the rows in the order given.

    A row: number of the id's first part and the rest of it, group, problem, sample, reward,
    verdict, seconds, detail, and a value's number for every key that can be filtered by. Long
    texts are cut.
    """
    keys = filter_keys(records)
    for longest in LENGTHS:
        made = _table(records, keys, longest)
        if longest == LENGTHS[-1] or len(compact(made)) <= TABLE:
            break
    return made


def problems(records: Iterable[SampleRecord]) -> list[str]:
    """The problems in the order of the table, with their whole names."""
    return _sorted(record.problem for record in records)


def _table(records: Sequence[SampleRecord], keys: Sequence[str], longest: int) -> dict[str, object]:
    ids = [_split(_short(record.id, longest)) for record in records]
    prefixes = _sorted(first for first, _ in ids)
    groups = _sorted(record.group for record in records)
    names = problems(records)
    verdicts = _sorted(record.verdict for record in records)
    columns = [[_value(record, key) for record in records] for key in keys]
    values = [_sorted(column) for column in columns]
    numbered = [
        [number[value] for value in column]
        for number, column in zip(map(_numbers, values), columns, strict=True)
    ]
    prefix_of, group_of, name_of, verdict_of = map(_numbers, (prefixes, groups, names, verdicts))
    rows = [
        [
            prefix_of[first],
            rest,
            group_of[record.group],
            name_of[record.problem],
            record.sample,
            record.reward,
            verdict_of[record.verdict],
            round(record.seconds, 3),
            clip(record.detail, longest),
            *(column[place] for column in numbered),
        ]
        for place, (record, (first, rest)) in enumerate(zip(records, ids, strict=True))
    ]
    return {
        "prefixes": prefixes,
        "groups": [clip(name, longest) for name in groups],
        "problems": [clip(name, longest) for name in names],
        "verdicts": [clip(name, longest) for name in verdicts],
        "keys": keys,
        "values": values,
        "rows": rows,
    }


def filter_keys(records: Sequence[SampleRecord]) -> list[str]:
    """The metadata keys that most samples have, of those with some values but not many."""
    values: dict[str, Counter[str]] = {}
    for record in records:
        for key in record.metadata:
            if key not in NO_FILTER and len(key) <= CLIPPED:
                values.setdefault(key, Counter())[_value(record, key)] += 1
    had = {key: counted.total() for key, counted in values.items()}
    useful = [
        key
        for key, counted in values.items()
        if 2 <= len(counted) + (had[key] < len(records)) <= VALUES
    ]
    return sorted(sorted(useful, key=lambda key: (-had[key], key))[:KEYS])


def _value(record: SampleRecord, key: str) -> str:
    return clip(str(record.metadata.get(key, "")))


def _short(name: str, longest: int) -> str:
    """The id, or its beginning with a digest: the page finds samples by it."""
    if len(name) <= longest:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{name[:longest]}…{digest}"


def _split(name: str) -> tuple[str, str]:
    """A node id before and from its parameters."""
    place = name.find("[")
    return (name, "") if place < 0 else (name[:place], name[place:])


def _sorted(values: Iterable[str]) -> list[str]:
    return sorted(set(values), key=natural)


def _numbers(values: Sequence[str]) -> Mapping[str, int]:
    return {value: number for number, value in enumerate(values)}
