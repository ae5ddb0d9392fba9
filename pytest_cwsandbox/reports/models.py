"""The models that the samples of a run are of, as reports name them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_cwsandbox.outcome import SampleRecord


def models_of(records: Iterable[SampleRecord], otherwise: str = "") -> str:
    """Their names, or what the run was told where no sample says; of the scripted one, what it is.

    Empty where there was no model.
    """
    told = {str(r.metadata["model"]) for r in records if "model" in r.metadata}
    return ", ".join(
        f"{model} ({NOT_A_MODEL})" if is_scripted(model) else model
        for model in sorted(told or {otherwise} - {""})
    )
