"""What a dataset's columns may hold, and how they say what they may not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.rewards import code_reward, format_reward
from pytest_cwsandbox.rewards.columns import expected_outputs_of, problems_of, text_of, texts_of

if TYPE_CHECKING:
    from collections.abc import Callable

NAN = float("nan")
ASSERTS = ["assert double(2) == 4"]


@pytest.mark.parametrize("name", ["test_setup_code", "entry_point", "test_imports", "task_id"])
@pytest.mark.parametrize("missing", [None, NAN], ids=["none", "nan"])
def test_a_missing_value_is_no_text(name: str, missing: object) -> None:
    columns = {"test_list": [ASSERTS]}
    assert problems_of({**columns, name: [missing]}, 1) == problems_of(columns, 1)


def test_a_missing_output_is_none_and_a_number_is_as_it_is_printed() -> None:
    outputs: list[object] = [NAN, None, "nan", 5, 2.5]
    assert expected_outputs_of({"expected_output": outputs}, 5) == [None, None, "nan", "5", "2.5"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("expected_output", ["1", "2"]),
        ("test_setup_code", ["import math"]),
        ("test_setup_code", 5),
        ("entry_point", {"name": "double"}),
        ("test_list", "assert True"),
        ("test_list", [5]),
        ("test_list", {"assert True": 1}),
    ],
)
def test_a_value_of_another_type_is_named_by_column_and_row(name: str, value: object) -> None:
    columns: dict[str, list[object]] = {"test_list": [ASSERTS, ASSERTS], name: [None, value]}
    with pytest.raises(ConfigurationError, match=rf'column "{name}", completion 1: must be a '):
        code_reward(["p"] * 2, ["no code"] * 2, **columns)


class Column:
    """As ``datasets`` 4 has it: no list, but with a length and values."""

    def __init__(self, *values: object) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, row: int) -> object:
        return self._values[row]


class Array:
    """As NumPy, pandas and (with ``to_pylist``, ``as_py``) Arrow have it."""

    def __init__(self, *values: object, method: str = "tolist") -> None:
        setattr(self, method, lambda: list(values))


@pytest.mark.parametrize(
    "form",
    [Column, Array, lambda *values: Array(*values, method="to_pylist"), lambda *values: values],
    ids=["column", "tolist", "to_pylist", "tuple"],
)
def test_columns_and_completions_come_in_whatever_a_dataset_keeps_them(
    form: Callable[..., Any],
) -> None:
    rows = [Array(*ASSERTS), Array(*ASSERTS, method="as_py")]
    problems = problems_of({"test_list": form(*rows), "entry_point": form("a", "b")}, 2)
    assert [problem.test_list for problem in problems] == [tuple(ASSERTS)] * 2
    assert texts_of(form("one", "two")) == ["one", "two"]


@pytest.mark.parametrize("column", ["ab", 5, {0: ASSERTS, 1: ASSERTS}, {"assert True"}])
def test_a_column_of_another_type_says_its_type(column: object) -> None:
    message = rf'column "test_list" must be a list .* got {type(column).__name__}: '
    with pytest.raises(ConfigurationError, match=message):
        problems_of({"test_list": column}, 2)


def test_a_column_of_another_length_says_its_length() -> None:
    with pytest.raises(ConfigurationError, match='column "entry_point" has 3 values for 2 compl'):
        problems_of({"test_list": [ASSERTS] * 2, "entry_point": [""] * 3}, 2)


@pytest.mark.parametrize("completion", [None, 5, {"role": "assistant", "content": "x"}, ["x"]])
def test_a_completion_that_is_neither_text_nor_messages_is_named(completion: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"completion 1 must be a string or a list of mes"):
        code_reward(["p"] * 2, ["no code", completion], test_list=[ASSERTS] * 2)
    with pytest.raises(ConfigurationError, match=r"completion 1 must be a string or a list of mes"):
        format_reward(["p"] * 2, ["no code", completion])


@pytest.mark.parametrize("completions", [None, 5, "text", {"role": "assistant"}])
def test_completions_that_are_no_list_are_refused(completions: Any) -> None:
    with pytest.raises(ConfigurationError, match="completions must be a list"):
        code_reward(["p"], completions, test_list=[ASSERTS])


@pytest.mark.parametrize("form", [list, tuple])
def test_the_parts_of_a_message_make_its_text(form: Callable[..., Any]) -> None:
    parts = form([{"type": "thinking", "thinking": "x"}, {"text": "a"}, {"text": "b"}])
    assert text_of([{"role": "assistant", "content": parts}]) == "ab"
