"""Which run this is, and which of its processes."""

from __future__ import annotations

import os
import secrets
import select
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import pytest


@dataclass(frozen=True, slots=True)
class Run:
    """One test run as one of its processes sees it.

    ``folder`` exists only once something is written; ``worker`` is "main" in the controller and
    xdist's id in a worker; ``controller`` is the controller's process id, ``lifeline`` its pidfd.
    A worker ``elsewhere``, on another machine than the controller, has a folder of its own there
    and hangs on no process but itself.
    """

    id: str
    folder: Path
    worker: str
    controller: int
    lifeline: int | None = None
    elsewhere: bool = False

    @property
    def orphaned(self) -> bool:
        """Whether the controller is gone: the run may by now be continued by another."""
        if self.lifeline is None:
            return False
        waiting = select.poll()
        waiting.register(self.lifeline, select.POLLIN)
        return bool(waiting.poll(0))

    @classmethod
    def new(cls, reports: Path) -> Self:
        """A new run, in the process that controls it."""
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        return cls(run, reports / run, "main", os.getpid())

    @classmethod
    def continued(cls, folder: Path) -> Self:
        """The run of this folder, once more, in the process that controls it."""
        return cls(folder.resolve().name, folder, "main", os.getpid())

    def tell(self, workerinput: dict[str, object], *, elsewhere: bool) -> None:
        """Tell an xdist worker about the run."""
        workerinput["cwsandbox_run"] = [self.id, str(self.folder), self.controller, elsewhere]

    @classmethod
    def from_controller(cls, workerinput: dict[str, object], reports: Path) -> Self:
        """The same run as this xdist worker sees it, whose own folder of runs is ``reports``."""
        told = cast("tuple[str, str, int, bool]", workerinput["cwsandbox_run"])
        run, folder, controller, elsewhere = told
        worker = str(workerinput["workerid"])
        if elsewhere:
            return cls(run, reports / run, worker, os.getpid(), elsewhere=True)
        try:
            lifeline = os.pidfd_open(controller)
        except OSError:  # it has ended, or belongs to somebody else
            lifeline = None
        return cls(run, Path(folder), worker, controller, lifeline)


RUN = pytest.StashKey[Run]()
