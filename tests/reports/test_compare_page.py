"""The page of a comparison, in a browser: both runs, what flipped, and nothing from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from pytest_cwsandbox.cli import main
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.reports.html.comparison import write_comparison
from pytest_cwsandbox.runs import journal
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.journal import Entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

HOSTILE = "</pre></script><script>document.title = 'run'</script><img src=x onerror=alert(1)>"
PROMPT = "Write add(a, b).\n</pre><b>bold</b>"


def sample(
    problem: str, number: int, reward: float | None, *, group: str = "mbpp/agent", code: str = ""
) -> SampleRecord:
    return SampleRecord(
        f"test_x.py::test_agent[{problem}-{number}]",
        group,
        problem,
        number,
        reward,
        verdict="passed" if reward else "wrong_answer",
        detail="" if reward else f"assert 1 of {problem} failed",
        seconds=1.5,
        completion=code,
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Two of four problems got worse, one better; a sample is missing, one lost, one new."""
    before = [
        *(sample("worst", n, 1.0, code=f"# before {n}\n{HOSTILE}") for n in range(4)),
        *(sample("worse", n, 1.0) for n in range(2)),
        *(sample("better", n, 0.0) for n in range(2)),
        sample("same", 0, 1.0, group="mbpp/other"),
        sample("missing", 0, 1.0),
        sample("lost", 0, 1.0),
    ]
    after = [
        *(sample("worst", n, 0.0, code=f"# after {n}") for n in range(4)),
        *(sample("worse", n, float(n)) for n in range(2)),
        *(sample("better", n, 1.0) for n in range(2)),
        sample("same", 0, 1.0, group="mbpp/other"),
        sample("lost", 0, None),
        sample("new", 0, 1.0, group="mbpp/new"),
    ]
    found = compare(before, after, names=("<run A>", "run B"))
    problem = Problem("worst", PROMPT, ("assert add(1, 2) == 3",))
    return write_comparison(
        tmp_path / "compare.html", found, before, after, problems={"worst": problem}
    )


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def test_it_says_how_both_runs_did_and_how_sure_the_difference_is(
    written: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(written)

    assert page.title() == "<run A> → run B"
    assert texts(page, ".banner strong") == ["Worse, within chance"]
    assert [text.split("\n")[1] for text in texts(page, ".tile")] == [
        "77.8%",
        "44.4%",
        "-33.3",
        "2 / 1",
    ]
    assert "regressed / improved of 4 in 2 groups" in page.inner_text(".tiles")
    rows = [row.split("\t") for row in texts(page, "tbody tr")]
    assert [row[:5] for row in rows] == [
        ["mbpp/agent", "8", "75.0%", "37.5%", "-37.5"],
        ["mbpp/other", "1", "100.0%", "100.0%", "+0.0"],
        ["all", "9", "77.8%", "44.4%", "-33.3"],
    ]


def test_every_group_of_either_run_has_its_rates_drawn(
    written: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(written)

    names = [name for name in texts(page, ".chart-name") if name]
    assert names == ["mbpp/agent", "mbpp/new", "mbpp/other", "all"]
    assert page.locator(".dot").count() == 7  # the new group has no earlier rate
    assert "2 regressed, 1 unchanged, 1 improved" in texts(page, "figcaption")


def test_a_problem_opens_with_its_prompt_and_both_completions(
    written: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(written)
    flips = page.locator("details.flip")
    assert [text.replace("\n", " ") for text in texts(page, ".flip > summary .problem")] == [
        "worst",
        "worse",
        "better",
    ]
    assert not flips.first.get_by_text("# before 0").is_visible()

    flips.first.locator("summary").click()

    shown = flips.first.locator("pre").all_inner_texts()
    assert shown[0] == PROMPT
    assert shown[1:3] == [f"# before 0\n{HOSTILE}", "# after 0"]
    assert flips.first.locator(".chip").all_inner_texts()[:2] == ["passed", "wrong_answer"]
    assert "assert 1 of worst failed" in flips.first.inner_text()


def test_samples_that_only_one_run_has_are_named(
    written: Path, opened: Callable[[Path], Page]
) -> None:
    page = opened(written)

    summaries = page.locator("details:not(.flip) > summary")
    assert summaries.all_inner_texts() == [
        "Not run in run B: 1",
        "Lost to infrastructure in run B: 1",
        "Only in run B: 1",
    ]
    summaries.first.click()
    assert page.get_by_text("test_x.py::test_agent[missing-0]").is_visible()


@pytest.mark.parametrize("width", [1440, 375])
def test_it_fits_the_screen(written: Path, opened: Callable[[Path], Page], width: int) -> None:
    page = opened(written)
    page.set_viewport_size({"width": width, "height": 800})
    page.locator("details.flip summary").first.click()

    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize("option", ["-o", "--output", "--html"])
def test_the_command_writes_a_page_that_links_to_those_of_both_runs(
    tmp_path: Path, opened: Callable[[Path], Page], option: str
) -> None:
    before, after = tmp_path / "runs" / "be #1", tmp_path / "runs" / "after"
    for folder in (before, after):
        journal.append(folder, "main", Entry(sample("a", 0, 1.0), "ended", ending="passed"))
    (before / "report.html").write_text("<title>the earlier run</title>")
    target = tmp_path / "pages" / "compare.html"

    args = ["compare", str(before), str(after), option, str(target)]
    done = CliRunner().invoke(main, args)

    assert done.exit_code == 0, done.output
    page = opened(target)
    [link] = page.locator("h1 a").all()
    assert link.get_attribute("href") == "../runs/be%20%231/report.html"
    assert link.inner_text() == str(before)


def test_runs_without_a_common_sample_are_said_to_have_none(
    tmp_path: Path, opened: Callable[[Path], Page]
) -> None:
    before, after = [sample("a", 0, 1.0)], [sample("b", 0, 1.0)]
    found = compare(before, after, names=("A", "B"))

    page = opened(write_comparison(tmp_path / "x.html", found, before, after))

    assert texts(page, ".banner strong") == ["Nothing to compare"]
    assert page.locator("details.flip").count() == 0
