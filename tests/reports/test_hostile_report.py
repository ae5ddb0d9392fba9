"""Pages of runs that are odd, huge or hostile: they agree, stay small and stay quick."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from itertools import chain, combinations, product
from subprocess import PIPE, Popen
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.reports.html import write_report
from pytest_cwsandbox.reports.html.verdict import word_of
from pytest_cwsandbox.runs import summary
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.gate import INCONCLUSIVE
from pytest_cwsandbox.runs.summary import summarise_run
from tests.reports.test_html_report import entry, sample, show, texts, write_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playwright.sync_api import Page

    from pytest_cwsandbox.outcome import SampleRecord

    Open = Callable[[Path], Page]

MEGABYTES = 20  # of a page, at most


def written(folder: Path, records: Sequence[SampleRecord]) -> Path:
    """The page of a run with these samples; it is never too large."""
    page = write_report(write_run(folder, [entry(record) for record in records]))
    assert page.stat().st_size < MEGABYTES * 1_000_000
    return page


def facts(page: Page, heading: str) -> list[tuple[str, str]]:
    """A list of the opened sample, as (name, text)."""
    of = page.locator("dialog section", has=page.get_by_role("heading", name=heading, exact=True))
    return list(
        zip(of.locator("dt").all_inner_texts(), of.locator("dd").all_inner_texts(), strict=True)
    )


# The verdict

GATES = ("met", "MISSED", "not judged", "INCONCLUSIVE", "tolerated")
SETS = [*chain.from_iterable(combinations(GATES, size) for size in range(len(GATES) + 1))]


@pytest.mark.parametrize("status", [0, 1, 2, 3, 4, 5, 6, 7, INCONCLUSIVE, 137])
def test_the_banner_never_disagrees_with_the_exit_code(status: int) -> None:
    for words, failed in product(SETS, (0, 1, 3)):
        tone, word = word_of([f"a gate: {word}" for word in words], failed=failed, status=status)
        case = (words, failed, tone, word)

        assert (tone == "bad") == (status in {1, 7, 137}), case
        assert (word == "Inconclusive") == (status == INCONCLUSIVE), case
        assert (word == "The run was cut short") == (2 <= status <= 6), case
        assert (word in {"Gates met", "Not judged", "No gate was set"}) == (status == 0), case
        assert "MISSED" in words or word != "Gate missed", case


@pytest.mark.parametrize(
    ("words", "failed", "expected"),
    [
        ((), 0, ("bad", "A test failed")),
        (("INCONCLUSIVE",), 0, ("bad", "A test failed")),
        (("INCONCLUSIVE", "MISSED"), 2, ("bad", "Gate missed")),
        (("tolerated",), 2, ("bad", "2 checks failed")),
    ],
)
def test_a_run_that_failed_is_red_and_says_why(
    words: tuple[str, ...], failed: int, expected: tuple[str, str]
) -> None:
    assert word_of([f"a gate: {word}" for word in words], failed=failed, status=1) == expected


# A long answer


@pytest.mark.parametrize(
    ("answer", "blocks"),
    [
        ("Text.\n```python\nx = 1\n```\nMore.", ["Text.", "```python\nx = 1\n```", "More."]),
        ("```\na\n```\n```\nb\n```", ["```\na\n```", "```\nb\n```"]),
        ("Before\n```python\nno end", ["Before\n```python\nno end"]),
        ("x = '```'\n", ["x = '```'"]),
        ("```py\n```x\n```\n", ["```py\n```x\n```"]),
    ],
)
def test_fenced_blocks_of_an_answer_stand_by_themselves(
    tmp_path: Path, opened: Open, answer: str, blocks: list[str]
) -> None:
    page = opened(written(tmp_path / "run", [sample("square", 0, 1.0, completion=answer)]))
    show(page, "square")
    code = page.locator("dialog section", has=page.get_by_role("heading", name="Code"))

    assert [text.rstrip() for text in code.locator(":scope > pre").all_inner_texts()] == blocks


@pytest.mark.parametrize("piece", ["```x\n", "```\na\n```\n"])
def test_many_fences_take_hardly_longer_than_the_same_length_of_text(
    tmp_path: Path, opened: Open, piece: str
) -> None:
    page = opened(written(tmp_path / "run", [sample("square", 0, 1.0)]))
    hostile, plain = piece * (100_000 // len(piece)), "abcd\n" * 20_000
    seconds = """(text) => Math.min(...[1, 2, 3].map(() => {
        const begun = performance.now();
        codeOf({ completion: text, grader: "" });
        return (performance.now() - begun) / 1000;
    }))"""

    assert page.evaluate(seconds, hostile) < 0.5 + 20 * page.evaluate(seconds, plain)
    assert page.evaluate("text => codeOf({completion: text}).children.length", hostile) < 210


def test_only_so_many_tokens_of_a_sample_are_coloured(tmp_path: Path, opened: Open) -> None:
    answer = "1 " * 29_990 + "the end"
    page = opened(written(tmp_path / "run", [sample("square", 0, 1.0, completion=answer)]))

    assert "1 the end" in show(page, "square")
    assert page.locator("dialog pre span").count() == 5_000


# A huge run


def test_one_sample_with_very_many_metadata_keys_makes_few_fields(
    tmp_path: Path, opened: Open
) -> None:
    many = {f"key {number}": "value" for number in range(20_000)}
    rare = [sample("a", 0, 1.0, metadata=many)]
    often = [sample("b", n, 0.0, metadata={"temperature": str(n % 2)}) for n in range(3)]
    page = opened(written(tmp_path / "run", [*rare, *often]))

    fields = texts(page, ".controls label")
    assert "temperature" in fields
    assert len([name for name in fields if name.startswith("key ")]) == 7
    show(page, "a")
    shown = facts(page, "Metadata")
    assert len(shown) == 201
    assert shown[-1] == ("and 19,800 more", "samples.jsonl has them.")


def test_names_of_megabytes_are_cut_in_the_table_and_told_in_the_sample(
    tmp_path: Path, opened: Open
) -> None:
    names = [f"{number} {'x' * 1_000_000}" for number in range(3)]
    samples = [sample(name, 0, 0.0, verdict=f"odd {name}", detail=name) for name in names]
    file = written(tmp_path / "run", samples)
    page = opened(file)

    assert file.stat().st_size < 1_000_000
    assert "x" * 2_000 in show(page, "1")
    assert [name for name, _ in facts(page, "How it ran")][:3] == ["id", "problem", "verdict"]


def test_a_field_with_very_many_choices_is_left_to_the_search(tmp_path: Path, opened: Open) -> None:
    samples = [
        sample(f"p{n}", 0, float(n % 2), group=f"group-{n}", verdict=f"v{n % 3}")
        for n in range(300)
    ]
    page = opened(written(tmp_path / "run", samples))

    assert texts(page, ".controls label") == ["Search", "Status", "Verdict"]
    page.get_by_label("Search", exact=True).fill("group-299")
    assert page.locator("#samples tbody tr").count() == 1


def test_very_many_groups_are_folded_and_the_lowest_drawn(tmp_path: Path, opened: Open) -> None:
    samples = [sample(f"p{n}", 0, float(n >= 40), group=f"group-{n:04}") for n in range(1_500)]
    page = opened(written(tmp_path / "run", samples))
    groups = page.locator("section", has=page.get_by_role("heading", name="Pass rate by group"))

    drawn = [name for name in groups.locator(".chart-name").all_inner_texts() if name]
    assert len(drawn) == 60
    assert drawn[0] == "group-0000"
    assert "The 60 with the lowest rates, of 1,501." in groups.inner_text()
    assert groups.locator("details").get_attribute("open") is None
    assert groups.locator("tbody tr").count() == 1_001
    assert groups.locator("tr.total").count() == 1


def test_a_page_with_long_texts_everywhere_stays_small(tmp_path: Path) -> None:
    written(
        tmp_path / "run",
        [
            sample(
                f"{n} {'é' * 400}",
                0,
                0.0,
                id=f"t.py::t[{n}-{'z' * 400}]",
                group=f"{n % 9} {'ü' * 400}",
                verdict=f"{n} {'ö' * 400}",
                detail="ä" * 500,
            )
            for n in range(4_000)
        ],
    )


# Where a page is written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run", [entry(sample("square", 0, 1.0))])


def test_a_page_goes_where_a_link_points(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    target, link = tmp_path / "pages" / "real.html", tmp_path / "link.html"
    link.symlink_to(target)
    for _ in range(2):  # the target is made, then replaced
        write_report(folder, link)

        assert link.is_symlink()
        assert "</html>" in target.read_text()
    assert [file.name for file in target.parent.iterdir()] == ["real.html"]


def test_a_page_goes_into_a_pipe(folder: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard: list[str] = []
    reader = Thread(target=lambda: heard.append(pipe.read_text()), daemon=True)
    reader.start()
    write_report(folder, pipe)
    reader.join(timeout=60)  # a pipe that was replaced is never written to

    assert "</html>" in "".join(heard)
    assert pipe.is_fifo()


@pytest.mark.parametrize("command", [["report"], ["compare", "run"]])
def test_a_page_goes_to_standard_output(folder: Path, tmp_path: Path, command: list[str]) -> None:
    place = Popen(
        [sys.executable, "-m", "pytest_cwsandbox", *command, folder.name, "-o", "/dev/stdout"],
        cwd=tmp_path,
        stdout=PIPE,
        text=True,
    )
    said, _ = place.communicate()

    assert place.returncode == 0
    assert said.count("</html>") == 1


# Odd metadata, names and numbers


def test_metadata_of_a_sample_stands_apart_from_how_it_ran(tmp_path: Path, opened: Open) -> None:
    own = {"attempt": "mine", "worker": "w", "retries": "many", "test ended": "never"}
    page = opened(written(tmp_path / "run", [sample("square", 0, 1.0, metadata=own)]))
    show(page, "square")

    assert dict(facts(page, "Metadata")) == own
    assert dict(facts(page, "How it ran"))["test ended"] == "passed"
    assert dict(facts(page, "How it ran"))["worker"] == "main"


def test_numbers_that_are_none_enter_no_sum(tmp_path: Path, opened: Open) -> None:
    values = ["nan", "inf", "-inf", "many", "100"]
    samples = [
        sample("a", n, 1.0, metadata={"tokens_in": value, "tokens_out": value, "cost": value})
        for n, value in enumerate(values)
    ]
    page = opened(written(tmp_path / "run", samples))
    tiles = dict(zip(texts(page, ".tile dt"), texts(page, ".tile dd"), strict=True))

    assert tiles["tokens"].split("\n") == ["200", "200 each"]
    assert tiles["cost"] == "$100.00"


@pytest.mark.parametrize("name", ["a\x1bb \u202e c", "lone \ud800 one", "x" * 2_000, "50% & #1"])
def test_a_problem_that_flipped_is_found_whatever_its_name(
    tmp_path: Path, opened: Open, name: str
) -> None:
    records = [sample(name, 0, 0.0), sample("other", 0, 1.0)]
    folder = write_run(tmp_path / "run", [entry(each) for each in records])
    earlier = [replace(each, reward=1.0, verdict="passed") for each in records]
    compared = compare(earlier, records, names=("a", "b"))
    summary.write(folder, replace(summarise_run("run", records), comparison=compared))
    page = opened(write_report(folder))
    page.locator(".flips a").click()
    page.locator("#count").filter(has_text="1 of 2 samples").wait_for()

    assert page.locator("#count").inner_text().endswith("1 of 2 samples, 0.0% passed")


def test_long_names_do_not_widen_a_page_on_a_phone(tmp_path: Path, opened: Open) -> None:
    long = "x" * 5_000
    samples = [
        sample(
            f"{long}{n}",
            n,
            float(n % 2),
            group=f"{n % 2}{long}",
            verdict=f"{n}{long}",
            metadata={"model": f"{long}{n % 2}", "k" * 200: f"{n % 2}{long}", long: long},
        )
        for n in range(4)
    ]
    page = opened(written(tmp_path / "run", samples))
    for width in (1440, 375):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        show(page, "x")
        assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width
        page.keyboard.press("Escape")

    model = page.locator(".head span[title]")
    assert len(model.inner_text()) < 310
    assert long in (model.get_attribute("title") or "")
