"""Cgroups: made for a runner, held while it lives, swept when it was killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_cwsandbox.local import limits

RUNNER = """
import sys, time
from pathlib import Path
from pytest_cwsandbox.local import limits
cgroups = limits.delegate(Path(sys.argv[1]))
if cgroups:
    cgroups.create("1", 1 << 30, 1.0)
    print(*dict.fromkeys(cgroups.bases.values()), flush=True)
    time.sleep(1000)
"""


def test_cgroups_of_a_killed_runner_are_swept_and_of_a_living_one_kept(tmp_path: Path) -> None:
    with (
        subprocess.Popen([sys.executable, "-c", RUNNER, tmp_path], stdout=subprocess.PIPE) as first,
        subprocess.Popen(
            [sys.executable, "-c", RUNNER, tmp_path / "other"], stdout=subprocess.PIPE
        ) as second,
    ):
        assert first.stdout is not None
        assert second.stdout is not None
        killed = [Path(path) for path in first.stdout.readline().decode().split()]
        living = [Path(path) for path in second.stdout.readline().decode().split()]
        try:
            if not killed:
                pytest.skip("no cgroups can be made here")
            assert all((base / "1").is_dir() for base in killed)
            first.kill()
            first.wait()
            limits.sweep()
            assert not any(base.exists() for base in killed)
            assert all((base / "1").is_dir() for base in living)
        finally:
            for runner in (first, second):
                runner.kill()
                runner.wait()
            limits.clear(tmp_path / "other")
    assert not any(base.exists() for base in living)


def test_version_2_moves_the_runner_in_and_limits_memory_swap_pids_and_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a tree of ordinary files, where a machine has no version 2 with these controllers."""
    parents = dict.fromkeys(("memory", "pids", "cpu"), tmp_path)
    monkeypatch.setattr(limits, "_parents_v2", lambda: parents)
    monkeypatch.setattr(limits, "_parents_v1", dict)
    cgroups = limits.delegate(tmp_path / "state")
    assert cgroups is not None
    assert cgroups.version == 2
    base = cgroups.bases["memory"]
    assert (base / "runner" / "cgroup.procs").read_text() == str(os.getpid())
    assert (base / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        monkeypatch.setattr(Path, "exists", lambda _: True)
        group = cgroups.create(name, 1 << 20, 1.5)
        assert group.entrances == [f"{base}/{name}/cgroup.procs"]
    made = base / "cpu.max"
    assert (made / "memory.max").read_text() == str(1 << 20)
    assert (made / "memory.swap.max").read_text() == "0"
    assert int((made / "pids.max").read_text()) >= limits.PROCESSES
    assert (made / "cpu.max").read_text() == "150000 100000"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("memory.events", "low 0\noom 3\noom_kill 2\n", True),
        ("memory.events", "low 0\noom 3\noom_kill 0\n", False),
        ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1", True),
        ("unrelated", "oom_kill 1", False),
    ],
)
def test_a_kill_for_memory_is_seen(
    name: str,
    text: str,
    expected: bool,  # noqa: FBT001 - a parameter
    tmp_path: Path,
) -> None:
    (tmp_path / name).write_text(text)
    assert limits.Group((tmp_path,)).ran_out_of_memory() is expected
