"""Plugin tests run pytest in a folder of their own, under every way of distributing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# What a run that collected samples leaves, and one that recorded some, beside its workers' files.
PLANNED_FILES = {"plan.jsonl", "problems.jsonl", "run.json", "tasks.jsonl"}
RUN_FILES = PLANNED_FILES | {"report.html", "samples.jsonl", "summary.json"}
DISTRIBUTIONS = {"one process": ("-n0",), "two workers": ("-n2",), "no xdist": ("-p", "no:xdist")}


@pytest.fixture(params=DISTRIBUTIONS)
def run(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> Callable[..., pytest.RunResult]:
    """Run pytest on what the test wrote: in one process, on two workers, and without xdist."""
    return lambda *args: pytester.runpytest_subprocess(*DISTRIBUTIONS[request.param], *args)


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CWSANDBOX_API_KEY", "CWSANDBOX_BASE_URL", "CWSANDBOX_LOCAL_RUNNER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
