"""Ground truths as datasets carry them, as the columns that rewards take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from pytest_cwsandbox.errors import ConfigurationError

COLUMNS = (
    "test_list",
    "challenge_test_list",
    "test_imports",
    "test_setup_code",
    "entry_point",
    "task_id",
)


def columns_of(truths: Sequence[object]) -> dict[str, list[object]]:
    """The columns of ``truths``, each a problem's row or its list of asserts, or JSON of either.

    Raises ``ConfigurationError`` for anything else.
    """
    rows = [_row(truth) for truth in truths]
    return {name: [row.get(name) for row in rows] for name in COLUMNS}


def _row(truth: object) -> Mapping[str, object]:
    said = truth
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError:
            said = None
    if hasattr(said, "tolist"):  # numpy's arrays, as parquet files give lists
        said = said.tolist()
    if isinstance(said, list | tuple):
        return {"test_list": list(said)}
    if isinstance(said, Mapping) and said.get("test_list") is not None:
        return {name: _plain(value) for name, value in said.items()}
    raise ConfigurationError(
        "the ground truth must be a problem's row with test_list, or a list of asserts, or JSON "
        f"of either: got {truth!r:.80}"
    )


def _plain(value: object) -> object:
    return value.tolist() if hasattr(value, "tolist") else value
