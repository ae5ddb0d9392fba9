"""Tests of reports run pytest as those of the plugin do."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.plugin.conftest import _no_account, run  # noqa: F401 - fixtures

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(autouse=True)
def _no_workflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a workflow, too, only the tests that ask for it write a step's summary."""
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)


@pytest.fixture(scope="module")  # while it is open, async tests cannot run in this process
def browser() -> Iterator[Browser]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra [browser]")
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        pytest.skip(f"needs a browser on PATH: {', '.join(BROWSERS)}")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[[Path], Page]]:
    """Open a file; at the end nothing was asked of any network or said on the console."""
    page = browser.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: complaints.append(request.url))

    expected = {"data:,"}  # the page's icon

    def open_(file: Path) -> Page:
        expected.add(file.as_uri())
        page.goto(file.as_uri())
        return page

    yield open_
    page.close()
    assert [line for line in complaints if line not in expected] == []
