"""Tags become Kubernetes label values on the hosted service."""

from __future__ import annotations

import re

import pytest

from pytest_cwsandbox import tags

LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@pytest.mark.parametrize("value", ["python-3.11", "a", "A_b.c-9", "x" * 63])
def test_a_safe_value_stays_as_it_is(value: str) -> None:
    assert tags.label_safe(value) == value


@pytest.mark.parametrize(
    "value", ["Qwen/Qwen3-8B", "", "-", "..", "x" * 64, "mödel", "a b", "ends-", "日本", "\ud800"]
)
def test_any_other_value_becomes_a_label(value: str) -> None:
    assert LABEL.fullmatch(tags.label_safe(value))


def test_different_values_stay_different() -> None:
    values = ["Qwen/Qwen3", "Qwen-Qwen3", "Qwen Qwen3", "y" * 64, "y" * 65]
    assert len({tags.label_safe(value) for value in values}) == len(values)


def test_a_tag_keeps_its_name() -> None:
    assert tags.tag("model:Qwen/Qwen3-8B") == "model:Qwen-Qwen3-8B-a82fd547"
    assert tags.tag("rl-training") == "rl-training"
    assert tags.tag("url:http://x").startswith("url:http-x-")


def test_the_guides_tags_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TRAINING_RUN_ID", "SLURM_JOB_ID", "CWSANDBOX_ENV"):
        monkeypatch.delenv(name, raising=False)
    plain = tags.sandbox_tags(run="r1", worker="gw0", model="m", extra=("mine", "a:b"))
    assert set(plain) == {
        "training-run:r1", "slurm-job:interactive", "model:m", "env:dev",
        "pytest-run:r1", "pytest-worker:gw0", "rl-training", "mine", "a:b",
    }  # fmt: skip
    monkeypatch.setenv("TRAINING_RUN_ID", "t9")
    monkeypatch.setenv("SLURM_JOB_ID", "77")
    monkeypatch.setenv("CWSANDBOX_ENV", "prod")
    assert {"training-run:t9", "slurm-job:77", "env:prod"} <= set(
        tags.sandbox_tags(run="r1", worker="gw0")
    )
