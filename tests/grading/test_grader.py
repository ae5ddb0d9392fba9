"""The grader's public door: outcomes, refs, limits, and whose fault a failure is."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import cwsandbox
import pytest

from pytest_cwsandbox import backend, runner
from pytest_cwsandbox.errors import ConfigurationError
from pytest_cwsandbox.grading import ExitCodeGrader, Grader, Limits, attempts, scripts
from pytest_cwsandbox.outcome import Verdict
from pytest_cwsandbox.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cwsandbox import Session

ADD = Problem(
    "add",
    "",
    ("assert add(1, 2) == 3",),
    "add",
    challenge_test_list=("assert add(5, 6) == 11",),
)
RIGHT = "def add(a, b): return a + b\n"
WRONG = "def add(a, b): return a - b\n"
SPIN = "def add(a, b):\n    while True: pass\n"


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        (RIGHT, Verdict.PASSED),
        (WRONG, Verdict.WRONG_ANSWER),
        ("def add(a, b): return c\n", Verdict.RUNTIME_ERROR),
        ("c\n", Verdict.RUNTIME_ERROR),
        ("def add(a, b:\n", Verdict.SYNTAX_ERROR),
        ("x = 1\0\n", Verdict.SYNTAX_ERROR),
        ("x = " + "[" * 10_000, Verdict.SYNTAX_ERROR),
        ("", Verdict.NO_CODE),
        ("def plus(a, b): return a + b\n", Verdict.MISSING_ENTRY_POINT),
        ("exit()\n", Verdict.EARLY_EXIT),
        ("import os\nos._exit(3)\n", Verdict.EARLY_EXIT),
        ("x = '\udc80'\n", Verdict.INVALID_TEXT),
        ("#" * (1 << 20) + RIGHT, Verdict.INVALID_TEXT),
        ("x = [0] * (1 << 40)\n", Verdict.MEMORY_LIMIT),
        ("def add(a, b): return 'x' * (17 << 20)\n", Verdict.OUTPUT_LIMIT),
        ("import os\nos.kill(os.getpid(), 11)\n", Verdict.RUNTIME_ERROR),
    ],
    ids=lambda value: value if isinstance(value, Verdict) else repr(value[:30]),
)
def test_the_verdict_says_why(code: str, verdict: Verdict, grader: Grader) -> None:
    outcome = grader.grade_code(ADD, code).result()
    assert outcome.verdict is verdict, outcome
    assert outcome.reward == (1.0 if verdict is Verdict.PASSED else 0.0)
    assert "\n" not in outcome.detail
    assert len(outcome.detail) <= 300


async def test_a_ref_can_be_awaited_and_waited_for(grader: Grader) -> None:
    right, wrong = grader.grade(ADD, f"```\n{RIGHT}```"), grader.grade(ADD, WRONG)
    done, pending = await asyncio.to_thread(cwsandbox.wait, [right, wrong])
    assert (len(done), len(pending)) == (2, 0)
    assert (await right).reward == 1.0
    assert (await wrong).reward == 0.0


def test_a_completion_without_code_uses_no_sandbox(grader: Grader) -> None:
    before = grader.sandboxes_used
    outcome = grader.grade(ADD, "I would add them.").result()
    assert (outcome.verdict, outcome.sandboxes) == (Verdict.NO_CODE, 0)
    assert grader.sandboxes_used == before


def test_every_grade_uses_a_fresh_sandbox(grader: Grader) -> None:
    grader.grade_code(ADD, RIGHT).result()
    before = grader.sandboxes_used
    code = "open('/tmp/left', 'x')\n" + RIGHT
    outcomes = [grader.grade_code(ADD, code).result() for _ in range(2)]
    assert [outcome.reward for outcome in outcomes] == [1.0, 1.0]
    assert [outcome.sandboxes for outcome in outcomes] == [1, 1]
    assert grader.sandboxes_used == before + 2


def test_the_same_program_gets_the_same_order_of_a_set(grader: Grader) -> None:
    problem = Problem("order", "", ("assert f()",), "f")
    code = "def f(): raise ValueError(list({'a', 'b', 'c', 'd', 'e'}))\n"
    details = {grader.grade_code(problem, code).result().detail for _ in range(3)}
    assert len(details) == 1


def test_a_python_of_other_bytecode_takes_the_source(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripts, "MAGIC_NUMBER", b"another")
    scripts.script.cache_clear()
    grader = Grader(session)
    assert grader.grade_code(ADD, RIGHT).result().reward == 1.0
    assert grader.grade_code(ADD, WRONG).result().reward == 0.0
    grader.close()
    scripts.script.cache_clear()


@pytest.mark.parametrize("asserts", [(), ("assert add(",), ("print(add(1, 2))",)])
def test_a_problem_that_cannot_be_graded_raises_at_once(
    asserts: tuple[str, ...], grader: Grader
) -> None:
    with pytest.raises(ConfigurationError):
        grader.grade(Problem("bad", "", asserts, "add"), RIGHT)


def test_imports_that_the_image_lacks_are_no_ones_wrong_answer(grader: Grader) -> None:
    problem = Problem("imports", "", ("assert add(1, 2) == 3",), "add", ("import no_such_thing",))
    with pytest.raises(ConfigurationError, match="no_such_thing"):
        grader.grade_code(problem, RIGHT).result()


def test_a_table_of_the_visible_asserts_fails_the_held_out_ones(session: Session) -> None:
    table = "def add(a, b): return {(1, 2): 3}[a, b]\n"
    grader = Grader(session, held_out=True)
    assert grader.grade_code(ADD, table).result().reward == 0.0
    assert grader.grade_code(ADD, RIGHT).result().reward == 1.0
    grader.close()


class Hasty(Limits):
    """Gives up on an exec soon, so that the tests of that need not wait."""

    __slots__ = ()

    @property
    def outer_seconds(self) -> float:
        return 5.0


@pytest.fixture
def hasty(session: Session) -> Iterator[Callable[..., Grader]]:
    graders: list[Grader] = []

    def make(*, retries: int = 2, **limits: float) -> Grader:
        hasty = Hasty(**limits)  # type: ignore[arg-type]  # as Limits
        graders.append(Grader(session, limits=hasty, retries=retries))
        return graders[-1]

    yield make
    for grader in graders:
        grader.close()


def test_too_much_cpu_is_a_timeout(hasty: Callable[..., Grader]) -> None:
    outcome = hasty(cpu_seconds=1).grade_code(ADD, SPIN).result()
    assert (outcome.verdict, outcome.sandboxes) == (Verdict.TIMEOUT, 1)
    assert "CPU" in outcome.detail


def test_too_long_a_sleep_is_a_timeout(hasty: Callable[..., Grader]) -> None:
    outcome = hasty(wall_seconds=0.5).grade_code(ADD, "import time\ntime.sleep(600)\n").result()
    assert (outcome.verdict, outcome.sandboxes) == (Verdict.TIMEOUT, 1)


def test_a_program_that_disarms_its_limit_is_ended_from_outside(
    hasty: Callable[..., Grader],
) -> None:
    code = "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\ntime.sleep(600)\n"
    outcome = hasty(wall_seconds=0.5).grade_code(ADD, code).result()
    assert (outcome.verdict, outcome.sandboxes) == (Verdict.TIMEOUT, 2)


def test_a_value_that_takes_the_judge_too_long_is_the_programs_timeout(
    hasty: Callable[..., Grader],
) -> None:
    problem = Problem("slow", "", ("assert sum(f()) == 0",), "f")
    outcome = hasty(cpu_seconds=1).grade_code(problem, "def f(): return range(10**18)\n").result()
    assert outcome.verdict is Verdict.TIMEOUT


FLOOD = """
import os
for fd in os.listdir("/proc/self/fd"):
    try:
        os.write(int(fd), b"=" + 20_000 * b"\\n")
    except OSError:
        pass
def add(a, b): return a + b
"""


def test_a_flood_of_lines_is_the_programs_doing_and_not_read_to_its_end(
    way: str, session: Session
) -> None:
    grader = Grader(session, retries=0)
    outcome = grader.grade_code(ADD, FLOOD).result()
    expected = Verdict.OUTPUT_LIMIT if way == "one-shot" else Verdict.EARLY_EXIT
    assert (outcome.reward, outcome.verdict, outcome.sandboxes) == (0.0, expected, 1)
    grader.close()


@pytest.mark.parametrize("retries", [0, 2])
def test_a_program_that_kills_its_sandbox_is_blamed_only_the_second_time(
    retries: int, way: str, hasty: Callable[..., Grader]
) -> None:
    # Alone with process 1, a program has nobody but itself to kill.
    killer = f"import os, time\nos.kill({0 if way == 'one-shot' else -1}, 9)\ntime.sleep(9)\n"
    outcome = hasty(retries=retries).grade_code(ADD, killer).result()
    assert (outcome.verdict, outcome.sandboxes) == (Verdict.SANDBOX_KILLED, 2)
    assert outcome.retries == 0


def test_a_sandbox_that_dies_once_under_a_program_is_the_services_failure(
    way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session, retries=0)
    grader.grade_code(ADD, RIGHT).result()
    real, codes = attempts._concluded, iter([137])

    def killed_once(returncode: int, output: bytes, said: str, limits: Limits) -> attempts.Ended:
        return real(next(codes, returncode), output, said, limits)

    monkeypatch.setattr(attempts, "_concluded", killed_once)
    outcome = grader.grade_code(ADD, RIGHT).result()
    assert (outcome.reward, outcome.retries, outcome.sandboxes) == (1.0, 1, 2)
    grader.close()


@contextmanager
def broken(
    monkeypatch: pytest.MonkeyPatch, name: str, times: int, *, after: int = 0, way: str = "executed"
) -> Iterator[None]:
    """``times`` calls of a sandbox's method fail as the service's failures do.

    Of a one-shot sandbox nothing is executed: its log is read.
    """
    if (way, name) == ("one-shot", "exec"):
        name = "stream_logs"
    calls = itertools.count()
    real = getattr(cwsandbox.Sandbox, name)

    def fail(self: cwsandbox.Sandbox, *args: object, **options: object) -> object:
        if after <= next(calls) < after + times:
            raise cwsandbox.SandboxUnavailableError("injected")
        return real(self, *args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(cwsandbox.Sandbox, name, fail)
        yield


@pytest.mark.parametrize("method", ["exec", "__await__"])
def test_a_failure_of_the_service_is_retried_on_a_fresh_sandbox(
    method: str, way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session)
    grader.grade_code(ADD, RIGHT).result()
    with broken(monkeypatch, method, 2, way=way):
        outcome = grader.grade_code(ADD, RIGHT).result()
    assert (outcome.reward, outcome.retries) == (1.0, 2)
    assert grader.grade_code(ADD, RIGHT).result().retries == 0
    grader.close()


def test_so_is_one_of_the_judges_sandbox(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    near = Problem("near", "", ("assert abs(add(1, 2) - 3) < 1e-9",), "add")
    grader = Grader(session)
    grader.grade_code(ADD, RIGHT).result()
    with broken(monkeypatch, "exec", 1):
        outcome = grader.grade_code(near, RIGHT).result()
    assert (outcome.reward, outcome.retries, outcome.sandboxes) == (1.0, 1, 1)
    grader.close()


@pytest.mark.parametrize("code", [RIGHT, WRONG], ids=["right", "wrong"])
@pytest.mark.parametrize("method", ["exec", "__await__"])
def test_a_service_that_goes_on_failing_gives_no_reward(
    method: str, code: str, way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session)
    grader.grade_code(ADD, RIGHT).result()
    with broken(monkeypatch, method, 1000, way=way):
        outcome = grader.grade_code(ADD, code).result()
    assert (outcome.reward, outcome.verdict) == (None, Verdict.INFRASTRUCTURE_ERROR)
    assert outcome.retries == 0  # nothing was made good
    assert "injected" in outcome.detail
    assert grader.grade_code(ADD, code).result().reward is not None
    grader.close()


def test_a_grader_whose_self_test_fails_refuses_until_it_passes(
    way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session)
    with broken(monkeypatch, "exec", 1000, way=way):
        outcome = grader.grade_code(ADD, RIGHT).result()
    assert outcome.reward is None
    assert "self-test" in outcome.detail
    assert grader.grade_code(ADD, RIGHT).result().reward == 1.0
    grader.close()


@pytest.mark.parametrize("retries", [0, 2])
def test_a_self_test_with_bad_luck_does_not_lose_a_batch(
    retries: int, way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session, retries=retries)
    with broken(monkeypatch, "exec", 3, way=way):
        outcomes = [grader.grade_code(ADD, RIGHT) for _ in range(4)]
        assert [(one.result().reward, one.result().retries) for one in outcomes] == [(1.0, 0)] * 4
    grader.close()


def test_a_dead_canary_means_that_the_service_is_to_blame(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = Grader(session)
    grader.grade_code(ADD, RIGHT).result()

    async def fails(self: Grader) -> bool:
        return False

    monkeypatch.setattr(Grader, "_canary_passes", fails)
    grader = Grader(session)
    outcome = grader.grade_code(ADD, "import os\nos.kill(os.getpid(), 9)\n").result()
    assert outcome.reward is None
    grader.close()


def test_a_runner_that_is_killed_gives_no_reward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = runner.join_or_start(tmp_path, lifeline=os.getpid())
    for name, value in served.environment(os.environ).items():  # goes before the defaults
        monkeypatch.setenv(name, value)
    try:
        defaults = cwsandbox.SandboxDefaults(
            container_image=backend.local_image(),
            base_url=served.address,
            auth=backend.bearer(served.token),
            poll_retry_budget_seconds=0,
        )
        grader = Grader(cwsandbox.Session(defaults, report_to=[]), retries=0)
        assert grader.grade_code(ADD, RIGHT).result().reward == 1.0
        ref = grader.grade_code(ADD, "import time\ntime.sleep(30)\n" + RIGHT)
        os.kill(served.pid, signal.SIGKILL)
        assert ref.result().reward is None
        assert grader.grade_code(ADD, WRONG).result().reward is None
        grader.close()
    finally:
        runner.stop(tmp_path)


@pytest.fixture(scope="module")
def by_exit_code(session: Session) -> Iterator[ExitCodeGrader]:
    grader = ExitCodeGrader(session, limits=Limits(cpu_seconds=2, wall_seconds=20))
    yield grader
    grader.close()


@pytest.mark.parametrize(
    ("code", "verdict"),
    [
        ("print('x')", Verdict.PASSED),
        ("import sys\nsys.exit()", Verdict.PASSED),
        ("import sys\nsys.exit(3)", Verdict.RUNTIME_ERROR),
        ("1 / 0", Verdict.RUNTIME_ERROR),
        ("print('", Verdict.SYNTAX_ERROR),
        ("", Verdict.PASSED),
        ("while True: pass", Verdict.TIMEOUT),
        ("if __name__ != '__main__': raise SystemExit(1)", Verdict.PASSED),
        ("def f(): return g()\ndef g(): return 1\nassert f() == 1", Verdict.PASSED),
        ("import threading\nthreading.Timer(0.2, print).start()", Verdict.PASSED),
        ("import atexit, os\natexit.register(os._exit, 4)", Verdict.RUNTIME_ERROR),
    ],
    ids=lambda value: value if isinstance(value, Verdict) else repr(value[:30]),
)
def test_a_whole_program_is_decided_by_its_exit_code(
    code: str, verdict: Verdict, by_exit_code: ExitCodeGrader
) -> None:
    outcome = by_exit_code.grade(code).result()
    assert outcome.verdict is verdict, outcome


def test_a_failure_of_the_service_gives_a_whole_program_no_reward(
    way: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = ExitCodeGrader(session)
    with broken(monkeypatch, "exec", 1000, way=way):
        assert grader.grade("pass").result().reward is None
    grader.close()


def test_one_that_never_began_has_no_reward_whatever_the_exit_code(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(*_: object) -> cwsandbox.ProcessResult:
        return cwsandbox.ProcessResult("", "", 0, b"")

    grader = ExitCodeGrader(session, retries=0)
    assert grader.grade("pass").result().reward == 1.0
    monkeypatch.setattr(attempts, "_completed", lost)
    outcome = grader.grade("pass").result()
    assert (outcome.reward, outcome.verdict) == (None, Verdict.INFRASTRUCTURE_ERROR)
    grader.close()
