"""A page that cannot be drawn costs a run neither its files nor its verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.plugin.conftest import RUN_FILES

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Run = Callable[..., pytest.RunResult]


def test_a_page_that_fails_costs_no_sample_and_no_verdict(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makeconftest(
        """
        from pytest_cwsandbox.reports import html

        def fail(folder, **options):
            raise KeyError("a bug")

        html.write_report = fail
        """
    )
    pytester.makepyfile("def test_sample(record_reward): record_reward(0.5)")
    result = run("--cwsandbox-min-pass-rate=0.9")
    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["pass rate gate: *: MISSED", "cwsandbox: report.html could not be written: KeyError: *"]
    )
    (folder,) = pytester.path.glob(".cwsandbox/runs/*")
    left = {file.name for file in folder.iterdir() if not file.name.startswith("samples-")}
    assert left == RUN_FILES - {"report.html"}
