"""SDK sessions: the agent's, whose metrics reach W&B, and the judge's, which count nothing.

Each stays with the backend of its defaults. To the SDK the environment is worth more, and that
leads to the backend that the process has reached last.

The SDK looks for a W&B run at every execution, and imports wandb to do so, which takes seconds in
every process that never uses it. Ours waits until somebody else has imported it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from cwsandbox import Session
from cwsandbox._wandb import WandbReporter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cwsandbox import Sandbox, SandboxDefaults

    from pytest_cwsandbox.telemetry import WandbRun


def agent_session(defaults: SandboxDefaults, report_to: Sequence[str] | None = None) -> Session:
    """A session whose metrics go to the active W&B run; ``report_to`` is the SDK's.

    None finds the run by itself, also one that begins later; ``["wandb"]`` imports wandb at the
    first execution; ``[]`` counts nothing.
    """
    session = _Faithful(defaults, report_to=None if report_to is None else list(report_to))
    if report_to is None:
        session._reporter = _PatientReporter()  # noqa: SLF001 - the SDK offers no other way
    return session


def judge_session(agents: Session) -> Session:
    """A session beside the agents', of the same backend and tags, for grades."""
    return silent_session(agents._defaults)  # noqa: SLF001 - the SDK shows them to nobody


def silent_session(defaults: SandboxDefaults) -> Session:
    """A session that reports to nobody."""
    return _Faithful(defaults, report_to=[])


def attach(session: Session, run: WandbRun) -> None:
    """Send a session's metrics to this W&B run, and count executions per sandbox from now on.

    For runs that are not the process's active one, as ART makes them.
    """
    if session._reporter is not None:  # noqa: SLF001 - the SDK offers no other way
        session._reporter._run = run  # noqa: SLF001


class _Faithful(Session):
    def _register_sandbox(self, sandbox: Sandbox) -> None:
        # Without credentials they are somebody's who counts on the environment.
        if self._defaults.auth is not None:
            sandbox._base_url = self._defaults.base_url.rstrip("/")  # noqa: SLF001 - no other way
        super()._register_sandbox(sandbox)


class _PatientReporter(WandbReporter):
    def _get_run(self) -> WandbRun | None:
        if self._run is None and "wandb" not in sys.modules:
            return None
        return super()._get_run()
