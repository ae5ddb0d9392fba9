"""Values from the worker's encoder through the strict decoder."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import itertools
import math
import time
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.grading.scripts import source
from pytest_cwsandbox.grading.values import MalformedValueError, Opaque, decode, truth

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - the kind that programs return


def numbered() -> Iterator[str]:
    """Ids by position: a repr holds addresses and the order of sets, which differ by process."""
    return map("value {}".format, itertools.count())


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    __slots__ = ()


def encoder() -> Callable[[object, bool], str]:
    """The worker's own encoder, taken from the source that is sent."""
    scope: dict[str, object] = {"OUTPUT_BYTES": 1 << 24}
    exec(source("worker").replace("\nmain()\n", ""), scope)  # noqa: S102 - our own source

    def overflow() -> None:
        raise OverflowError

    encode: Callable[[object, bool], str] = scope["encoder"](overflow)  # type: ignore[operator]  # it is one
    return encode


def through(value: object, *, walk: bool = False) -> object:
    return decode(encoder()(value, walk))


@pytest.mark.parametrize(
    "value",
    [
        *(None, True, False, ..., 0, -1, 1 << 5000, -(1 << 64), 0.1, -0.0, math.inf, 5e-324, 1e308),
        *("", "a:b", "\ud800\0\r\n", "é€😀", b"", b"\0\xff", bytearray(b"x"), 2j, complex(-0.0, 1)),
        *(
            [],
            [[]],
            (),
            (1, "a", None),
            {1, "a", (2,)},
            frozenset({frozenset()}),
            {},
            {(1,): {2: [3]}},
        ),
        *(range(3), range(10, 0, -2), collections.deque([1]), collections.Counter("aab")),
        *(
            collections.OrderedDict(b=1, a=2),
            Fraction(-1, 3),
            Decimal("1.50"),
            Decimal("-Infinity"),
        ),
        *(dt.date(2024, 2, 29), dt.time(1, 2, 3, 4), dt.timedelta(-1, 2, 3)),
        dt.datetime(2024, 1, 2, 3, 4, 5, 6, tzinfo=dt.timezone.utc),  # noqa: UP017 - 3.10 knows no UTC
        *({1: 2}.keys(), {1: 2}.items()),
    ],
    ids=numbered(),
)
def test_a_value_comes_back_equal_and_of_its_type(value: object) -> None:
    again = through(value)
    assert again == value
    assert type(again) is type(value)
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Point(1, 2), (1, 2)),
        (Number.ONE, 1),
        (Text("a"), "a"),
        (collections.defaultdict(int, a=1), {"a": 1}),
        (collections.UserList([1]), [1]),
        (collections.UserDict(a=1), {"a": 1}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        (memoryview(b"a"), b"a"),
        (math.nan, None),
    ],
    ids=numbered(),
)
def test_a_subclass_that_inherits_equality_is_plain(value: object, plain: object) -> None:
    again = through(value)
    if plain is None:
        assert isinstance(again, float)
        assert math.isnan(again)
    else:
        assert again == plain
        assert type(again) is type(plain)


class Liar(int):
    def __repr__(self) -> str:
        return f"Liar({int(self)})"

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


@pytest.mark.parametrize("value", [Liar(3), object(), len, int, (i for i in "a")], ids=numbered())
def test_anything_else_is_opaque_and_equal_to_nothing(value: object) -> None:
    again = through(value)
    assert isinstance(again, Opaque)
    assert again != 3
    assert again != again  # noqa: PLR0124 - not even to itself
    assert bool(again) is True


@pytest.mark.parametrize(
    "value",
    [
        0,
        1,
        "",
        "a",
        [],
        [0],
        (),
        {},
        {1: 2},
        0.0,
        -0.0,
        0j,
        None,
        ...,
        range(0),
        Fraction(0),
        Decimal(0),
        b"",
        set(),
        collections.deque(),
        Liar(0),
        Liar(1),
    ],
    ids=numbered(),
)
def test_the_truth_of_a_value_needs_no_decoding(value: object) -> None:
    assert truth(encoder()(value, False)) is bool(value)


def test_a_walked_iterator_gives_its_items_once() -> None:
    again = through(iter([1, 2]), walk=True)
    assert list(again) == [1, 2]  # type: ignore[call-overload]  # it can be walked
    assert list(again) == []  # type: ignore[call-overload]  # likewise


def test_an_endless_iterator_fails_only_behind_its_known_items() -> None:
    again = through(itertools.count(), walk=True)
    assert next(again) == 0  # type: ignore[call-overload]  # it can be walked
    with pytest.raises(RuntimeError, match="goes on"):
        list(again)  # type: ignore[call-overload]  # likewise


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "i",
            "i3:",
            "i3:0x",
            "i3:0x3x",
            "i1:3",
            "i4:0x_1",
            "i5:-0x-3",
            "N1:x",
            "x1:a",
            "?",
            "é1:a",
        ),
        *(
            "l1:",
            "l2:N0:",
            "d1:N0:",
            "S1:l0:",
            "d2:l0:N0:",
            "i٣:0x3",
            "l-1:",
            "l 1:N0:",
            "l9999999999:",
        ),
        *(
            "f3:xyz",
            "f8:0x1p9999",
            "m1:x",
            "y3:123",
            "c1:N0:",
            "r3:N0:N0:N0:",
            "Q2:i3:0x1i3:0x0",
            "g0:",
        ),
        *("g2:N0:N0:", "b1:€", "N0:N0:", "l1:" * 1000 + "N0:", "w1:i22:0xffffffffffffffffffff"),
        "Q2:i3:0x1i100002:0x" + "7" * 100_000,
        "m20000:" + "7" * 20_000,
    ],
    ids=lambda text: text[:20] or "nothing",
)
def test_a_malformed_value_is_refused(text: str) -> None:
    with pytest.raises(MalformedValueError):
        decode(text)


def test_decoding_stops_at_its_limit() -> None:
    text = "l4000000:" + "N0:" * 4_000_000
    started = time.process_time()
    with pytest.raises(MalformedValueError):
        decode(text, limit=100)
    assert time.process_time() - started < 1
