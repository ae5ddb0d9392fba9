"""The first use of the plugin in a run: only then is registered what pytest calls for each item.

A run that uses nothing of ours has no hook of ours per item, report or collected object. An option
of ours that is set is a use. Without one every file is looked at before its tests are collected,
and all items once they are. xdist's controller collects nothing: it is told by its workers.
"""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.parametrize import FIXTURES, is_marked, marker, uses_ours

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

    from xdist.workermanage import WorkerController

TOLD = "cwsandbox_first_use"  # in a worker's input: where it says that it uses something of ours


class FirstUse:
    """Of one process. ``late`` says that it came when tests had run, whose reports were missed."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._parts: list[tuple[object, str]] = []
        self._pipe: tuple[int, int] | None = None
        self.happened = False
        self.late = False

    def add(self, part: object, name: str) -> None:
        """Register a plugin with hooks per item, as soon as there is a use for it."""
        if self.happened:
            self._config.pluginmanager.register(part, name)
        else:
            self._parts.append((part, name))

    def happen(self, *, late: bool = False) -> None:
        """Register all that waits for it; a second use changes nothing."""
        if self.happened:
            return
        self.happened, self.late = True, late
        for part, name in self._parts:
            self._config.pluginmanager.register(part, name)
        self._parts.clear()
        self._tell()

    def look_at(self, items: Sequence[pytest.Item]) -> None:
        """See what no file shows: a fixture of ours that is used through another one."""
        if self.happened:
            return
        marked = next(filter(marker, items), None)
        if marked is not None:  # by a plugin, later than files are looked at
            text = "its marker came too late to be seen: set cwsandbox_problems or another option"
            marked.warn(pytest.PytestWarning(f"cwsandbox: {text}"))
        if marked or any(not FIXTURES.isdisjoint(_fixtures(item)) for item in items):
            self.happen()

    # Between the processes of a run: through a pipe, since a run that keeps nothing has no folder

    def will_be_told(self, workerinput: dict[str, object]) -> None:
        """Let a worker on this machine know where to tell of its first use."""
        if self._pipe is None:
            self._pipe = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            for end in self._pipe:
                self._config.add_cleanup(partial(os.close, end))
        workerinput[TOLD] = f"/proc/{os.getpid()}/fd/{self._pipe[1]}"

    def _tell(self) -> None:
        told = getattr(self._config, "workerinput", {}).get(TOLD)
        # Without a controller there is nobody to tell.
        with suppress(FileNotFoundError, BrokenPipeError):
            if told is not None:
                end = os.open(told, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
                os.write(end, b"1")
                os.close(end)

    def listen(self, *, late: bool = False) -> None:
        """See whether any worker has told of its first use."""
        if self._pipe is not None and not self.happened:
            with suppress(BlockingIOError):  # none has
                os.read(self._pipe[0], 1)
                self.happen(late=late)


def _fixtures(item: pytest.Item) -> Sequence[str]:
    return getattr(item, "fixturenames", ())


FIRST_USE = pytest.StashKey[FirstUse]()


class Look:
    """Registered in processes that collect, for as long as nothing of ours was found."""

    def __init__(self, first_use: FirstUse) -> None:
        self._first_use = first_use

    @pytest.hookimpl(wrapper=True)
    def pytest_pycollect_makemodule(self) -> Generator[None, object, object]:
        module = yield
        if isinstance(module, pytest.Module):
            # Between its import, which may fail, and the first question about a test of it.
            module.collect = partial(self._collect, module, module.collect)  # type: ignore[method-assign]  # pytest has no hook there
        return module

    def _collect(
        self, module: pytest.Module, collect: Callable[[], Iterable[pytest.Item | pytest.Collector]]
    ) -> Iterable[pytest.Item | pytest.Collector]:
        if not self._first_use.happened and (
            _names_use_ours(module, vars(module.obj)) or is_marked(module.iter_markers())
        ):
            self._first_use.happen()
        return collect()


def _names_use_ours(module: pytest.Module, names: Mapping[str, object]) -> bool:
    """Whether any test of this namespace does, by pytest's own word for what is one."""
    for name, found in list(names.items()):
        if isinstance(found, type):
            if module.istestclass(found, name) and any(
                uses_ours(each) or _names_use_ours(module, vars(each)) for each in found.__mro__
            ):
                return True
        elif module.istestfunction(found, name) and uses_ours(found):
            return True
    return False


class Hearing:
    """Registered in a controller with xdist, for as long as no worker has used anything of ours."""

    def __init__(self, first_use: FirstUse) -> None:
        self._first_use = first_use

    def pytest_configure_node(self, node: WorkerController) -> None:
        spec = node.gateway.spec
        if spec.popen and not spec.via:
            self._first_use.will_be_told(node.workerinput)
        else:  # on another machine
            self._first_use.happen()

    @pytest.hookimpl(tryfirst=True)  # others have hooks per item that they then want to register
    def pytest_xdist_node_collection_finished(self) -> None:
        self._first_use.listen()
