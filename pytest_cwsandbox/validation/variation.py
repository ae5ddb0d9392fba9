"""Type-aware variation of values, after EvalPlus (Liu et al., 2023).

What is varied keeps the structure that the examples show: types, lengths that are always the same
(records, boards, squares such as "a1"), the signs of numbers, and the characters of texts. Whole
arguments may become zero or empty, parts of them only where the examples show it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from random import Random

Path = tuple[str, ...]

LARGE = 10**6
ENOUGH = 3  # examples that make a rule
LONGEST = 200  # what doubling again and again may come to


def keeps_order(record: Sequence[object], examples: Sequence[Sequence[object]]) -> bool:
    """Whether numbers of the record, such as low and high, rise where those of all examples do."""
    if len(examples) < ENOUGH or {len(example) for example in examples} != {len(record)}:
        return True

    def rises(record: Sequence[object], low: int, high: int) -> bool:
        first, second = record[low], record[high]
        if isinstance(first, int | float) and isinstance(second, int | float):
            return first <= second
        return False

    return all(
        rises(record, low, high)
        for high in range(len(record))
        for low in range(high)
        if all(rises(example, low, high) for example in examples)
    )


class Varied:
    """Variations of ``examples``, all of one type structure: the values of one argument."""

    def __init__(self, examples: Sequence[object], random: Random) -> None:
        self._random = random
        self._examples: defaultdict[Path, list[object]] = defaultdict(list)
        self._lengths: defaultdict[Path, list[set[int]]] = defaultdict(list)
        self._learn((), examples)

    def _learn(self, path: Path, siblings: Iterable[object]) -> None:
        """Note what stands at ``path``, and the lengths of what stands there side by side."""
        siblings = list(siblings)
        self._examples[path] += siblings
        lengths = {len(value) for value in siblings if isinstance(value, str | list | tuple)}
        if len(siblings) > 1 and lengths:
            self._lengths[path].append(lengths)
        for value in siblings:
            if isinstance(value, dict):
                self._learn((*path, "key"), value.keys())
                self._learn((*path, "value"), value.values())
            elif isinstance(value, list | tuple):
                self._learn((*path, "item"), value)
            elif isinstance(value, set):
                self._learn((*path, "item"), sorted(value, key=repr))

    def _has_fixed_length(self, path: Path) -> bool:
        """Whether all that stands side by side at ``path`` is of one length, as far as seen."""
        shown = self._examples[path]
        if len(path) and all(isinstance(value, tuple) for value in shown):  # records
            return len({len(value) for value in shown if isinstance(value, tuple)}) == 1
        seen = self._lengths[path]
        return bool(seen) and all(len(lengths) == 1 for lengths in seen)

    def _like(self, value: object, path: Path) -> list[object]:
        """What may stand in the value's place, itself included."""
        others = self._examples[path]
        if isinstance(value, str | list | tuple) and self._has_fixed_length(path):
            size = len(value)
            others = [o for o in others if isinstance(o, str | list | tuple) and len(o) == size]
        return [value, *others]

    def vary(self, value: object, path: Path = ()) -> object:  # noqa: PLR0911 - one per type
        """The value with one change somewhere; the same value where there is nothing to change."""
        if self._random.random() < 0.1:
            return self._random.choice(self._like(value, path))
        if isinstance(value, bool):
            return not value
        if isinstance(value, int | float):
            return self._number(value, path)
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, dict):
            return self._mapping(value, path)
        if isinstance(value, list):
            return self._items(value, path)
        if isinstance(value, tuple):
            varied = tuple(self._items(list(value), path))
            shown = [other for other in self._examples[path] if isinstance(other, tuple)]
            return varied if keeps_order(varied, shown) else value
        if isinstance(value, set):
            return set(self._items(sorted(value, key=repr), path))
        return value

    def _number(self, value: float, path: Path) -> float:
        random = self._random
        changed = random.choice(
            [
                value + 1,
                value - 1,
                value + random.randint(-9, 9),
                -value,
                value * 2,
                value * 10 + random.randint(0, 9),
                value + random.choice([100, 997, LARGE]),
                type(value)(random.randint(0, 12)),
                type(value)(0),
                value if isinstance(value, int) else value / 2,
                value if isinstance(value, int) else value + random.choice([0.1, 0.25, 0.5]),
            ]
        )
        shown = [number for number in self._examples[path] if isinstance(number, int | float)]
        if min(shown, default=value) < 0:
            return changed
        return abs(changed) or (value if path and 0 not in shown else changed)

    def _text(self, text: str, path: Path) -> str:
        random = self._random
        known = [example for example in self._examples[path] if isinstance(example, str)]
        if self._has_fixed_length(path):
            changes: list[Callable[[], str]] = [lambda: self._other_character(text, known)]
        else:
            start, end = sorted(random.randint(0, len(text)) for _ in range(2))
            words = text.split(" ")
            word = random.randrange(len(words))
            changes = [
                lambda: self._other_character(text, known),
                lambda: self._other_character(text, known),
                lambda: text[start:end],
                lambda: text[:start] + text[end:],
                lambda: text[:start] + text[start : start + 1] + text[start:],
                lambda: text[:end] + text[start:],
                lambda: text[:start] + self._character(known) + text[start:],
                lambda: text + random.choice(known),
                lambda: random.choice(known) + " " + text,
                lambda: " ".join(words[:word] + words[word + 1 :]),
                lambda: " ".join([*words, words[word]]),
                lambda: text[::-1],
                text.swapcase,
                lambda: "",
            ]
        changed = random.choice(changes)()[:LONGEST]
        return changed or (text if path and "" not in known else "")

    def _character(self, known: Sequence[str]) -> str:
        """Mostly one of those that the examples are made of."""
        alphabet = sorted(set("".join(known)))
        return self._random.choice(alphabet * 2 + list("aZ 0_-"))

    def _other_character(self, text: str, known: Sequence[str]) -> str:
        """One character replaced: by one of the examples, or by its neighbour of the same kind."""
        if not text:
            return self._character(known)
        at = self._random.randrange(len(text))
        old = text[at]
        neighbour = chr(ord(old) + self._random.choice([-1, 1]))
        alphabet = sorted(set("".join(known))) or [old]
        kin = neighbour.isdigit() == old.isdigit() and neighbour.isalpha() == old.isalpha()
        new = neighbour if kin and old.isalnum() else self._random.choice(alphabet)
        if self._random.random() < 0.5:
            new = self._random.choice(alphabet)
        return text[:at] + new + text[at + 1 :]

    def _items(self, items: list[object], path: Path) -> list[object]:
        """The items of a list, tuple or set, varied."""
        random, inner = self._random, (*path, "item")
        if not items:
            known = self._examples[inner]
            return [random.choice(known)] if known and not self._has_fixed_length(path) else []
        known = self._like(items[0], inner)
        at, other = random.randrange(len(items)), random.randrange(len(items))
        one = self.vary(items[at], inner)
        changes: list[Callable[[], list[object]]] = [
            lambda: [*items[:at], one, *items[at + 1 :]],
            lambda: [*items[:at], one, *items[at + 1 :]],
        ]
        if len({type(item) for item in items}) == 1:
            changes += [lambda: items[::-1], lambda: random.sample(items, len(items))]
        if not self._has_fixed_length(path):
            changes += [
                lambda: items[:at] + items[at + 1 :],
                lambda: [*items[:at], items[other], *items[at:]],
                lambda: [*items[:at], one, *items[at:]],
                lambda: [*items[:at], random.choice(known), *items[at:]],
                lambda: items[: at + 1],
                lambda: items * 2,
                list,
            ]
        return random.choice(changes)()[:LONGEST]

    def _mapping(self, mapping: dict[object, object], path: Path) -> dict[object, object]:
        random = self._random
        keys, values = (*path, "key"), (*path, "value")
        pairs = list(mapping.items())
        known = list(zip(self._examples[keys], self._examples[values], strict=False))
        if not pairs:
            return dict([random.choice(known)]) if known else {}
        at = random.randrange(len(pairs))
        key, value = pairs[at]
        changes: list[Callable[[], list[tuple[object, object]]]] = [
            lambda: [*pairs[:at], (key, self.vary(value, values)), *pairs[at + 1 :]],
            lambda: [*pairs[:at], (key, random.choice(self._examples[values])), *pairs[at + 1 :]],
            lambda: [*pairs[:at], (self.vary(key, keys), value), *pairs[at + 1 :]],
            lambda: [*pairs, (self.vary(key, keys), self.vary(value, values))],
            lambda: [*pairs, random.choice(known)],
            lambda: pairs[:at] + pairs[at + 1 :],
            lambda: pairs[::-1],
            list,
        ]
        return dict(random.choice(changes)())
