"""Values that came out of a sandbox: decoding, strict and bounded.

The judge runs the same source in its sandbox, so the standard library is all it may import, and
lazily: importing costs more than the rest. The form is ``<tag><length>:<text>`` for scalars and
``<tag><count>:<values>`` for the rest. Whoever wrote it is not trusted: nothing is evaluated,
nothing is unpickled.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from decimal import Decimal
    from fractions import Fraction

DEPTH = 202  # the worker stops at 200
DIGITS = 1 << 14  # of a fraction or a decimal: arithmetic on longer ones is not cheap


class MalformedValueError(ValueError):
    """Not the form that the worker writes, or more than was allowed."""


class Opaque:
    """A value without a plain form: equal to nothing, true or false as it was in its sandbox."""

    def __init__(self, name: str, *, truth: bool | None) -> None:
        self.name = name
        self.truth = truth

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return id(self)

    def __bool__(self) -> bool:
        if self.truth is None:
            raise TypeError(f"the truth of a {self.name} object cannot be told")
        return self.truth

    def __repr__(self) -> str:
        return f"<a {self.name} object>"


class Steps(Opaque):
    """An opaque value that was walked: gives its items once, as an iterator does."""

    def __init__(self, whole: Opaque, items: list[object], *, cut: bool) -> None:
        super().__init__(whole.name, truth=whole.truth)
        self._items = self._walk(items, cut=cut)

    @staticmethod
    def _walk(items: list[object], *, cut: bool) -> Iterator[object]:
        yield from items
        if cut:
            raise RuntimeError("the iterator goes on, or fails, after its last known item")

    def __iter__(self) -> Iterator[object]:
        return self._items

    def __next__(self) -> object:
        return next(self._items)


def _constant(value: object) -> Callable[[str], object]:
    def read(text: str) -> object:
        if text:
            raise MalformedValueError("a constant with text")
        return value

    return read


def _integer(text: str) -> int:
    if not text.removeprefix("-").startswith("0x") or "_" in text:
        raise MalformedValueError("not an integer")
    return int(text, 16)


def _decimal(text: str) -> Decimal:
    import decimal

    if len(text) > DIGITS:
        raise MalformedValueError("a decimal of too many digits")
    return decimal.Decimal(text)


def _fraction(parts: list[object]) -> Fraction:
    import fractions

    numerator, denominator = parts
    if not (isinstance(numerator, int) and isinstance(denominator, int)):
        raise MalformedValueError("not a fraction")
    if max(numerator.bit_length(), denominator.bit_length()) > 4 * DIGITS:
        raise MalformedValueError("a fraction of too many digits")
    return fractions.Fraction(numerator, denominator)


def _moment(kind: str) -> Callable[[str], object]:
    def read(text: str) -> object:
        import datetime as dt

        moment: object = getattr(dt, kind).fromisoformat(text)
        return moment

    return read


def _duration(parts: list[object]) -> object:
    import datetime as dt

    return dt.timedelta(*parts)  # type: ignore[arg-type]  # a wrong part raises TypeError


def _collection(name: str, *, pairs: bool = False) -> Callable[[list[object]], object]:
    def build(parts: list[object]) -> object:
        import collections

        collection: object = getattr(collections, name)(dict(_pairs(parts)) if pairs else parts)
        return collection

    return build


def _pairs(parts: list[object]) -> Iterator[tuple[object, object]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _steps(parts: list[object]) -> Steps:
    whole, cut, *items = parts
    if type(whole) is not Opaque:
        raise MalformedValueError("not an opaque value")
    return Steps(whole, items, cut=bool(cut))


SCALARS: dict[str, Callable[[str], object]] = {
    "N": _constant(None),
    "T": _constant(True),
    "F": _constant(False),
    "E": _constant(...),
    "i": _integer,
    "f": float.fromhex,
    "s": str,
    "b": lambda text: text.encode("latin-1"),
    "a": lambda text: bytearray(text.encode("latin-1")),
    "m": _decimal,
    "y": _moment("date"),
    "Y": _moment("datetime"),
    "z": _moment("time"),
    "o": lambda text: Opaque(text, truth=True),
    "O": lambda text: Opaque(text, truth=False),
    "?": lambda text: Opaque(text, truth=None),
}
CONTAINERS: dict[str, Callable[[list[object]], object]] = {
    "l": list,
    "t": tuple,
    "S": set,
    "Z": frozenset,
    "d": lambda parts: dict(_pairs(parts)),
    "C": _collection("Counter", pairs=True),
    "D": _collection("OrderedDict", pairs=True),
    "q": _collection("deque"),
    "k": lambda parts: dict.fromkeys(parts).keys(),
    "I": lambda parts: dict(_pairs(parts)).items(),
    "c": lambda parts: complex(*parts),  # type: ignore[call-overload]  # a wrong part raises TypeError
    "r": lambda parts: range(*parts),  # type: ignore[call-overload]  # likewise
    "w": _duration,
    "Q": _fraction,
    "g": _steps,
}


def header(text: str, position: int) -> tuple[str, int, int]:
    """Tag and length of what stands at ``position``, and where its body begins."""
    colon = text.find(":", position + 1, position + 11)
    length = text[position + 1 : colon]
    if colon < 0 or not (length.isascii() and length.isdigit()):
        raise MalformedValueError("not a value")
    return text[position], int(length), colon + 1


def decode(text: str, limit: int | None = None) -> object:
    """The value; raises ``MalformedValueError`` for another form or more than ``limit`` values."""
    position = 0
    count = 0

    def value(depth: int) -> object:
        nonlocal position, count
        count += 1
        if depth > DEPTH or (limit is not None and count > limit):
            raise MalformedValueError("too many values, or too deep")
        tag, length, position = header(text, position)
        if tag in SCALARS:
            body = text[position : position + length]
            if len(body) != length:
                raise MalformedValueError("a value that was cut")
            position += length
            return SCALARS[tag](body)
        if tag not in CONTAINERS:
            raise MalformedValueError("an unknown kind of value")
        return CONTAINERS[tag]([value(depth + 1) for _ in range(length)])

    try:
        result = value(0)
    except MalformedValueError:
        raise
    except (ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as error:
        raise MalformedValueError(f"not a value: {type(error).__name__}") from None
    if position != len(text):
        raise MalformedValueError("more than a value")
    return result


def truth(text: str) -> bool:
    """The truth of an encoded value, however large; raises as ``decode`` and ``bool`` do."""
    tag, length, _ = header(text, 0)
    if tag in "sbaltSZdCDqkI":
        return length > 0
    return bool(decode(text, limit=8))
