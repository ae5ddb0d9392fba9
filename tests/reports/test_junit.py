"""Rewards in the file of ``--junitxml``, and the file as those who read it want it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., pytest.RunResult]

# What Jenkins' xUnit plugin takes (its junit-10.xsd), written down by hand: attributes that must
# and that may be there, and children.
SUITE = {"name", "tests", "failures", "errors"}, {"time", "skipped", "timestamp", "hostname"}
CASE = {"name"}, {"time", "classname", "group"}
RESULT: tuple[set[str], set[str]] = set(), {"type", "message"}
RESULTS = {"skipped", "error", "failure"}
PROPERTY: tuple[set[str], set[str]] = {"name", "value"}, set()


def cases(file: Path) -> dict[str, ET.Element]:
    return {str(case.get("name")): case for case in ET.parse(file).iter("testcase")}  # noqa: S314 - our own file


def properties(case: ET.Element) -> dict[str, str]:
    return {str(each.get("name")): str(each.get("value")) for each in case.iter("property")}


def check(element: ET.Element, attributes: tuple[set[str], set[str]], children: set[str]) -> None:
    must, may = attributes
    assert must <= set(element.attrib) <= must | may, element.attrib
    assert {child.tag for child in element} <= children


def check_schema(file: Path, *, with_properties: bool) -> None:
    root = ET.parse(file).getroot()  # noqa: S314 - our own file
    assert root.tag == "testsuites"
    for suite in root:
        assert suite.tag == "testsuite"
        check(suite, SUITE, {"properties", "testcase"})
        for case in suite.iter("testcase"):
            check(case, CASE, RESULTS | {"properties"} if with_properties else RESULTS)
            for child in case:
                if child.tag == "properties":
                    assert next(iter(case)) is child
                    assert len(case.findall("properties")) == 1
                    assert not child.attrib
                    for each in child:
                        assert each.tag == "property"
                        check(each, PROPERTY, set())
                else:
                    check(child, RESULT, set())


@pytest.fixture
def mixed(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_mixed="""
        import pytest

        @pytest.mark.problems(group="adding")
        def test_graded(problem, sample, record_reward):
            record_reward(0.25, detail="close", metadata={"model": "some/model"})

        @pytest.fixture
        def broken():
            yield
            raise RuntimeError("the teardown failed")

        def test_torn_down(record_reward, broken):
            record_reward(0.0)
            assert False

        def test_lost(record_reward):
            record_reward(None, detail="no answer")

        def test_hostile(record_reward):
            record_reward(
                1.0,
                detail="<b> & \\"quoted\\" \\x00\\x1b[31m \\ud800 ]]> \\U0001f40d\\n\\tsecond line",
                metadata={"na\\x07me": "\\ufffe"},
            )

        def test_check():
            pass
        """
    )


@pytest.mark.usefixtures("mixed")
def test_test_cases_of_samples_carry_reward_verdict_and_tags(
    run: Run, pytester: pytest.Pytester
) -> None:
    run("--junitxml=report.xml", "--cwsandbox-problems=toy", "--cwsandbox-limit=1")
    file = pytester.path / "report.xml"
    found = {name: properties(case) for name, case in cases(file).items()}
    (graded,) = (told for name, told in found.items() if name.startswith("test_graded"))
    assert graded.pop("problem")
    assert graded == {
        "group": "toy/adding",
        "sample": "0",
        "reward": "0.25",
        "detail": "close",
        "source": "toy",
        "model": "some/model",
    }
    assert found["test_torn_down"]["reward"] == "0"
    lost = found["test_lost"]
    assert lost["verdict"] == "infrastructure_error"
    assert lost["detail"] == "no answer"
    assert "reward" not in lost
    hostile = found["test_hostile"]
    assert '<b> & "quoted" #x00#x1B[31m ' in hostile["detail"]
    assert hostile["detail"].endswith("]]> \U0001f40d\n\tsecond line")
    assert hostile["na?me"] == "#xFFFE"
    assert found["test_check"] == {}
    check_schema(file, with_properties=True)


@pytest.mark.usefixtures("mixed")
def test_a_sample_whose_teardown_fails_too_tells_both_times(
    run: Run, pytester: pytest.Pytester
) -> None:
    run("--junitxml=report.xml", "-k", "torn_down")
    tree = ET.parse(pytester.path / "report.xml")  # noqa: S314 - our own file
    failed, torn = tree.iter("testcase")
    assert [each.tag for each in failed] == ["properties", "failure"]
    assert [each.tag for each in torn] == ["properties", "error"]
    assert properties(failed) == properties(torn)


@pytest.mark.usefixtures("mixed")
def test_a_file_without_our_properties_is_what_the_strictest_reader_takes(
    pytester: pytest.Pytester,
) -> None:
    pytester.runpytest_subprocess(
        *("-p", "no:xdist", "--junitxml=report.xml"),
        *("--cwsandbox-junit-properties=no", "--cwsandbox-problems=toy"),
    )
    check_schema(pytester.path / "report.xml", with_properties=False)


def test_no_secret_gets_into_the_file(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "abcdefgh12345678")
    pytester.makepyfile(
        """
        def test_sample(record_reward):
            record_reward(1.0, detail="refused abcdefgh12345678")
        """
    )
    pytester.runpytest_subprocess("-p", "no:xdist", "--junitxml=report.xml")
    (case,) = cases(pytester.path / "report.xml").values()
    assert properties(case)["detail"] == "refused [redacted]"
