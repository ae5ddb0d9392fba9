"""MBPP by name, with ``datasets`` faked at the boundary."""

from __future__ import annotations

import inspect
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.problems import load, materialize, mbpp

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FULL = {
    "prompt": [{"task_id": 2, "text": "P", "code": "def f(x): ...", "test_list": ["assert f(1)"]}],
    "test": [{"task_id": 11, "text": "T", "code": "def g(x): ...", "test_list": ["assert g(1)"]}],
}
Rows = dict[str, list[dict[str, object]]]


class FakeHub:
    """Stands in for the ``datasets`` package; remembers what was asked for."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.error: Exception | None = None

    def load_dataset(self, path: str, name: str, *, revision: str) -> Rows:
        self.calls.append((path, name, revision))
        if self.error is not None:
            raise self.error
        return FULL


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "pytest-cwsandbox"


@pytest.fixture
def hub(cache: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    hub, module = FakeHub(), ModuleType("datasets")
    module.load_dataset = hub.load_dataset  # type: ignore[attr-defined]  # a module made by hand
    monkeypatch.setitem(sys.modules, "datasets", module)
    return hub


def test_mbpp_is_downloaded_once_at_the_pinned_revision(hub: FakeHub) -> None:
    path = materialize("mbpp")
    assert materialize("mbpp") == path
    assert hub.calls == [("google-research-datasets/mbpp", "full", mbpp.REVISION)]
    assert [p.id for p in load("mbpp", split="all")] == ["mbpp-2", "mbpp-11"]


def test_the_two_datasets_are_kept_apart(hub: FakeHub) -> None:
    assert materialize("mbpp") != materialize("mbpp-sanitized")
    assert [name for _, name, _ in hub.calls] == ["full", "sanitized"]
    assert [p.id for p in load("mbpp-sanitized")] == ["mbpp-sanitized-11"]


def test_the_split_of_mbpp_by_name_is_test_unless_stated(hub: FakeHub) -> None:
    materialize("mbpp")
    assert [(p.task_id, p.split) for p in load("mbpp")] == [("11", "test")]
    assert [(p.task_id, p.split) for p in load("mbpp", split="prompt")] == [("2", "prompt")]
    with pytest.raises(UserError) as raised:
        load("mbpp", split="dev")
    assert str(raised.value) == (
        '--cwsandbox-split: mbpp has no split "dev"; its splits are prompt, test, and all'
    )


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:-20], id="truncated"),
        pytest.param(lambda content: content.splitlines(keepends=True)[0], id="a-line-short"),
        pytest.param(lambda _: b"", id="empty"),
    ],
)
def test_a_damaged_cache_is_noticed_and_remade(
    hub: FakeHub, damage: Callable[[bytes], bytes]
) -> None:
    path = materialize("mbpp")
    assert path is not None
    content = path.read_bytes()
    path.write_bytes(damage(content))
    with pytest.raises(UserError, match="--cwsandbox-problems=mbpp: not in the cache"):
        load("mbpp")
    assert materialize("mbpp") == path
    assert path.read_bytes() == content
    assert len(hub.calls) == 2


def test_loading_what_is_not_cached_names_the_option_and_the_remedy(hub: FakeHub) -> None:
    with pytest.raises(UserError) as raised:
        load("mbpp-sanitized")
    assert "\n" not in str(raised.value)
    assert str(raised.value).startswith("--cwsandbox-problems=mbpp-sanitized: not in the cache ")
    assert str(raised.value).endswith(
        "; download sanitized-mbpp.json from"
        " https://github.com/google-research/google-research/tree/master/mbpp and pass its path"
    )
    assert hub.calls == []


@pytest.mark.parametrize("error", [ConnectionError("no\nroute"), ValueError(), RuntimeError("x")])
def test_a_failed_download_names_the_option_and_the_remedy(
    hub: FakeHub, cache: Path, error: Exception
) -> None:
    hub.error = error
    with pytest.raises(UserError) as raised:
        materialize("mbpp")
    reason = " ".join(str(error).split()) or "ValueError"
    assert str(raised.value) == (
        "--cwsandbox-problems=mbpp: cannot download google-research-datasets/mbpp"
        f" ({reason}); download mbpp.jsonl from"
        " https://github.com/google-research/google-research/tree/master/mbpp and pass its path"
    )
    assert list(cache.glob("*.jsonl")) == []
    hub.error = None
    materialize("mbpp")  # the failure left no lock behind
    assert len(load("mbpp")) == 1


def test_a_cache_that_cannot_be_written_names_the_remedy(hub: FakeHub, cache: Path) -> None:
    cache.write_text("a file where the directory belongs")
    with pytest.raises(UserError, match=f"cannot write the cache {cache}: .*XDG_CACHE_HOME"):
        materialize("mbpp")


def test_other_sources_need_no_network(hub: FakeHub, tmp_path: Path) -> None:
    assert materialize("toy") is None
    assert materialize("bundled") is not None
    assert materialize(str(tmp_path / "mine.jsonl")) == tmp_path / "mine.jsonl"
    assert hub.calls == []


DOWNLOAD = """
import os, sys, time
from pathlib import Path
from types import ModuleType

def load_dataset(path, name, *, revision):
    with open("downloads", "a") as log:
        log.write("download\\n")
    while len(list(Path().glob("ready-*"))) < 2:
        time.sleep(0.01)
    time.sleep(0.3)  # the other process is at the lock by now, or will find the file
    return {"test": [{"task_id": 11, "text": "", "code": "", "test_list": ["assert f(1)"]}]}

sys.modules["datasets"] = ModuleType("datasets")
sys.modules["datasets"].load_dataset = load_dataset
from pytest_cwsandbox.problems import load, materialize
Path(f"ready-{os.getpid()}").touch()
materialize("mbpp")
print(load("mbpp")[0].id)
"""


def test_two_processes_at_once_download_once(cache: Path, tmp_path: Path) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DOWNLOAD], cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    assert [process.communicate()[0] for process in processes] == ["mbpp-11\n", "mbpp-11\n"]
    assert (tmp_path / "downloads").read_text() == "download\n"


def test_importing_and_loading_leave_heavy_packages_alone(hub: FakeHub) -> None:
    materialize("mbpp")
    program = (
        "import sys; from pytest_cwsandbox import problems\n"
        "heavy = {'datasets', 'filelock', 'platformdirs', 'cwsandbox', 'grpc'}\n"
        "print(sorted(heavy & sys.modules.keys()))\n"
        "problems.load('bundled'), problems.load('toy'), problems.load('mbpp')\n"
        "print(sorted((heavy - {'platformdirs'}) & sys.modules.keys()))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n[]\n"


def test_the_real_package_takes_the_call() -> None:
    datasets = pytest.importorskip("datasets")
    inspect.signature(datasets.load_dataset).bind(mbpp.DATASET, "full", revision=mbpp.REVISION)
