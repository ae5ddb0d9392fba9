"""Pages of runs that are odd, huge or hostile: they agree, stay small and stay quick."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from pytest_cwsandbox.reports.html.verdict import word_of
from pytest_cwsandbox.runs.gate import INCONCLUSIVE

# The verdict

GATES = ("met", "MISSED", "not judged", "INCONCLUSIVE", "tolerated")
SETS = [*chain.from_iterable(combinations(GATES, size) for size in range(len(GATES) + 1))]


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4, 5, 6, 7, INCONCLUSIVE, 137])
def test_the_banner_never_disagrees_with_the_exit_code(status: int) -> None:
    for words, failed in product(SETS, (0, 1, 3)):
        tone, word = word_of([f"a gate: {word}" for word in words], failed=failed, status=status)
        case = (words, failed, tone, word)

        assert (tone == "bad") == (status in {1, 7, 137}), case
        assert (word == "Inconclusive") == (status == INCONCLUSIVE), case
        assert (word == "The run was cut short") == (2 <= status <= 6), case
        assert (word in {"Gates met", "Not judged", "No gate was set"}) == (status == 0), case
        assert "MISSED" in words or word != "Gate missed", case


@pytest.mark.parametrize(
    ("words", "failed", "expected"),
    [
        ((), 0, ("bad", "A test failed")),
        (("INCONCLUSIVE",), 0, ("bad", "A test failed")),
        (("INCONCLUSIVE", "MISSED"), 2, ("bad", "Gate missed")),
        (("tolerated",), 2, ("bad", "2 checks failed")),
    ],
)
def test_a_run_that_failed_is_red_and_says_why(
    words: tuple[str, ...], failed: int, expected: tuple[str, str]
) -> None:
    assert word_of([f"a gate: {word}" for word in words], failed=failed, status=1) == expected
