"""The pytest plugin: the hooks of a run. Those of its items are registered with the first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox import (
    allowance,
    backend,
    fixtures,
    items,
    parametrize,
    planning,
    prewarming,
    processes,
    resume,
    rollout_fixture,
    sandbox_fixtures,
)
from pytest_cwsandbox.controller import Controller
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.first_use import FIRST_USE, FirstUse, Hearing, Look
from pytest_cwsandbox.gates import RunGates
from pytest_cwsandbox.item_hooks import ItemHooks
from pytest_cwsandbox.options import add_options
from pytest_cwsandbox.problems import load, materialize
from pytest_cwsandbox.provenance import RunFile, hide_secrets
from pytest_cwsandbox.reports.junit import Junit
from pytest_cwsandbox.reports.progress import Progress
from pytest_cwsandbox.rollouts.scripted import NOT_A_MODEL, is_scripted
from pytest_cwsandbox.runs import location
from pytest_cwsandbox.runs.identity import RUN, Run
from pytest_cwsandbox.runs.lock import FolderLock
from pytest_cwsandbox.settings import SETTINGS, Settings
from pytest_cwsandbox.shares import SHARE, Share
from pytest_cwsandbox.workers import XdistHooks

if TYPE_CHECKING:
    from collections.abc import Generator

HEADER = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before xdist makes workers of `-n N`
def pytest_cmdline_main(config: pytest.Config) -> Generator[None, object, object]:
    processes.spread(config)
    return (yield)


def pytest_configure(config: pytest.Config) -> None:
    for marker in (parametrize.PROBLEMS_MARKER, parametrize.TASKS_MARKER):
        config.addinivalue_line("markers", marker)
    settings = config.stash[SETTINGS] = Settings.from_config(config)
    hide_secrets(settings)
    config.pluginmanager.register(fixtures, "cwsandbox-fixtures")
    config.pluginmanager.register(rollout_fixture, "cwsandbox-rollout-fixture")
    config.pluginmanager.register(sandbox_fixtures, "cwsandbox-sandbox-fixtures")
    first_use = config.stash[FIRST_USE] = FirstUse(config)
    first_use.add(ItemHooks(), "cwsandbox-items")
    if Junit.wanted(config, settings):
        first_use.add(Junit(), "cwsandbox-junit")
    workerinput: dict[str, object] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.stash[RUN] = Run.from_controller(workerinput, settings.report_dir)
        config.stash[SHARE] = Share.from_controller(workerinput)
        allowance.allow(settings, config.stash[SHARE])
        _replay(config, settings)
    else:
        _configure_controller(config, settings, first_use)
    if settings.explicit:
        first_use.happen()
    else:
        config.pluginmanager.register(Look(first_use), "cwsandbox-look")


def _configure_controller(config: pytest.Config, settings: Settings, first_use: FirstUse) -> None:
    lock, notes = FolderLock(), list[str]()
    config.add_cleanup(lock.release)
    run = config.stash[RUN] = _run(config, settings, lock, notes)
    config.stash[SHARE] = processes.share(config, settings)
    allowance.allow(settings, config.stash[SHARE])
    _replay(config, settings)
    if items.runs_tests(config) and not config.option.help:
        config.pluginmanager.register(RunFile(config, settings, run), "cwsandbox-run-file")
    if settings.explicit and not (config.option.collectonly or config.option.help):
        try:
            config.stash[HEADER] = _prepare(config, settings)
        except UserError as error:
            raise pytest.UsageError(f"cwsandbox: {error}") from error
    gates = RunGates.of(config, settings, run)
    if settings.gated:
        config.pluginmanager.register(gates, "cwsandbox-gates")
    controller = Controller(settings, run, gates, lock, notes)
    config.pluginmanager.register(controller, "cwsandbox-controller")
    first_use.add(controller.reports, "cwsandbox-reports")
    if Progress.wanted(config, settings):
        first_use.add(Progress(config, settings, run), "cwsandbox-progress")
    if config.pluginmanager.hasplugin("xdist"):
        config.pluginmanager.register(
            XdistHooks(config, controller, run, config.stash[SHARE]), "cwsandbox-xdist"
        )
        config.pluginmanager.register(Hearing(first_use), "cwsandbox-hearing")


def _run(config: pytest.Config, settings: Settings, lock: FolderLock, notes: list[str]) -> Run:
    """A new run, or the one to be continued, whose folder is then locked.

    What only shows what a run would do continues none, and so leaves its files as they are.
    """
    if not (settings.resume and items.runs_tests(config)):
        return Run.new(settings.report_dir)
    try:
        folder = resume.reopen(settings.resume, settings.report_dir, lock, notes.append)
    except UserError as error:
        raise pytest.UsageError(f"--cwsandbox-resume: {error}") from error
    return Run.continued(folder)


def _replay(config: pytest.Config, settings: Settings) -> None:
    if settings.resume and items.runs_tests(config):
        replay = resume.Replay(config.stash[RUN].folder)
        config.pluginmanager.register(replay, "cwsandbox-replay")


def _prepare(config: pytest.Config, settings: Settings) -> str:
    """Find the user's mistakes before any worker starts; returns the header's lines."""
    for spec in processes.elsewhere(config):
        backend.check_elsewhere(settings.backend_options, f"--tx {spec}")
    if settings.explicit & {"problems", "split"}:
        materialize(settings.problems)
        load(settings.problems, split=settings.split, limit=settings.limit)
    if config.getoption("cwsandbox_reward"):  # named on the command line for this very run
        from pytest_cwsandbox.validation import calling

        calling.check(settings.reward, (config.invocation_params.dir, config.rootpath))
    if settings.explicit & {"tasks"}:
        from pytest_cwsandbox.rollouts.tasks import load_tasks

        load_tasks(settings.tasks, limit=settings.limit)
    if not settings.resume:
        location.check(settings.report_dir)
    lines = backend.check(settings.backend_options)
    model = settings.model.model
    if is_scripted(model):
        model += f" ({NOT_A_MODEL})"
    return f"{lines}\nmodel: {model}"


def pytest_report_header(config: pytest.Config) -> list[str]:
    lines = config.stash.get(HEADER, "").splitlines()
    if how := processes.header(config):
        lines.append(how)
    return [f"cwsandbox: {line}" for line in lines]


@pytest.hookimpl(tryfirst=True)  # before xdist's worker says that it has collected
def pytest_collection_finish(session: pytest.Session) -> None:
    first_use = session.config.stash[FIRST_USE]
    first_use.look_at(session.items)
    if first_use.happened:
        planning.write_plan(session)
        prewarming.begin(session)
    limit = session.config.stash[SHARE].in_flight
    # Without pytest-asyncio nobody else runs coroutines: then one at a time goes here too.
    ours = limit > 1 or not session.config.pluginmanager.hasplugin("asyncio")
    if ours and session.config.stash.get(parametrize.COROUTINES, False):
        from pytest_cwsandbox import concurrency

        concurrency.start(session, limit)
