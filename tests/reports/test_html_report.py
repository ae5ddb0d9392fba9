"""The report of a run, in a browser: what it says, the table, a sample, and hostile text."""

from __future__ import annotations

import json
import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.findings import Exploit, Finding
from pytest_cwsandbox.outcome import SampleRecord
from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.reports.html import details, samples, write_report
from pytest_cwsandbox.rollouts import recorded
from pytest_cwsandbox.rollouts.recorded import RecordedTrajectory
from pytest_cwsandbox.rollouts.trajectory import StopReason, Trajectory
from pytest_cwsandbox.runs import journal, lock, plan, summary
from pytest_cwsandbox.runs.comparison import compare
from pytest_cwsandbox.runs.journal import Entry
from pytest_cwsandbox.runs.plan import Planned
from pytest_cwsandbox.runs.summary import Checks, summarise_run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from playwright.sync_api import Page

    Open = Callable[[Path], Page]

MET = "pass rate gate: 3 of 4 samples passed (75.00%, at least 50.00% asked for): met"
HOSTILE = {
    "an image": "<img src=x onerror='window.pwned = 1'>",
    "an end of script": "</script><script>window.pwned = 1</script>",
    "comments": "<!-- <script> --> <![CDATA[ ]]>",
    "quotes": '"\'` onmouseover="window.pwned = 1" &quot;',
    "an address": "javascript:window.pwned=1",
    "a template": "{{ 7 * 7 }} {% raw %} ${window.pwned = 1}",
}


def sample(problem: str, number: int, reward: float | None, **changes: object) -> SampleRecord:
    verdicts = {None: "infrastructure_error", 1.0: "passed"}
    record = SampleRecord(
        f"test_x.py::test_agent[{problem}-s{number}]",
        "mbpp/agent",
        problem,
        number,
        reward,
        verdict=verdicts.get(reward, "wrong_answer"),
        detail="" if reward == 1 else f"assert {problem}(2) == 4: got None",
        seconds=float(number + 1),
        grader="submission",
        completion=f"def {problem}(x):\n    return x * {number}  # answer\n",
        metadata={"model": f"model-{number % 2}", "tokens_in": "100", "tokens_out": "20"},
    )
    return replace(record, **changes)  # type: ignore[arg-type]  # the field names are checked by the call


def entry(record: SampleRecord, failure: str = "") -> Entry:
    if record.reward is None:
        return Entry(record, "lost")
    passed = record.reward >= 1
    return Entry(record, "ended", ending="passed" if passed else "failed", failure=failure)


def rollout(of: SampleRecord, *messages: dict[str, object]) -> RecordedTrajectory:
    trajectory = Trajectory(
        messages,  # type: ignore[arg-type]  # in the form of Chat Completions
        (),
        StopReason.SUBMITTED,
        of.reward,
        of.verdict,
        metrics={"turns": 2, "tool_calls": 1, "tokens_in": 100, "tokens_out": 20},
        metadata={"tags": ["some-tag"]},
    )
    return RecordedTrajectory(of.id, of.group, of.problem, of.sample, trajectory)


def call(arguments: str) -> dict[str, object]:
    function = {"name": "execute_code", "arguments": arguments}
    calls = [{"id": "1", "type": "function", "function": function}]
    return {"role": "assistant", "content": "Let me try it.", "tool_calls": calls}


def heard(content: str) -> dict[str, object]:
    return {"role": "tool", "tool_call_id": "1", "content": content}


def write_run(
    folder: Path,
    entries: Sequence[Entry],
    *,
    gates: tuple[str, ...] | None = (MET,),
    checks: Checks | None = None,
) -> Path:
    """A run's folder; without ``gates`` one of a run that did not end."""
    for each in entries:
        journal.append(folder, each.record.worker, each)
    records = [each.record for each in entries]
    planned = [Planned(r.id, r.group, r.problem, r.sample) for r in records]
    problems = {
        name: Problem(name, f"Write {name}(x).", (f"assert {name}(1) == 1",), source="")
        for name in {record.problem for record in records}
    }
    plan.write(folder, planned, problems, {})
    if gates is not None:
        told = summarise_run(folder.name, records, keys=("model",), checks=checks)
        summary.write(folder, replace(told, gates=gates))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Two problems, sampled four times each: passed, failed and lost."""
    rewards: dict[str, list[float | None]] = {
        "square": [1.0, 1.0, 0.0, None],
        "twice": [1.0, 0.0, 1.0, 1.0],
    }
    records = [
        sample(name, number, reward)
        for name, several in rewards.items()
        for number, reward in enumerate(several)
    ]
    return write_run(
        tmp_path / "20260102-030405-abcdef",
        [entry(record, "E   AssertionError: it fails") for record in records],
    )


def texts(page: Page, selector: str) -> list[str]:
    return page.locator(selector).all_inner_texts()


def rows(page: Page) -> list[list[str]]:
    return [text.split("\t") for text in texts(page, "#samples tbody tr")]


def address(page: Page) -> str:
    return str(page.evaluate("location.hash"))


# What it says


def test_it_says_first_what_the_run_came_to(run: Path, opened: Open) -> None:
    page = opened(write_report(run))

    assert page.title() == "20260102-030405-abcdef: report"
    assert texts(page, ".banner strong") == ["Gates met"]
    tiles = dict(text.split("\n")[:2] for text in texts(page, ".tile"))
    assert tiles == {
        "pass rate": "71.4%",
        "samples": "8",
        "problems": "2",
        "mean reward": "0.714",
        "infra lost": "1",
        "retried": "0",
        "tokens": "960",
        "median time": "2.00 s",
    }


@pytest.mark.parametrize(
    ("lines", "checks", "status", "word"),
    [
        ((MET,), None, 0, "Gates met"),
        ((MET.replace("met", "MISSED"),), None, 1, "Gate missed"),
        ((MET,), Checks(3, 1), 1, "A check failed"),
        ((MET,), None, 1, "A test failed"),
        ((MET, "infrastructure: 1 of 8 items lost: INCONCLUSIVE"), None, 75, "Inconclusive"),
        (("gates: the run was cut short: not judged",), None, 2, "The run was cut short"),
        ((), None, 1, "A test failed"),
        ((), None, 0, "No gate was set"),
    ],
)
def test_the_verdict_agrees_with_the_exit_code(
    tmp_path: Path,
    opened: Open,
    lines: tuple[str, ...],
    checks: Checks | None,
    status: int,
    word: str,
) -> None:
    folder = write_run(tmp_path / "run", [entry(sample("a", 0, 1.0))], gates=lines, checks=checks)
    page = opened(write_report(folder, exit_status=status))

    assert texts(page, ".banner strong") == [word]
    assert (f"exit code: {status}" in page.inner_text(".banner")) == bool(status)


def test_a_run_that_was_killed_says_so_and_shows_what_it_had(tmp_path: Path, opened: Open) -> None:
    records = [sample("square", number, 1.0) for number in range(4)]
    folder = write_run(tmp_path / "run", [entry(each) for each in records], gates=None)
    (folder / "samples-main.jsonl").open("a").write('{"schema": 1, "id": "cut o')
    page = opened(write_report(folder))

    assert texts(page, ".banner strong") == ["The run did not end"]
    assert "4 of 4 samples were recorded" in page.inner_text(".banner")
    assert "continue it with --cwsandbox-resume=run" in page.inner_text(".banner")
    assert "cut off when its process died" in page.inner_text(".note")
    assert len(rows(page)) == 4


def test_a_run_that_still_goes_on_is_not_said_to_have_crashed(tmp_path: Path, opened: Open) -> None:
    folder = write_run(tmp_path / "run", [entry(sample("square", 0, 1.0))], gates=None)
    held = lock.FolderLock()
    held.take(folder)
    page = opened(write_report(folder))
    held.release()

    assert texts(page, ".banner strong") == ["The run is still going on"]
    assert "--cwsandbox-resume" not in page.inner_text(".banner")


def test_a_run_that_was_cut_short_names_its_continuation(tmp_path: Path, opened: Open) -> None:
    cut = "gates: the run was cut short: not judged"
    folder = write_run(tmp_path / "run", [entry(sample("a", 0, 1.0))], gates=(cut,))
    with (folder / plan.PLAN).open("a") as file:
        line = (folder / plan.PLAN).read_text().splitlines()[-1]
        file.write(line.replace("a-s0", "a-s1") + "\n")
    page = opened(write_report(folder, exit_status=2))

    assert "continue it with --cwsandbox-resume=run" in page.inner_text(".banner")


def test_grades_of_another_runs_completions_name_that_run(tmp_path: Path, opened: Open) -> None:
    folder = write_run(tmp_path / "run", [entry(sample("a", 0, 1.0))], gates=None)
    (folder / "run.json").write_text(json.dumps({"rescored_from": "20250101-000000-first"}))
    page = opened(write_report(folder))

    assert "rescored from 20250101-000000-first" in page.inner_text(".head")
    assert "--cwsandbox-resume" not in page.inner_text(".banner")


def test_the_end_of_a_run_before_it_was_continued_is_no_verdict(run: Path, opened: Open) -> None:
    journal.append(run, "gw1", entry(sample("square", 4, 0.0)))
    page = opened(write_report(run))

    assert texts(page, ".banner strong") == ["The run did not end"]
    assert page.inner_text("#count").startswith("9 of 9")


def test_rates_are_told_by_group_and_by_the_metadata_asked_for(run: Path, opened: Open) -> None:
    page = opened(write_report(run))

    told = [text.split("\t") for text in texts(page, "details table tbody tr")]
    assert [row[:3] for row in told] == [
        ["mbpp/agent", "5/7", "71.4%"],
        ["model=model-0", "3/4", "75.0%"],
        ["model=model-1", "2/3", "66.7%"],
    ]
    drawn = page.locator(".chart-name").all_inner_texts()
    assert {"mbpp/agent", "model=model-0", "passed", "wrong_answer"} <= set(drawn)


def test_bare_numbers_are_a_verdict_of_their_own_so_that_the_panel_adds_up(
    tmp_path: Path, opened: Open
) -> None:
    verdicts = ["passed", "", ""]
    records = [sample("a", n, 1.0, verdict=verdict) for n, verdict in enumerate(verdicts)]
    page = opened(write_report(write_run(tmp_path / "run", [entry(each) for each in records])))

    panel = page.locator("section", has=page.get_by_role("heading", name="Verdicts"))
    assert "no verdict" in panel.locator(".chart-name").all_inner_texts()
    assert panel.locator(".chart-value").all_inner_texts() == ["2 66.7%", "1 33.3%"]
    page.select_option("#filter-verdict", label="(none)")
    assert page.inner_text("#count").startswith("Filtered: 2 of 3 samples")


def test_a_problem_counts_in_each_of_its_groups(tmp_path: Path, opened: Open) -> None:
    records = [
        sample("a", n, reward, id=f"{group}[a-{n}]", group=group)
        for group in ("toy/one", "toy/two")
        for n, reward in enumerate([1.0, 0.0])
    ]
    page = opened(write_report(write_run(tmp_path / "run", [entry(each) for each in records])))

    [tile] = [text for text in texts(page, ".tile") if text.startswith("problems")]
    assert tile.split("\n") == ["problems", "2", "in 2 groups"]
    assert "4 of 2 problems" in page.inner_text(".signal")


def test_it_says_whether_grpo_would_learn_from_the_problems(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    said = page.inner_text(".signal")

    assert "Will GRPO learn from this? " in said
    assert "of groups of" in said
    assert "Problems by pass rate" in said


def test_what_got_worse_than_the_baseline_is_named_and_finds_its_samples(
    run: Path, opened: Open
) -> None:
    after = [each.record for each in journal.read(run, lambda _: None).values()]
    before = [replace(r, reward=1.0 if r.problem == "twice" else r.reward) for r in after]
    told = summarise_run(run.name, after)
    found = compare(before, after, names=("evals/baseline.json", "this run"))
    summary.write(run, replace(told, comparison=found))
    page = opened(write_report(run))

    assert "Against evals/baseline.json" in texts(page, "h2")
    assert [text.strip() for text in texts(page, ".flips li")] == ["mbpp/agent twice 4 → 3 of 4"]
    page.locator(".flips a").click()
    wait_for_count(page, "Filtered: ")
    assert {row[0] for row in rows(page)} == {"twice"}


def test_exploits_of_a_reward_function_are_named(run: Path, opened: Open) -> None:
    exploit = Exploit("always_equal", "reward", "square", 1.0, "class Equal: ...")
    summary.write_findings(
        run,
        [
            Finding("gold", "square", "good", 1, 1),
            Finding("attacks", "always_equal", "bad", 9, 10, exploits=(exploit,)),
        ],
    )
    page = opened(write_report(run))

    assert texts(page, ".complaints li") == ["EXPLOIT: always_equal (on square)"]


def test_a_validation_without_samples_has_a_report_too(tmp_path: Path, opened: Open) -> None:
    summary.write_findings(tmp_path, [Finding("gold", "square", "bad", 0, 1, "it earns 0")])
    page = opened(write_report(tmp_path))

    assert "gold: square: it earns 0" in page.inner_text("main")
    assert page.locator("#samples").count() == 0


def test_how_the_run_was_made_is_told(run: Path, opened: Open) -> None:
    told = {"command": ["pytest", "evals/a b.py"], "image": "python:3.11", "versions": {"x": "1"}}
    (run / "run.json").write_text(json.dumps(told))
    page = opened(write_report(run))

    assert "command pytest 'evals/a b.py'" in page.inner_text(".head")
    page.get_by_text("How this run was made").click()
    assert "versions.x" in page.inner_text("main")


def test_the_scripted_model_is_not_taken_for_one(tmp_path: Path, opened: Open) -> None:
    record = sample("square", 0, 1.0, metadata={"model": "scripted"})
    page = opened(write_report(write_run(tmp_path / "run", [entry(record)])))

    assert "no language model" in page.inner_text(".head")


@pytest.mark.parametrize(
    ("name", "said"),
    [("other.jsonl", "holds no samples"), ("samples-main.jsonl", "must be a JSON object")],
)
def test_what_is_no_run_is_a_clear_message(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / name).write_text("[]\n")

    with pytest.raises((UserError, ProblemFileError), match=said):
        write_report(tmp_path)
    assert not (tmp_path / "report.html").exists()


# The table


def test_samples_are_found_by_words(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    assert len(rows(page)) == 8
    page.get_by_label("Search", exact=True).fill("TWICE wrong_answer")

    assert [row[:2] for row in rows(page)] == [["twice", "1"]]
    assert page.inner_text("#count") == "Filtered: 1 of 8 samples, 0.0% passed"
    page.get_by_label("Search", exact=True).fill("no such thing")
    assert rows(page) == [["No sample matches."]]
    page.get_by_role("button", name="Clear filters").click()
    assert len(rows(page)) == 8


def test_samples_are_filtered_by_status_verdict_and_metadata(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    page.get_by_label("Status", exact=True).select_option("lost")
    assert [row[:2] for row in rows(page)] == [["square", "3"]]

    page.get_by_label("Status", exact=True).select_option("")
    page.get_by_role("combobox", name="Verdict").select_option("passed")
    page.get_by_label("model", exact=True).select_option("model-1")
    assert [row[:2] for row in rows(page)] == [["square", "1"], ["twice", "3"]]
    assert address(page) == "#verdict=passed&key.model=model-1"


def test_a_column_sorts_up_then_down_then_not(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    seconds = page.locator("th", has=page.get_by_role("button", name="seconds"))
    order = []
    for _ in range(3):
        page.get_by_role("button", name="seconds").click()
        order.append((seconds.get_attribute("aria-sort"), [row[1] for row in rows(page)]))

    assert order == [
        ("ascending", list("00112233")),
        ("descending", list("33221100")),
        ("none", list("01230123")),
    ]


def wait_for_count(page: Page, text: str) -> None:
    """A changed address shows in the page some time later."""
    page.locator("#count").filter(has_text=text).wait_for()


def in_view(page: Page, selector: str) -> bool:
    return bool(
        page.evaluate(
            """selector => {
                const { top } = document.querySelector(selector).getBoundingClientRect();
                return top >= 0 && top < innerHeight;
            }""",
            selector,
        )
    )


def test_the_verdict_leads_to_the_samples_that_made_it(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    page.set_viewport_size({"width": 1280, "height": 500})
    assert not in_view(page, "#samples-title")

    page.get_by_role("link", name="2 below full reward").click()
    wait_for_count(page, "Filtered: 2 of 8 samples")
    assert in_view(page, "#samples-title")
    page.get_by_role("button", name="Clear filters").click()
    assert page.inner_text("#count").startswith("8 of 8 samples")
    assert page.get_by_role("button", name="Clear filters").count() == 0
    page.get_by_role("link", name="1 lost to infrastructure").click()
    wait_for_count(page, "Filtered: 1 of 8 samples")
    assert {row[3] for row in rows(page)} == {"-"}


@pytest.mark.parametrize("width", [375, 1280])
def test_an_address_with_a_filter_opens_at_the_table(run: Path, opened: Open, width: int) -> None:
    page = opened(write_report(run))
    page.set_viewport_size({"width": width, "height": 500})
    page.goto(f"{page.url}#status=failed")
    page.reload()

    assert in_view(page, "#samples-title")
    assert page.inner_text("#count").startswith("Filtered: 2 of 8 samples")


def test_filters_are_folded_on_a_phone_and_say_how_many_are_on(run: Path, opened: Open) -> None:
    page = opened(write_report(run))
    page.set_viewport_size({"width": 375, "height": 800})
    page.get_by_text("Filters", exact=True).click()
    page.get_by_role("combobox", name="Verdict").select_option("passed")

    assert page.get_by_text("Filters: 1 on").is_visible()
    page.set_viewport_size({"width": 1280, "height": 800})
    assert not page.get_by_text("Filters: 1 on").is_visible()
    page.get_by_role("combobox", name="Status").wait_for()


def test_what_the_table_shows_stands_in_the_address(run: Path, opened: Open) -> None:
    file = write_report(run)
    page = opened(file)
    page.evaluate("location.hash = '#q=square&status=passed&sort=-seconds'")
    wait_for_count(page, "Filtered: 2 of 8 samples")

    assert [row[:2] for row in rows(page)] == [["square", "1"], ["square", "0"]]
    assert page.get_by_label("Search", exact=True).input_value() == "square"
    assert page.get_by_label("Status", exact=True).input_value() == "passed"


def test_many_samples_come_in_pages(tmp_path: Path, opened: Open) -> None:
    many = [entry(sample(f"p{number}", 0, 1.0)) for number in range(120)]
    page = opened(write_report(write_run(tmp_path / "run", many)))
    firsts = []
    for _ in range(3):
        firsts.append((rows(page)[0][0], len(rows(page))))
        page.get_by_role("button", name="Next").click(force=True)

    assert firsts == [("p0", 50), ("p50", 50), ("p100", 20)]
    assert page.get_by_role("button", name="Next").is_disabled()
    page.get_by_label("Search", exact=True).fill("p11")
    assert len(rows(page)) == 11


# A sample


@pytest.fixture
def page(run: Path, opened: Open) -> Page:
    """The report of the run with a trajectory."""
    of = sample("square", 2, 0.0)
    long = "\n".join(f"line {number}" for number in range(40))
    recorded.append(
        run,
        "gw0",
        rollout(
            of,
            {"role": "user", "content": "Write square(x)."},
            call(json.dumps({"code": "print(1)\nprint(2)"})),
            heard(long),
            call("{not JSON"),
            heard(""),
        ),
    )
    return opened(write_report(run))


def show(page: Page, name: str) -> str:
    """Open the sample by its row; what it shows."""
    page.locator("#samples tbody tr", has_text=re.compile(name)).first.click()
    page.wait_for_selector("dialog[open] .sample-body")
    return page.locator("dialog").inner_text()


def test_a_click_shows_the_samples_prompt_code_output_and_metadata(page: Page) -> None:
    page.get_by_role("combobox", name="Verdict").select_option("wrong_answer")
    shown = show(page, "square")

    assert "Write square(x)." in shown
    assert "def square(x):\n    return x * 2  # answer" in shown
    assert "assert square(2) == 4: got None" in shown
    assert "model-0" in shown
    page.get_by_text("Failure of the test").click()
    page.get_by_text("E   AssertionError: it fails").wait_for()


def test_its_trajectory_is_shown_with_calls_and_long_observations_folded(page: Page) -> None:
    page.get_by_role("combobox", name="Verdict").select_option("wrong_answer")
    shown = show(page, "square")

    assert "2 turns, 1 tool calls, 120 tokens, ended by submitted" in shown
    assert "calls execute_code" in shown
    assert "print(1)\nprint(2)" in shown
    assert "{not JSON" in shown
    assert "line 39" not in shown
    page.get_by_text("line 0 … (40 lines)").click()
    page.get_by_text("line 39").wait_for()


def test_a_sample_has_an_address_that_opens_it(page: Page) -> None:
    page.evaluate(f"location.hash = '#sample={quote('test_x.py::test_agent[twice-s3]')}'")
    page.wait_for_selector("dialog[open]")

    assert page.inner_text("#sample-title") == "twice sample 3"
    link = page.locator(".sample-id a").get_attribute("href")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")
    assert address(page) == ""
    page.evaluate("(link) => { location.hash = link }", link)
    page.wait_for_selector("dialog[open]")


def test_the_keyboard_opens_a_sample_steps_to_the_next_and_closes(page: Page) -> None:
    page.locator("#samples tbody a").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.inner_text("#sample-title") == "square sample 0"

    page.keyboard.press("ArrowRight")
    page.get_by_role("heading", name="square sample 1").wait_for()
    page.keyboard.press("ArrowLeft")
    page.get_by_role("heading", name="square sample 0").wait_for()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog:not([open])", state="attached")


def test_an_address_of_no_sample_shows_the_table(page: Page) -> None:
    page.evaluate("location.hash = '#sample=nowhere&page=99&sort=nothing'")

    assert len(rows(page)) == 8
    assert page.locator("dialog[open]").count() == 0


def test_light_and_dark_follow_the_system_until_the_button_is_pressed(page: Page) -> None:
    def background() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    page.emulate_media(color_scheme="light")
    light = background()
    page.emulate_media(color_scheme="dark")
    dark = background()
    assert light != dark

    page.get_by_role("button", name="Show the page light").click()
    assert background() == light
    page.reload()
    assert background() == light


def test_names_break_behind_slashes_and_underscores_on_a_phone(
    tmp_path: Path, opened: Open
) -> None:
    name = "mbpp-sanitized/test_agent_solves_the_problem_in_a_long_conversation"
    folder = write_run(tmp_path / "run", [entry(sample("a", 0, 1.0, group=name))])
    page = opened(write_report(folder))
    page.set_viewport_size({"width": 375, "height": 800})

    for selector in ("tbody th", ".chart-name"):
        first = page.locator(selector).first
        assert first.inner_text().replace("\u200b", "") == name
        assert first.locator("wbr").count() == name.count("_") + 1
        words = first.evaluate(
            """name => {
                const lines = [];  // how many rows each piece of text is on
                for (const node of name.childNodes) {
                    if (node.nodeType !== Node.TEXT_NODE) continue;
                    const range = document.createRange();
                    range.selectNode(node);
                    lines.push(new Set([...range.getClientRects()].map((r) => r.top)).size);
                }
                return lines;
            }"""
        )
        assert words[1:] == [1] * (len(words) - 1)  # the first may break at its hyphen


@pytest.mark.parametrize("width", [375, 1440])
def test_it_fits_a_phone_and_a_wide_screen(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    show(page, "square")
    assert page.evaluate("document.querySelector('dialog').scrollWidth") <= width


# Hostile text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_a_model_wrote_stays_text(tmp_path: Path, opened: Open, text: str) -> None:
    of = sample(
        f"problem {text}",
        0,
        0.0,
        id=f"test_x.py::test_agent[{text}]",
        group=f"mbpp/{text}",
        verdict=f"odd {text}",
        detail=f"detail {text}",
        completion=f"code {text}",
        metadata={"model": text, f"key {text}": text},
    )
    other = sample("other", 1, 1.0)
    folder = write_run(
        tmp_path / "run", [entry(of, f"failure {text}"), entry(other)], gates=(text,)
    )
    said: dict[str, object] = {"role": "assistant", "content": f"said {text}"}
    recorded.append(folder, "main", rollout(of, said, call(f"call {text}"), heard(f"heard {text}")))
    (folder / "run.json").write_text(json.dumps({"image": text, "command": [text], text: text}))
    summary.write_findings(folder, [Finding("attacks", text, "bad", 0, 1, text)])
    page = opened(write_report(folder))
    shown = show(page, "odd")
    page.get_by_text("Failure of the test").click()
    page.get_by_text(re.compile("^failure ")).wait_for()
    shown += page.locator("dialog").inner_text() + page.inner_text("main")

    for place in ("problem", "odd", "detail", "code", "failure", "said", "call", "heard"):
        assert f"{place} {text}" in shown
    assert page.evaluate("window.pwned") is None
    assert page.evaluate("document.querySelectorAll('img').length") == 0


def test_what_cannot_be_seen_is_shown_by_a_sign(tmp_path: Path, opened: Open) -> None:
    text = "nul \0 escape \x1b[31m override \u202e surrogate \ud800 bom \ufeff end"
    record = sample(f"p {text}", 0, 0.0, completion=text, detail=text)
    page = opened(write_report(write_run(tmp_path / "run", [entry(record)], gates=(text,))))
    seen = "nul ␀ escape ␛[31m override ⟨U+202E⟩ surrogate \N{REPLACEMENT CHARACTER} bom ⟨U+FEFF⟩"

    assert seen in page.inner_text(".banner")
    assert show(page, "p nul").count(seen) >= 2


def test_a_line_of_a_megabyte_is_cut_and_says_so(tmp_path: Path, opened: Open) -> None:
    record = sample("square", 0, 0.0, completion="x" * 1_000_000)
    page = opened(write_report(write_run(tmp_path / "run", [entry(record)])))

    assert "[900,000 more characters]" in show(page, "square")


# Size


def test_trajectories_of_passed_samples_are_left_out_first_where_the_page_would_grow_too_large(
    tmp_path: Path, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(samples, "BUDGET", 120_000)
    monkeypatch.setattr(details, "CHUNK", 8_000)
    noise = random.Random(1)  # noqa: S311 - text that gzip cannot make small
    records = [sample(f"p{n}", n, float(n % 2)) for n in range(20)]
    folder = write_run(tmp_path / "run", [entry(record) for record in records])
    for record in records:
        # Passed ones differ in size: the largest goes first.
        text = noise.randbytes(2_000 + 200 * record.sample).hex()
        recorded.append(folder, "main", rollout(record, heard(text)))
    page = opened(write_report(folder))
    chunks = page.evaluate("TABLE.chunks.trajectories")

    left_out = [place for place, chunk in enumerate(chunks) if chunk == details.LEFT_OUT]
    assert left_out
    assert left_out == list(range(1, 20, 2))[-len(left_out) :]
    assert page.inner_text(".left-out") == (
        f"To keep this page small it leaves out trajectories of {len(left_out)} samples: "
        "trajectories-*.jsonl"
    )
    assert "trajectories-*.jsonl has it" in show(page, "p19")


def test_ten_thousand_samples_make_a_small_page(tmp_path: Path, opened: Open) -> None:
    many = [entry(sample(f"p{n // 10}", n % 10, float(n % 3 > 0))) for n in range(10_000)]
    file = write_report(write_run(tmp_path / "run", many))
    page = opened(file)

    assert file.stat().st_size < 20_000_000
    assert page.inner_text("#count") == "10,000 of 10,000 samples, 66.7% passed"
    page.get_by_label("Search", exact=True).fill("p999 wrong_answer")
    assert len(rows(page)) == 4
    assert "def p999(x):" in show(page, "p999")


# At the end of a run


def test_every_run_with_samples_ends_in_a_report(pytester: pytest.Pytester, opened: Open) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("reward", [1.0, 0.0])
        def test_sample(reward, record_reward):
            record_reward(reward, detail="because")
        """
    )
    result = pytester.runpytest_subprocess("-n0", "--cwsandbox-min-pass-rate=0.9")

    assert result.ret == 1
    line = next(line for line in result.outlines if line.startswith("report: "))
    page = opened(pytester.path / line.removeprefix("report: "))
    assert texts(page, ".banner strong") == ["Gate missed"]
    assert "exit code: 1" in page.inner_text(".banner")
    assert len(rows(page)) == 2


def test_a_report_that_cannot_be_written_does_not_change_the_exit_code(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile("def test_sample(record_reward): record_reward(1.0)")
    pytester.makeconftest(
        """
        import pytest

        @pytest.fixture(autouse=True)
        def in_the_way(pytestconfig):
            yield
            for folder in pytestconfig.rootpath.glob(".cwsandbox/runs/*"):
                (folder / "report.html").mkdir(exist_ok=True)
        """
    )
    result = pytester.runpytest_subprocess("-n0")

    assert result.ret == 0
    result.stdout.fnmatch_lines(["cwsandbox: report.html could not be written: *"])
