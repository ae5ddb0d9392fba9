"""How many processes a run has, and how many tests each may have under way at once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, cast

import pytest

from pytest_cwsandbox import items
from pytest_cwsandbox.reader import Reader
from pytest_cwsandbox.shares import SHARE, Share

if TYPE_CHECKING:
    from execnet import XSpec

    from pytest_cwsandbox.settings import Settings

IN_ONE_PROCESS = 32
ASKED = pytest.StashKey[int]()  # the N of a `-n N` that was spread over fewer processes
WAYS = pytest.StashKey[int]()  # how many tests the run may have under way, where somebody said so


def spread(config: pytest.Config) -> None:
    """Let ``-n N`` mean N tests at once in fewer processes, where ``processes`` asks for that.

    Before xdist makes workers of it. ``--dist=each`` names environments and is left alone, and so
    is what xdist says of ``--pdb``.
    """
    option = config.option
    asked: int | str | None = getattr(option, "numprocesses", None)  # None without xdist too
    debugs = config.getoption("usepdb", default=False)
    if not asked or option.dist == "each" or debugs or hasattr(config, "workerinput"):
        return
    wanted = Reader(config).count_or_auto("processes")
    if wanted is None:
        return
    if isinstance(asked, str):  # auto, logical
        asked = cast("int", config.hook.pytest_xdist_auto_num_workers(config=config))
    if option.maxprocesses:
        asked = min(asked, cast("int", option.maxprocesses))
    if asked < 1:
        return
    processes = min(asked, cores() if wanted == "auto" else wanted)
    config.stash[ASKED] = asked
    option.numprocesses = processes if processes > 1 else 0  # a single one needs no xdist


def cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0))


def specs(config: pytest.Config) -> list[str]:
    """The execution environments of xdist's workers, such as popen; none in a run without them."""
    option = config.option
    if getattr(option, "dist", "no") == "no" or not option.tx or option.collectonly:
        return []
    from xdist.workermanage import parse_tx_spec_config

    return cast("list[str]", parse_tx_spec_config(config))


def elsewhere(config: pytest.Config) -> list[str]:
    """Those of them that are on other machines."""
    named = specs(config)
    if all(spec == "popen" for spec in named):  # as of -n
        return []
    from execnet import XSpec

    return [spec for spec in named if is_elsewhere(config, XSpec(spec))]


def is_elsewhere(config: pytest.Config, spec: XSpec) -> bool:
    """Whether a worker with this specification is on another machine, as far as that says it."""
    if spec.via:  # a process there, started by a proxy
        from execnet import XSpec

        proxies = {proxy.id: proxy for proxy in map(XSpec, config.option.px)}
        spec = proxies.get(spec.via, spec)
    return not spec.popen


def share(config: pytest.Config, settings: Settings) -> Share:
    """What each process of the run may do. Rounded up: the whole may be exceeded by a few."""
    workers = len(specs(config))
    processes = workers or 1
    ways = settings.concurrency or config.stash.get(ASKED, workers) or IN_ONE_PROCESS
    if items.runs_tests(config) and (settings.concurrency or ASKED in config.stash):
        config.stash[WAYS] = max(ways, processes)
    return Share(-(-ways // processes), processes)


def header(config: pytest.Config) -> str:
    """A line for people, where the concurrency was asked for."""
    ways = config.stash.get(WAYS, None)
    if ways is None:
        return ""
    share = config.stash[SHARE]
    processes = "process" if share.processes == 1 else "processes"
    rollouts = "rollout" if share.in_flight == 1 else "rollouts"
    return f"{ways}-way: {share.processes} {processes} x {share.in_flight} {rollouts}"
