"""A run that uses nothing of the plugin has no hook of it per item, report or collected object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.plugin.conftest import DISTRIBUTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., pytest.RunResult]

# What pytest and xdist call once in a run, per worker or per death of one. All else is per item.
PER_RUN = {
    "pytest_addhooks",
    "pytest_addoption",
    "pytest_cmdline_main",
    "pytest_cmdline_parse",
    "pytest_collection",
    "pytest_collection_finish",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_handlecrashitem",
    "pytest_keyboard_interrupt",
    "pytest_load_initial_conftests",
    "pytest_report_header",
    "pytest_runtestloop",
    "pytest_sessionfinish",
    "pytest_sessionstart",
    "pytest_terminal_summary",
    "pytest_testnodedown",
    "pytest_unconfigure",
    "pytest_xdist_auto_num_workers",
    "pytest_xdist_make_scheduler",
    "pytest_xdist_node_collection_finished",
}
# Names the implementations that are there, in each process, when it has collected and at its end.
CONFTEST = """
import json, os, pathlib
import pytest

def ours(config):
    found = set()
    for plugin in config.pluginmanager.get_plugins():
        for caller in config.pluginmanager.get_hookcallers(plugin) or ():
            module = getattr(plugin, "__name__", type(plugin).__module__)
            if module.startswith("pytest_cwsandbox"):
                found.add(caller.name)
    return sorted(found)

def note(config, when):
    process = getattr(config, "workerinput", {}).get("workerid", "main")
    place = pathlib.Path(config.rootpath, f"hooks-{process}-{when}.json")
    place.write_text(json.dumps(ours(config)))

def pytest_itemcollected(item):
    note(item.config, "collecting")

def pytest_runtest_setup(item):
    note(item.config, "running")

@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session):
    note(session.config, "ending")
"""
PLAIN = """
import asyncio
import pytest

class TestClass:
    @pytest.mark.parametrize("value", range(10))
    def test_method(self, value):
        assert value < 10

@pytest.mark.parametrize("value", range(9))
def test_function(value, tmp_path):
    assert value < 9

@pytest.mark.asyncio
async def test_coroutine():
    await asyncio.sleep(0)
"""
MARKED = """
@pytest.mark.problems("toy")
def test_marked(problem, record_reward):
    record_reward(1.0)
"""


def hooks(pytester: pytest.Pytester) -> dict[str, set[str]]:
    """The hooks of ours in each process at each time, by the names of the files that tell them."""
    files = pytester.path.glob("hooks-*.json")
    return {file.stem: set(json.loads(file.read_text())) for file in files}


def test_a_run_that_uses_nothing_of_ours_has_none_of_them(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(PLAIN)
    run().assert_outcomes(passed=20)
    found = hooks(pytester)
    assert any(name.endswith("running") for name in found)
    # A file is looked at once, before its first test is asked for.
    allowed = PER_RUN | {"pytest_pycollect_makemodule"}
    assert {name: names - allowed for name, names in found.items()} == {
        name: set() for name in found
    }


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_a_run_that_uses_ours_has_them_in_every_process_before_its_first_test(
    pytester: pytest.Pytester, distribution: str
) -> None:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(test_a=PLAIN, test_z="import pytest\n" + MARKED)
    result = pytester.runpytest_subprocess(*DISTRIBUTIONS[distribution])
    result.assert_outcomes(passed=25)
    result.stdout.fnmatch_lines(["toy/test_marked*5/5*"])
    found = hooks(pytester)
    running = [names for name, names in found.items() if name.endswith("running")]
    assert running
    assert all("pytest_runtest_makereport" in names for names in running)
    assert "pytest_runtest_logreport" in found["hooks-main-ending"]
    summary = json.loads(next(pytester.path.glob(".cwsandbox/runs/*/summary.json")).read_text())
    assert summary["checks"] == {"passed": 20, "failed": 0}


# Where a marker or a fixture of ours can stand that matters for collecting.
MARKED_TESTS = {
    "marker of a class": """
import pytest
@pytest.mark.problems("toy")
class TestClass:
    def test_it(self, record_reward):
        record_reward(1.0)
""",
    "marker of a base class elsewhere": """
from bases import Base
class TestClass(Base):
    pass
""",
    "marker of a module": """
import pytest
pytestmark = pytest.mark.problems("toy")
def test_it(record_reward):
    record_reward(1.0)
""",
    "decorator from elsewhere": """
from bases import per_problem
@per_problem
def test_it(record_reward):
    record_reward(1.0)
""",
    "class within a class": """
import pytest
class TestClass:
    class TestInner:
        @staticmethod
        @pytest.mark.problems("toy")
        def test_it(record_reward):
            record_reward(1.0)
""",
}
BASES = """
import pytest
per_problem = pytest.mark.problems("toy")
class Base:
    @per_problem
    def test_it(self, record_reward):
        record_reward(1.0)
"""


@pytest.mark.parametrize("tests", MARKED_TESTS.values(), ids=MARKED_TESTS)
def test_a_marker_is_found_wherever_it_stands(pytester: pytest.Pytester, tests: str) -> None:
    pytester.makepyfile(bases=BASES, test_it=tests)
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    result.stdout.fnmatch_lines(["toy/test_it*5/5*"])


# How an item can use a fixture of ours.
USES = {
    "fixture": """
def test_it(record_reward):
    record_reward(1.0)
""",
    "fixture through another": """
import pytest
@pytest.fixture
def note(record_reward):
    return record_reward
def test_it(note):
    note(1.0)
""",
    "autouse fixture": """
import pytest
@pytest.fixture(autouse=True)
def note(record_reward):
    record_reward(1.0)
def test_it():
    pass
""",
    "fixture asked for as the test runs": """
def test_it(request):
    request.getfixturevalue("record_reward")(1.0)
""",
    "coroutine of strict mode": """
async def test_it(record_reward):
    record_reward(1.0)
""",
}


@pytest.mark.parametrize("test", USES.values(), ids=USES)
def test_a_sample_is_counted_however_it_came_to_its_fixture(
    pytester: pytest.Pytester, test: str
) -> None:
    pytester.makepyfile(PLAIN, test_it=test)
    result = pytester.runpytest_subprocess("-n2")
    result.assert_outcomes(passed=21)
    result.stdout.fnmatch_lines(["test_it/test_it*1/1*"])
    summary = json.loads(next(pytester.path.glob(".cwsandbox/runs/*/summary.json")).read_text())
    assert summary["checks"] == {"passed": 20, "failed": 0}


def test_what_fails_of_a_fixture_asked_for_as_the_test_runs_is_still_infrastructure(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile("""
        def test_it(request):
            request.getfixturevalue("record_reward")(None)

        def test_plain():
            pass
    """)
    result = run()
    assert result.ret == 75
    result.stdout.fnmatch_lines(["checks: 1 passed, 0 failed"])


def test_a_marker_that_comes_too_late_to_be_seen_is_said(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("""
        import pytest

        def pytest_itemcollected(item):
            item.add_marker(pytest.mark.problems("toy"))
    """)
    pytester.makepyfile("def test_it(): pass")
    result = pytester.runpytest_inprocess("-p", "no:xdist")
    result.stdout.fnmatch_lines(["*its marker came too late to be seen: set cwsandbox_problems*"])
