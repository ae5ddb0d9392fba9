"""What the tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SETTING = "CWSANDBOX_TEST_SHARED"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real inputs with right answers; beside the checkout unless the setting says."""
    folder = shared_folder()
    if not folder.is_dir():
        pytest.skip(f"no shared data at {folder}: set {SETTING} to its folder")
    return folder


@pytest.fixture(autouse=True)
def _no_step_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs inside tests do not write into the summary of the step that runs the tests."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


def shared_folder() -> Path:
    """Where the real inputs should be, also for tests that are parametrized by them."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get(SETTING) or beside)
