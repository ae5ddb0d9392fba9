"""run.json of a test run: written before the first item runs, completed when the run ends."""

from __future__ import annotations

import os
import shlex
import shutil
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import pytest

from pytest_cwsandbox.backend import hosted_address, usual_image
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.recording import TROUBLE
from pytest_cwsandbox.rollouts.model import resolved
from pytest_cwsandbox.rollouts.scripted import is_scripted
from pytest_cwsandbox.runs import journal, plan, provenance, redaction
from pytest_cwsandbox.runs.provenance import Provenance
from pytest_cwsandbox.runs.secret_names import is_secret_parameter

if TYPE_CHECKING:
    from collections.abc import Generator

    from xdist.workermanage import WorkerController

    from pytest_cwsandbox.runs.identity import Run
    from pytest_cwsandbox.settings import Settings

PLANNER = "gw0"  # the worker that writes the plan
BEGUN = (plan.PLAN, plan.PROBLEMS, plan.TASKS, provenance.FILE)  # before the first item runs


def hide_secrets(settings: Settings) -> None:
    """Let no file of the run hold what the options of the model keep secret."""
    model = settings.model
    secrets: list[str | None] = []
    with suppress(ValueError):  # no address: who uses it says so
        address = urlsplit(model.base_url)
        parameters = parse_qsl(address.query)
        secrets = [value for name, value in parameters if is_secret_parameter(name, value)]
        secrets.append(address.password)
    redaction.hide({"extra_body": model.extra_body, "password": secrets})
    redaction.hide_named(settings.tags)


class RunFile:
    """Registered in the controller."""

    def __init__(self, config: pytest.Config, settings: Settings, run: Run) -> None:
        """Raise ``pytest.UsageError`` where a run cannot be continued with these settings."""
        self._config = config
        self._settings = settings
        self._run = run
        self._written = False
        self._before: Provenance | None = None
        self._kept: dict[str, bytes] = {}  # what the run that is continued had of these files
        if settings.resume:
            files = (run.folder / name for name in BEGUN)
            self._kept = {file.name: file.read_bytes() for file in files if file.exists()}
            self._reopen()

    def _reopen(self) -> None:
        folder = self._run.folder
        try:
            before = provenance.read(folder)
        except UserError as error:
            raise pytest.UsageError(f"--cwsandbox-resume: {error}") from error
        if before is None:  # killed before there was one
            return
        if before.rescored_from:
            raise pytest.UsageError(
                f"--cwsandbox-resume: {before.run} holds grades of {before.rescored_from}, of "
                "`pytest-cwsandbox rescore`: give the id of a test run"
            )
        now = self._now()
        if found := provenance.conflicts(before, now):
            raise self._refusal(before, found)
        found = provenance.differences(before, now)
        for line in found:
            self._warn(f"--cwsandbox-resume: {line}")
        self._before = replace(
            before,
            ended=None,
            exit_status=None,
            resumed=(*before.resumed, now.started),
            differences=(*before.differences, *found),
        )

    @staticmethod
    def _refusal(before: Provenance, found: list[str]) -> pytest.UsageError:
        return pytest.UsageError(
            f"--cwsandbox-resume: {before.run} cannot be continued: {'; '.join(found)}: resume "
            f"with the command line of the run: {shlex.join(before.command)}"
        )

    def _now(self) -> Provenance:
        settings, model = self._settings, resolved(self._settings.model)
        options = settings.backend_options
        kind = options.choose(os.environ)
        invoked = self._config.invocation_params
        now = Provenance(
            run=self._run.id,
            started=provenance.now(),
            command=tuple(redaction.redact_command(["pytest", *map(str, invoked.args)])),
            tags=tuple(map(redaction.redact_value, settings.tags)),
            backend=kind,
            base_url=hosted_address(options) if kind == "hosted" else "",
            image=settings.image or usual_image(kind),
            cpu_limit=settings.cpu_limit,
            wall_limit=settings.wall_limit,
            memory_limit=settings.memory_limit,
            retries=settings.retries,
            problems=settings.problems,
            split=settings.split,
            limit=settings.limit,
            tasks=settings.tasks,
            reward=settings.reward,
            reward_hash=provenance.code_hash(settings.reward, (invoked.dir, self._config.rootpath)),
            model=model.model,
            model_base_url="" if is_scripted(model.model) else model.base_url,
            model_api=model.api,
            temperature=model.temperature,
            top_p=model.top_p,
            max_tokens=model.max_tokens,
            seed=model.seed,
            extra_body=dict(model.extra_body),
            max_tool_calls=settings.limits.tool_calls,
            max_turns=settings.limits.turns,
            max_total_tokens=settings.limits.total_tokens,
            rollout_timeout=settings.limits.wall_seconds,
            visible_asserts=settings.visible_asserts,
        )
        return provenance.with_surroundings(now, self._config.rootpath)

    @pytest.hookimpl(trylast=True)  # after the plan is written; under xdist workers collect
    def pytest_collection_finish(self) -> None:
        self._begin()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController) -> None:
        if node.gateway.id == PLANNER:
            self._begin()

    def _begin(self) -> None:
        folder = self._run.folder
        if trouble := self._config.stash.get(TROUBLE, ""):  # the plan could not be written
            raise pytest.UsageError(trouble)
        if not (folder / plan.PLAN).exists():
            return
        now = provenance.with_content(self._before or self._now(), folder)
        if self._before and (found := provenance.content_conflicts(self._before, now)):
            raise self._refusal(self._before, found)
        numbers = sorted({planned.sample for planned in plan.read(folder).values()})
        if now.seed is not None:
            seeds = {str(number): now.seed + number for number in numbers}
            now = replace(now, seeds=seeds)
        try:
            provenance.write(folder, now)
        except OSError as error:
            raise pytest.UsageError(
                f"{folder}: cannot be written: {error.strerror}; choose another folder with "
                "--cwsandbox-report-dir"
            ) from error
        self._written = True

    @pytest.hookimpl(wrapper=True)  # outside the controller's, which settles the exit status
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, object, object]:
        result = yield
        try:
            if session.exitstatus == pytest.ExitCode.USAGE_ERROR:
                self._undo()
            elif self._written:
                provenance.ended(self._run.folder, int(session.exitstatus))
        except (OSError, UserError) as error:
            self._warn(f"{provenance.FILE} could not be completed: {error}")
        return result

    def _undo(self) -> None:
        """Nothing ran: no folder of a new run is left, and one to be continued is as it was."""
        folder = self._run.folder
        if self._settings.resume:
            for name in BEGUN:
                if name in self._kept:
                    (folder / name).write_bytes(self._kept[name])
                else:
                    (folder / name).unlink(missing_ok=True)
        elif folder.is_dir() and not journal.exists(folder):
            shutil.rmtree(folder)

    def _warn(self, line: str) -> None:
        warning = pytest.PytestWarning(f"cwsandbox: {line}")
        self._config.issue_config_time_warning(warning, stacklevel=2)
