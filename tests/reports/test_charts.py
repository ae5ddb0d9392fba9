"""Charts say what the numbers say, and nothing that a name holds becomes markup."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.reports.html.charts import (
    RateBar,
    flips_chart,
    latency_histogram,
    rates_chart,
    signal_histogram,
    verdict_chart,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from markupsafe import Markup

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "</title><script>alert('x')</script>\"&\0\ud800\x1b[31m"


def drawn(chart: Markup) -> ET.Element:
    """The chart as a browser that is strict about XML reads it, written as a file is."""
    return ET.fromstring(chart.encode().decode())  # noqa: S314 - what we made ourselves


def titles(chart: Markup) -> list[str]:
    return [str(title.text) for title in drawn(chart).iter(f"{SVG}title")]


def of_class(chart: Markup, kind: str) -> Iterator[ET.Element]:
    return (e for e in drawn(chart).iter() if kind in e.get("class", "").split())


def labels(chart: Markup) -> list[str]:
    return [str(text.text) for text in drawn(chart).iter(f"{SVG}text")]


def everything(name: str) -> dict[str, Markup]:
    return {
        "rates": rates_chart([RateBar(name, 0.5, (0.2, 0.8), 5, 10, RateBar(name, 1.0))]),
        "verdicts": verdict_chart({name: 3, "passed": 4}),
        "latency": latency_histogram([1, 2, 30], label=name),
        "signal": signal_histogram([0, 0.5, 1], label=name),
        "flips": flips_chart(1, 2, 3),
    }


@pytest.mark.parametrize("chart", everything(HOSTILE).values(), ids=everything("").keys())
def test_every_chart_is_one_image_of_valid_xml_whatever_a_name_holds(chart: Markup) -> None:
    root = drawn(chart)

    assert root.tag == "figure"
    assert root.get("role") == "img"
    assert root.get("aria-label")
    assert "script" not in {element.tag.removeprefix(SVG) for element in root.iter()}


def test_a_name_is_shown_in_full_as_text() -> None:
    (name, _) = of_class(rates_chart([RateBar("a<b>&\"'" + "x" * 200, 0.5)]), "chart-name")

    assert name.text == name.get("title") == "a<b>&\"'" + "x" * 200


def test_a_rate_stands_at_its_place_on_the_axis_with_its_interval() -> None:
    chart = rates_chart([RateBar("mbpp/agent", 0.8125, (0.75, 0.9), 13, 16)])

    (dot,) = of_class(chart, "dot")
    (interval,) = of_class(chart, "interval")
    assert dot.get("cx") == "81.25%"
    assert (interval.get("x1"), interval.get("x2")) == ("75%", "90%")
    assert titles(chart) == ["mbpp/agent: 81.2% (75.0% to 90.0%), 13 of 16 passed"]
    assert labels(chart) == ["0%", "25%", "50%", "75%", "100%"]


def test_an_earlier_rate_is_drawn_above_the_later() -> None:
    chart = rates_chart([RateBar("g", 0.5, None, 1, 2, RateBar("g", 1.0, None, 2, 2))])

    then, now = of_class(chart, "dot")
    assert float(then.get("cy", "")) < float(now.get("cy", ""))
    assert titles(chart) == ["g: 100.0%, 2 of 2 passed", "g: 50.0%, 1 of 2 passed"]


def test_a_group_without_samples_has_a_row_and_no_dot() -> None:
    chart = rates_chart([RateBar("lost", None)])

    assert not list(of_class(chart, "dot"))
    assert next(of_class(chart, "chart-name")).text == "lost"


def test_sixty_groups_have_sixty_rows_in_their_order() -> None:
    names = [f"group {number}" for number in range(60)]

    chart = rates_chart([RateBar(name, 0.5) for name in names])

    assert [name.text for name in of_class(chart, "chart-name")][:-1] == names


def test_nothing_is_drawn_of_nothing() -> None:
    assert rates_chart([]) == ""
    assert verdict_chart({}) == verdict_chart({"passed": 0}) == ""
    assert latency_histogram([]) == latency_histogram([float("nan"), float("inf")]) == ""
    assert signal_histogram([]) == ""
    assert flips_chart(0, 0, 0) == ""


def test_verdicts_are_sorted_and_told_apart_by_tone() -> None:
    chart = verdict_chart({"timeout": 1, "infrastructure_error": 2, "passed": 6, "no_code": 1})

    tones = [bar.get("class") for bar in of_class(chart, "bar")]
    assert tones == ["bar good", "bar warn", "bar bad", "bar bad"]
    assert titles(chart) == [
        "passed: 6 of 10 (60.0%)",
        "infrastructure_error: 2 of 10 (20.0%)",
        "no_code: 1 of 10 (10.0%)",
        "timeout: 1 of 10 (10.0%)",
    ]


def counted(chart: Markup) -> int:
    """The samples in all columns of a histogram, as their titles say."""
    bars = [title for title in titles(chart) if "sample" in title or "problem" in title]
    return sum(int(title.split(": ")[1].split()[0].replace(",", "")) for title in bars)


@pytest.mark.parametrize(
    "seconds",
    [
        [0.0],
        [0.0, 0.0],
        [5.0],
        [1.0, 2.0, 3.0],
        [0.1, 1.0, 10.0, 100.0, 1000.0, 5000.0],
        [0.0, 86_400.0],
        [0.001 * 1.01**n for n in range(1500)],
        [60.0, 60.001],
        [1e-9, 1e-9],
    ],
    ids=lambda seconds: f"{len(seconds)} from {seconds[0]:g} to {seconds[-1]:g}",
)
def test_every_time_is_in_one_column_of_few(seconds: list[float]) -> None:
    chart = latency_histogram(seconds)

    assert counted(chart) == len(seconds)
    assert len(list(of_class(chart, "bar"))) <= 26
    for mark in of_class(chart, "mark"):
        assert 0 <= float(mark.get("x1", "").removesuffix("%")) <= 100


def test_few_labels_stand_below_a_histogram_of_many_columns() -> None:
    chart = latency_histogram([0.001 * 1.01**n for n in range(1500)])

    (axis,) = of_class(chart, "chart-axis")
    assert 2 <= len(list(axis)) <= 6


def test_wide_spans_have_columns_of_equal_ratio_and_narrow_ones_of_equal_width() -> None:
    wide = titles(latency_histogram([0.1, 1, 10, 100]))
    narrow = titles(latency_histogram([10, 12, 14, 16]))

    assert wide[0].startswith("0.1 s to 0.15 s")
    assert narrow[0].startswith("10 s to 10.5 s")


def test_a_time_on_an_edge_counts_in_the_column_that_it_begins() -> None:
    bars = titles(latency_histogram([10.0, 10.4, 10.5, 12.0, 16.0]))[:-2]

    assert bars == [
        "10 s to 10.5 s: 2 samples",
        "10.5 s to 11 s: 1 sample",
        "12 s to 12.5 s: 1 sample",
        "16 s to 16.5 s: 1 sample",
    ]


def test_no_time_at_all_is_in_the_first_column_of_a_wide_span() -> None:
    assert titles(latency_histogram([0, 50, 100]))[0].startswith("0 s to 0.")


def test_the_median_and_the_95th_percentile_are_marked() -> None:
    chart = latency_histogram([float(n) for n in range(1, 101)])

    assert titles(chart)[-2:] == ["median: 50 s", "95th percentile: 95 s"]


def test_problems_that_never_or_always_pass_have_columns_of_their_own() -> None:
    chart = signal_histogram([0, 0, 0.1, 0.2, 0.99, 1])

    assert titles(chart) == [
        "pass rate 0%: 2 problems, nothing to learn",
        "pass rate < 20%: 1 problem",
        "pass rate < 40%: 1 problem",
        "pass rate < 100%: 1 problem",
        "pass rate 100%: 1 problem, nothing to learn",
    ]
    tones = [bar.get("class") for bar in of_class(chart, "bar")]
    assert tones == ["bar muted", *["bar accent"] * 3, "bar muted"]


def test_flips_share_one_bar() -> None:
    chart = flips_chart(1, 0, 3)

    regressed, unchanged = of_class(chart, "bar")
    assert (regressed.get("width"), unchanged.get("x")) == ("25%", "25%")
    assert drawn(chart).get("aria-label") == "1 regressed, 3 unchanged, 0 improved"
