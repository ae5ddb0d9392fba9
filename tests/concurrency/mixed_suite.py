"""A small project with every outcome that pytest knows, coroutine tests among plain ones.

Its coroutines wait a few hundredths of a second at `pause`, so that they overlap where they may.
"""

from __future__ import annotations

import json


def _problems(count: int) -> str:
    return "".join(
        json.dumps(
            {
                "task_id": f"add{number}",
                "prompt": "Add two numbers.",
                "reference_solution": "def add(a, b):\n    return a + b",
                "test_list": [f"assert add(1, {number}) == {number + 1}"],
            }
        )
        + "\n"
        for number in range(count)
    )


INI = """
[pytest]
addopts = -ra
junit_family = xunit1
log_level = INFO
log_file = run.log
log_file_level = INFO
log_file_format = %(name)s %(levelname)s %(message)s
asyncio_default_fixture_loop_scope = function
filterwarnings =
    default
    ignore:not worth telling
    error:fatal:RuntimeWarning
markers =
    timeout: of pytest-timeout
    slow: does nothing
"""

PACE = """
import asyncio

under_way = most = 0

async def pause(seconds=0.02):
    global under_way, most
    under_way += 1
    most = max(most, under_way)
    try:
        await asyncio.sleep(seconds)
    finally:
        under_way -= 1
"""

CONFTEST = """
import pytest

NEEDS = {"test_async_fixtures.py": "asyncio", "test_timeouts.py": "timeout"}

def pytest_ignore_collect(collection_path, config):
    needed = NEEDS.get(collection_path.name)
    return True if needed and not config.pluginmanager.hasplugin(needed) else None

@pytest.fixture(scope="session")
def settings():
    return {"name": "settings"}

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.user_properties.append(("phase", f"{item.name} {call.when}"))
    return report
"""

OUTCOMES = """
import asyncio, os, sys, unittest
import pytest
from pace import pause
from pytest_cwsandbox.errors import InfrastructureError

each = pytest.mark.problems("problems.jsonl", samples=2)
one = pytest.mark.problems("one.jsonl")

@each
async def test_records(problem, sample, record_reward):
    await pause(0.06 - 0.03 * sample)
    record_reward(float(sample), detail=f"of {problem.id}", metadata={"level": sample})

def test_plain():
    assert True

@each
async def test_compares(problem, sample, record_reward):
    await pause()
    record_reward(0.5)
    assert {"id": problem.task_id, "sample": sample, "is": "right"} == {"id": "add0", "sample": 0}

def test_plain_failure():
    assert [1, 2, 3] == [1, 2, 4]

@one
async def test_records_then_raises(record_reward):
    record_reward(1.0)
    await pause()
    raise LookupError("after the reward")

@one
async def test_records_none(record_reward):
    await pause()
    record_reward(None, detail="nobody answered")

@one
async def test_infrastructure():
    await pause()
    raise InfrastructureError("no sandbox started")

@one
async def test_never_waits(problem):
    assert problem.task_id == "add0"

@one
async def test_fails_at_once():
    assert "left" == "right"

@one
async def test_fails_deep():
    async def inner():
        await pause()
        assert len("abc") > 5, "too short"
    await inner()

@one
async def test_from_another_error():
    try:
        await pause()
        raise KeyError("first")
    except KeyError as error:
        raise ValueError("second") from error

@each
async def test_skips(problem, sample):
    await pause()
    if sample:
        pytest.skip(f"{problem.id} has but one")

@pytest.mark.skip(reason="always")
@each
async def test_is_skipped(problem):
    raise AssertionError("never runs")

@pytest.mark.skipif(sys.version_info > (3,), reason="too new")
@one
async def test_is_skipped_if():
    raise AssertionError("never runs")

@pytest.mark.skipif("sys.version_info < (3,)")
@one
async def test_is_not_skipped():
    await pause()

@pytest.mark.xfail(raises=ValueError, reason="known")
@pytest.mark.parametrize("error", [ValueError, KeyError])
@one
async def test_expected_error(error):
    await pause()
    raise error("expected or not")

@pytest.mark.xfail(strict=True, reason="mended")
@one
async def test_strict_and_passes():
    await pause()

@pytest.mark.xfail(reason="mended")
@one
async def test_expected_and_passes(record_reward):
    await pause()
    record_reward(1.0)

@pytest.mark.xfail(run=False, reason="hangs")
@one
async def test_is_not_run():
    await asyncio.sleep(3600)

@pytest.mark.xfail(False, reason="elsewhere only")
@one
async def test_not_expected_here():
    await pause()
    assert False

@one
async def test_expects_in_its_body():
    await pause()
    pytest.xfail("known by now")

@one
async def test_fails_without_a_traceback():
    await pause()
    pytest.fail("in one line", pytrace=False)

@one
async def test_group_of_errors():
    async def fails(text):  # at its first step, or one could end the other before it fails
        raise ValueError(text)
    await pause()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fails("one"))
        tasks.create_task(fails("two"))

@one
async def test_leaves():
    await pause()
    sys.exit(3)

@one
async def test_times_out():
    async with asyncio.timeout(0.01):
        await pause(30)

@one
async def test_waits_too_long():
    await asyncio.wait_for(pause(30), 0.01)

@one
async def test_is_cancelled():
    asyncio.current_task().cancel()
    await pause()

@one
async def test_returns_something():
    await pause()
    return 5

LEFT = []

@one
async def test_leaves_a_task():
    async def later():
        LEFT.append("started")
        try:
            await asyncio.sleep(3600)
        finally:
            LEFT.append("ended")
    test_leaves_a_task.left = asyncio.create_task(later())
    await pause()

def test_task_has_ended():
    assert LEFT in ([], ["started", "ended"])  # nothing in a process that did not run the other

async def test_unmarked():
    await pause()
    assert "marked" == "unmarked"

@one
def test_plain_of_a_problem(problem, record_reward):
    record_reward(0.0)
    assert problem.task_id == "add1"

class TestUnittest(unittest.IsolatedAsyncioTestCase):
    async def test_waits(self):
        await pause()

    async def test_fails(self):
        await pause()
        self.assertEqual(1, 2)

attempts = {}

@each
async def test_passes_at_the_second_attempt(problem, sample, record_reward):
    attempts[problem.id, sample] = attempts.get((problem.id, sample), 0) + 1
    await pause()
    record_reward(attempts[problem.id, sample] - 1.0)
    assert attempts[problem.id, sample] == 2
"""

OUTPUT = """
import asyncio, contextvars, io, logging, sys, warnings
from contextlib import redirect_stdout
import pytest
from pace import pause

pytestmark = pytest.mark.problems("problems.jsonl", samples=2)
log = logging.getLogger("suite")
HERE = contextvars.ContextVar("HERE", default="nowhere")

async def test_prints(problem, sample):
    print("before", problem.id, sample)
    print("error before", problem.id, sample, file=sys.stderr)
    await pause(0.05 - 0.01 * sample)
    sys.stdout.write(f"between {problem.id}\\n")
    await pause(0.01)
    print("after", problem.id, sample)
    print("error after", problem.id, sample, file=sys.stderr)
    assert sample == 0

async def test_children_print(problem):
    async def child(number):
        await pause(0.01 * number)
        print("child", number, "of", problem.id)
    await asyncio.gather(*(child(number) for number in range(3)))

async def test_uses_a_thread(problem):
    assert await asyncio.to_thread(len, problem.task_id) == 4

async def test_redirects(problem):
    await pause()
    with redirect_stdout(io.StringIO()) as into:
        print("kept")
    assert into.getvalue() == "kept\\n"

async def test_logs(problem, sample):
    log.debug("too quiet")
    log.info("before %s %s", problem.id, sample)
    await pause(0.03 - 0.02 * sample)
    log.error("after %s %s", problem.id, sample)
    logging.getLogger("suite.child").warning("child")
    assert not sample

async def test_warns(problem):
    warnings.warn(f"before {problem.id}")
    await pause()
    warnings.warn(f"after {problem.id}", DeprecationWarning)
    warnings.warn("not worth telling")

async def test_warns_alike(problem):
    await pause()
    warnings.warn("the same text of the same line")

async def test_warns_twice(problem):
    for _ in range(2):
        await pause(0.01)
        warnings.warn("twice from one line")

async def test_warning_is_fatal(problem):
    await pause()
    warnings.warn("fatal", RuntimeWarning)

@pytest.mark.filterwarnings("error:mine")
async def test_own_filter(problem):
    await pause()
    warnings.warn("mine")

@pytest.mark.filterwarnings("ignore:mine")
async def test_own_other_filter(problem):
    await pause()
    warnings.warn("mine")

async def test_expects_a_warning(problem):
    await pause()
    with pytest.warns(UserWarning, match="expected"):
        warnings.warn("expected")

def test_plain_prints(problem):
    print("plain", problem.id)
    warnings.warn(f"plain {problem.id}")
    log.warning("plain %s", problem.id)

async def test_context(problem):
    assert HERE.get() == "nowhere"
    HERE.set(problem.id)
    await pause()
    assert HERE.get() == problem.id
"""

FIXTURES = """
import os, unittest
from unittest import mock
import pytest
from pace import pause

each = pytest.mark.problems("problems.jsonl")
pytestmark = each

@pytest.fixture
def text(problem):
    print("set up", problem.id)
    yield f"text of {problem.id}"
    print("tear down", problem.id)

@pytest.fixture
def broken(problem):
    raise OSError(f"no room for {problem.id}")

@pytest.fixture
def breaks_later():
    yield
    raise OSError("cannot clean up")

@pytest.fixture
def level(request):
    return request.param * 2

@pytest.fixture(scope="module")
def wide_level(request):
    return request.param * 3

@pytest.fixture(scope="module", params=["a", "b"])
def letter(request):
    return request.param

@pytest.fixture(scope="module")
def skips():
    pytest.skip("the whole module's")

async def test_own_text(problem, text):
    print("in", text)
    await pause()
    assert text == f"text of {problem.id}"

async def test_broken(broken):
    await pause()

async def test_breaks_later(breaks_later, record_reward):
    await pause()
    record_reward(1.0)

async def test_fails_and_breaks(breaks_later):
    await pause()
    assert 0

@pytest.mark.usefixtures("text")
async def test_uses(problem):
    await pause()

async def test_skipped_by_fixture(skips):
    await pause()

async def test_letter(problem, letter):
    print(letter)
    await pause()
    print(letter)

@pytest.mark.parametrize("level", [1, 2], indirect=True)
async def test_level(problem, level):
    await pause()
    assert level in (2, 4)

@pytest.mark.parametrize("wide_level", [1, 2], indirect=True)
async def test_wide_level(problem, wide_level, request):
    await pause()
    assert wide_level == 3 * request.node.callspec.params["wide_level"]

@pytest.mark.parametrize("wide_level", [1, 2], indirect=True)
@pytest.mark.parametrize("number", [1, 2], ids=["uno", "due"])
async def test_both(problem, number, wide_level):
    print(number, wide_level)
    await pause()
    assert number < 2

@pytest.fixture(scope="module")
def box(size):
    return f"a box of {size}"

@pytest.mark.parametrize("size", [1, 2], scope="module")
async def test_box(problem, box, size):
    await pause()
    assert box == f"a box of {size}"

@mock.patch("os.getcwd", return_value="/patched")
async def test_patched(getcwd, problem):
    await pause()
    assert os.getcwd() == "/patched"
    getcwd.assert_called_once_with()

class TestCase(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.ready = True

    async def test_one(self):
        await pause()
        self.assertTrue(self.ready)

    async def test_two(self):
        print("two")
        await pause()
        self.assertTrue(self.ready)

async def test_settings(problem, settings, record_reward):
    await pause()
    record_reward(1.0, detail=settings["name"])

async def test_tmp_path(tmp_path, problem):
    (tmp_path / "file").write_text(problem.id)
    await pause()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

async def test_monkeypatch(monkeypatch, problem):
    monkeypatch.setenv("SUITE", problem.id)
    await pause()
    assert os.environ["SUITE"] == problem.id

async def test_environment_is_clean(problem):
    await pause()
    assert "SUITE" not in os.environ

async def test_capsys(capsys, problem):
    print("captured", problem.id)
    await pause()
    assert capsys.readouterr().out == f"captured {problem.id}\\n"

async def test_caplog(caplog, problem):
    import logging
    logging.getLogger("suite").warning("noted")
    await pause()
    assert caplog.messages == ["noted"]

async def test_recwarn(recwarn, problem):
    import warnings
    await pause()
    warnings.warn("seen")
    assert len(recwarn) == 1

async def test_properties(record_property, problem):
    record_property("id", problem.id)
    await pause()

async def test_request(request, problem):
    await pause()
    assert request.getfixturevalue("settings") == {"name": "settings"}
    assert problem.id in request.node.name

async def test_subtests(subtests, problem):
    for number in range(3):
        with subtests.test("part", number=number):
            await pause(0.01)
            print("part", number)
            assert number != 1

class TestClass:
    shared = []

    @pytest.fixture(scope="class")
    @staticmethod
    def of_class():
        return []

    async def test_first(self, problem, of_class):
        assert not hasattr(self, "mark")
        self.mark = problem.id
        await pause()
        assert self.mark == problem.id

    @pytest.mark.slow
    async def test_second(self, problem, of_class, settings):
        await pause()
        assert of_class == [problem.id]

class TestSetUp:
    def setup_method(self):
        self.ready = True

    async def test_ready(self, problem):
        await pause()
        assert self.ready and problem.task_id != "add1"
"""

AUTOUSE = """
import pytest
from pace import pause

pytestmark = pytest.mark.problems("problems.jsonl")
events = []

@pytest.fixture(scope="module", autouse=True)
def of_module():
    events.append("module")
    yield
    events.clear()

async def test_of_module(problem, of_module):
    await pause()
    assert events == ["module"]

async def test_without_asking(problem, of_module=None):
    assert of_module is None
    await pause()
    assert events[0] == "module"

class TestEach:
    @pytest.fixture(autouse=True)
    def around(self, problem):
        events.append(problem.id)
        yield
        events.remove(problem.id)

    async def test_around(self, problem):
        assert events == ["module", problem.id]
        await pause()
        assert events == ["module", problem.id]
"""

# What becomes of the set-up and the end of these fixtures depends on which process runs an item.
WIDE = """
import os
import pytest
from pace import pause

pytestmark = pytest.mark.problems("problems.jsonl")

@pytest.fixture(scope="session")
def of_session():
    print("session begins")
    yield []
    if "PYTEST_XDIST_WORKER" not in os.environ:  # elsewhere any test may be the last
        print("session ends")
        raise OSError("the session cannot end")

@pytest.fixture(scope="module")
def of_module():
    print("module begins")
    yield []
    print("module ends")

@pytest.fixture(scope="module")
def broken():
    print("about to break")
    raise OSError("no module")

@pytest.fixture(scope="class")
def of_class(of_module):
    yield of_module
    raise OSError("the class cannot end")

async def test_wide(problem, of_session, of_package, of_module):
    await pause()
    assert problem.task_id != "add1"

async def test_broken(problem, broken):
    await pause()

class TestClass:
    async def test_first(self, problem, of_class):
        print("in class")
        await pause()

    async def test_second(self, problem, of_class):
        await pause()
        assert not of_class

async def test_last(problem, of_module):
    await pause()
"""

PACKAGE = """
import pytest

@pytest.fixture(scope="package")
def of_package():
    print("package begins")
    yield []
    print("package ends")
    raise OSError("the package cannot end")
"""

ASYNC_FIXTURES = """
import asyncio
import pytest, pytest_asyncio
from pace import pause

pytestmark = pytest.mark.problems("problems.jsonl")

@pytest_asyncio.fixture
async def made(problem):
    await pause(0.01)
    print("set up", problem.id)
    yield asyncio.get_running_loop()
    await pause(0.01)
    print("tear down", problem.id)

@pytest_asyncio.fixture
async def broken():
    await pause(0.01)
    raise OSError("no fixture")

@pytest_asyncio.fixture
async def breaks_later():
    yield
    await pause(0.01)
    raise OSError("cannot clean up")

@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def modules_loop():
    await pause(0.01)
    yield asyncio.get_running_loop()
    await pause(0.01)

@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def sessions_loop():
    await pause(0.01)
    yield asyncio.get_running_loop()
    await pause(0.01)

async def test_made(made, problem):
    await pause()
    assert made is asyncio.get_running_loop() and problem.task_id != "add1"

async def test_broken(broken):
    await pause()

async def test_breaks_later(breaks_later, record_reward):
    await pause()
    record_reward(1.0)

@pytest.mark.asyncio(loop_scope="module")
async def test_in_the_modules_loop(modules_loop, problem):
    await pause()
    assert modules_loop is asyncio.get_running_loop()

@pytest.mark.asyncio(loop_scope="session")
async def test_in_the_sessions_loop(sessions_loop, problem):
    await pause()
    assert sessions_loop is asyncio.get_running_loop()

async def test_uses_sessions_fixture(sessions_loop, problem):
    await pause()
    assert sessions_loop.is_closed() is False
"""

TIMEOUTS = """
import time
import pytest
from pace import pause

pytestmark = pytest.mark.problems("problems.jsonl")

@pytest.mark.timeout(0.5)
async def test_takes_too_long(problem):
    await pause(2)

@pytest.mark.timeout(60)
async def test_is_quick(problem):
    await pause()

@pytest.mark.timeout(0.5)
def test_plain_takes_too_long():
    time.sleep(2)
"""

CRASH = """
import os
import pytest
from pace import pause

@pytest.mark.problems("many.jsonl")
async def test_one_of_many(problem, record_reward):
    await pause()
    if problem.task_id == "add20":
        os._exit(3)
    record_reward(1.0)
"""

STOPS = """
import pytest
from pace import pause

@pytest.mark.problems("many.jsonl")
async def test_stops(problem, record_reward):
    print("in", problem.id)
    record_reward(1.0)
    await pause(0.02 if problem.task_id != "add4" else 0.01)
    if problem.task_id == "add4":
        pytest.exit("enough", returncode=9)
"""

PROBLEMS = {"one.jsonl": _problems(1), "problems.jsonl": _problems(2), "many.jsonl": _problems(40)}
BASE = {"pytest.ini": INI, "pace.py": PACE, "conftest.py": CONFTEST, **PROBLEMS}
MIXED = {
    **BASE,
    "test_async_fixtures.py": ASYNC_FIXTURES,
    "test_autouse.py": AUTOUSE,
    "test_fixtures.py": FIXTURES,
    "test_outcomes.py": OUTCOMES,
    "test_output.py": OUTPUT,
    "test_timeouts.py": TIMEOUTS,
    "wide/__init__.py": "",
    "wide/conftest.py": PACKAGE,
    "wide/test_wide.py": WIDE,
}
