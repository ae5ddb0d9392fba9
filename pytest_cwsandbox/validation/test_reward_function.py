"""The checks of a reward function, every one an item.

Run it with

    pytest --pyargs pytest_cwsandbox.validation --cwsandbox-reward=package.module:function

or star-import this module into a test file of your own.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import runner
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.findings import Finding
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.recording import FINDING
from pytest_cwsandbox.settings import SETTINGS, Settings
from pytest_cwsandbox.validation import checks
from pytest_cwsandbox.validation.attacks import Attack, attacks
from pytest_cwsandbox.validation.calling import RewardProcess
from pytest_cwsandbox.validation.formats import Format, malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cwsandbox import Session

    from pytest_cwsandbox.validation.wrappings import Wrap

FAULTS = ("create-unavailable", "start-failed", "exec-unavailable", "exec-dropped", "exec-lost")
FAULTY_PROBLEMS = 2  # every failing grade is retried with backoff
STEADY_PROBLEMS = 4
CHECKS = {
    "test_mutants": "mutants",
    "test_held_out_inputs": "held-out",
    "test_attack": "attacks",
    "test_determinism": "determinism",
    "test_infrastructure": "infrastructure",
    "test_cost": "cost",
    "test_partial_credit_rises": "range",
}
VARIATIONS = (*checks.VARIATIONS, "another hash seed")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    settings = metafunc.config.stash[SETTINGS]
    if not settings.reward:
        raise pytest.Collector.CollectError(
            "name the reward function to validate: --cwsandbox-reward=package.module:function"
        )
    try:
        if "case" in metafunc.fixturenames:
            cases = problems_of(settings)
            metafunc.parametrize("case", cases, ids=[case.id for case in cases])
        if "attack" in metafunc.fixturenames:
            catalog = attacks(*settings.attacks)
            metafunc.parametrize("attack", catalog, ids=[attack.name for attack in catalog])
    except UserError as error:
        raise pytest.Collector.CollectError(str(error)) from None


def problems_of(settings: Settings) -> list[Problem]:
    """The problems to validate on; spread over the source, for neighbours are alike."""
    problems = load(settings.problems, split=settings.split, limit=settings.limit)
    step = max(1, len(problems) // settings.reward_problems)
    return problems[::step][: settings.reward_problems]


@pytest.fixture(scope="session")
def settings(pytestconfig: pytest.Config) -> Settings:
    return pytestconfig.stash[SETTINGS]


@pytest.fixture(scope="session")
def problems(settings: Settings) -> list[Problem]:
    return problems_of(settings)


@pytest.fixture(scope="session")
def new_reward(
    settings: Settings, pytestconfig: pytest.Config, cwsandbox_session: Session
) -> Iterator[Callable[..., RewardProcess]]:
    """Makes processes that hold the reward function, connected to the run's sandbox service."""
    del cwsandbox_session  # what it set in the environment leads to the service
    made: list[RewardProcess] = []

    def new(**environment: str) -> RewardProcess:
        path = (pytestconfig.invocation_params.dir, pytestconfig.rootpath)
        process = RewardProcess(settings.reward, settings.reward_timeout, path, environment)
        made.append(process)
        return process

    yield new
    for process in made:
        process.close()


@pytest.fixture(scope="session")
def reward(new_reward: Callable[..., RewardProcess]) -> RewardProcess:
    return new_reward()


@pytest.fixture(scope="session")
def understood(reward: RewardProcess, settings: Settings, problems: list[Problem]) -> Wrap | None:
    """A wrapping that the reward function understands."""
    return checks.understood(reward, problems[0], settings.reward_bounds[1])


@pytest.fixture
def wrap(understood: Wrap | None, request: pytest.FixtureRequest) -> Wrap:
    if understood is not None:
        return understood
    detail = "the reference solution earns nothing in any usual wrapping: see gold"
    check = CHECKS[request.function.__name__]
    request.node.stash[FINDING] = Finding(check, request.node.name, "not checkable", detail=detail)
    pytest.skip(f"NOT CHECKABLE: {detail}")


@pytest.fixture
def conclude(request: pytest.FixtureRequest) -> Callable[[Finding], None]:
    """Reports a finding: a bad one fails the item, one that is not checkable skips it."""

    def report(finding: Finding) -> None:
        request.node.stash[FINDING] = finding
        if finding.status == "not checkable":
            pytest.skip(f"NOT CHECKABLE: {finding.detail}")
        if finding.status == "bad":
            pytest.fail(f"{finding.check}: {finding.name}: {finding.detail}", pytrace=False)

    return report


def test_gold(
    case: Problem, reward: RewardProcess, settings: Settings, conclude: Callable[[Finding], None]
) -> None:
    conclude(checks.gold(reward, case, settings.reward_bounds[1]))


def test_mutants(
    case: Problem,
    reward: RewardProcess,
    settings: Settings,
    cwsandbox_session: Session,
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    top = settings.reward_bounds[1]
    conclude(checks.kills_mutants(reward, case, cwsandbox_session, top, wrap))


def test_held_out_inputs(
    case: Problem,
    reward: RewardProcess,
    cwsandbox_session: Session,
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    conclude(checks.holds_out(reward, case, cwsandbox_session, wrap))


def test_attack(
    attack: Attack,
    reward: RewardProcess,
    problems: list[Problem],
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    conclude(checks.resists(reward, attack, problems, wrap))


@pytest.mark.parametrize("form", malformed(), ids=lambda form: form.name)
def test_format(
    form: Format,
    reward: RewardProcess,
    problems: list[Problem],
    conclude: Callable[[Finding], None],
) -> None:
    conclude(checks.survives(reward, form, problems[0]))


@pytest.mark.parametrize("variation", VARIATIONS)
def test_determinism(
    variation: str,
    reward: RewardProcess,
    new_reward: Callable[..., RewardProcess],
    problems: list[Problem],
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    other = new_reward(PYTHONHASHSEED="12345")
    try:
        conclude(checks.is_steady(reward, other, variation, problems[:STEADY_PROBLEMS], wrap))
    finally:
        other.close()


@pytest.mark.parametrize("fault", FAULTS)
def test_infrastructure(
    fault: str,
    new_reward: Callable[..., RewardProcess],
    problems: list[Problem],
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cwsandbox-faulty-"))
    served = runner.join_or_start(folder, lifeline=os.getpid(), faults=(fault,))
    reward = new_reward(**served.environment(os.environ))
    try:
        conclude(checks.keeps_faults_apart(reward, fault, problems[:FAULTY_PROBLEMS], wrap))
    finally:
        reward.close()
        runner.stop(folder)


@pytest.mark.parametrize("batch", checks.BATCHES)
def test_cost(
    batch: int,
    reward: RewardProcess,
    settings: Settings,
    problems: list[Problem],
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    limit = settings.reward_max_seconds if batch == 1 else None
    conclude(checks.cost(reward, problems, batch, limit=limit, wrap=wrap))


def test_range(
    reward: RewardProcess,
    settings: Settings,
    problems: list[Problem],
    conclude: Callable[[Finding], None],
) -> None:
    conclude(checks.stays_in_range(reward, problems, settings.reward_bounds))


def test_partial_credit_rises(
    case: Problem,
    reward: RewardProcess,
    settings: Settings,
    wrap: Wrap,
    conclude: Callable[[Finding], None],
) -> None:
    if not settings.reward_partial_credit:
        pytest.skip("no partial credit declared: --cwsandbox-reward-partial-credit=yes")
    conclude(checks.rises(reward, case, wrap))
