"""What may be asked of a backend."""

from __future__ import annotations

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.errors import BackendError


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("loca",), "backend must be one of 'auto', 'local', 'hosted', not 'loca'"),
        (("",), "backend must be one of"),
        (("auto", "key"), "auth must be one of '', 'api-key', 'wandb', not 'key'"),
    ],
)
def test_a_word_that_is_none_of_the_choices_is_refused(
    arguments: tuple[str, ...], complaint: str
) -> None:
    with pytest.raises(BackendError, match=complaint):
        BackendOptions(*arguments)
