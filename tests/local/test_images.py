"""Image names and interpreters."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from pytest_cwsandbox.local import images
from pytest_cwsandbox.local.images import Interpreter, NoSuchImageError

RUNNING = Interpreter(Path("/opt/running/bin/python3.12"), 12)
OLDER = Interpreter(Path("/opt/older/bin/python3.11"), 11)
SPARE = Interpreter(Path("/opt/spare/bin/python3.12"), 12)
ALL = [RUNNING, OLDER, SPARE]


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ("python", [RUNNING, SPARE]),
        ("python:latest", [RUNNING, SPARE]),
        ("python:3", [RUNNING, SPARE]),
        ("python:slim", [RUNNING, SPARE]),
        ("python:3.11", [OLDER]),
        ("python:3.11-slim", [OLDER]),
        ("python:3.11-slim-bookworm", [OLDER]),
        ("python:3.12.4", [RUNNING, SPARE]),
        ("docker.io/library/python:3.11", [OLDER]),
    ],
)
def test_a_name_selects_interpreters_best_first(image: str, expected: list[Interpreter]) -> None:
    assert images.select(image, ALL) == expected


@pytest.mark.parametrize(
    "image",
    ["", "python:3.13", "python:2.7", "python:3.11-alpine", "python:3.1", "ubuntu", "evil/python"],
)
def test_another_name_is_refused_with_what_there_is(image: str) -> None:
    with pytest.raises(
        NoSuchImageError, match=r"python:3\.12, python:3\.11 \(interpreters"
    ) as refusal:
        images.select(image, ALL)
    assert repr(image) in str(refusal.value)


@pytest.mark.parametrize(
    ("image", "version", "expected"),
    [
        ("python:3.12.4", "3.12.4", True),
        ("python:3.12.4-slim", "3.12.4", True),
        ("python:3.12.4", "3.12.14", False),
        ("python:3.12", "3.12.14", True),
    ],
)
def test_a_patch_version_must_match_exactly(image: str, version: str, expected: bool) -> None:  # noqa: FBT001 - a parameter
    assert images.matches(image, version) is expected


def test_the_default_image_is_the_running_interpreters() -> None:
    found = images.find({})
    assert found[0].image == f"python:3.{sys.version_info[1]}"
    assert images.listing(found)[0] == found[0].image


def test_interpreters_come_from_path_pyenv_and_uv(tmp_path: Path) -> None:
    places = {
        "path": tmp_path / "bin",
        "pyenv": tmp_path / ".pyenv" / "versions" / "3.77.1" / "bin",
        "uv": tmp_path / ".local" / "share" / "uv" / "python" / "cpython-3.66" / "bin",
    }
    for number, place in enumerate(places.values(), 50):
        _interpreter(place / f"python3.{number}")
    found = images.find({"HOME": str(tmp_path), "PATH": f"{places['path']}:relative:/no/such"})
    assert {50, 51, 52} <= {interpreter.minor for interpreter in found}
    assert {"python:3.50", "python:3.51", "python:3.52"} <= {*images.listing(found)}


def test_shims_scripts_links_and_old_versions_are_no_interpreters(tmp_path: Path) -> None:
    shim = tmp_path / "python3.61"
    shim.write_text('#!/bin/sh\nexec pyenv exec python3 "$@"\n')
    shim.chmod(0o755)
    not_executable = _interpreter(tmp_path / "python3.62")
    not_executable.chmod(0o644)
    _interpreter(tmp_path / "python3.9")
    _interpreter(tmp_path / "python3.63-config")
    real = _interpreter(tmp_path / "real" / "python3.64")
    (tmp_path / "python3").symlink_to(real)
    found = {i.executable for i in images.find({"PATH": str(tmp_path)})}
    assert {path for path in found if path.is_relative_to(tmp_path)} == {real}


def test_a_directory_that_may_not_be_read_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> object:
        raise PermissionError(path)

    monkeypatch.setattr(Path, "iterdir", refuse)
    assert len(images.find({"PATH": str(tmp_path), "HOME": str(tmp_path)})) == 1


def test_an_interpreter_that_does_not_work_is_named_with_the_reason(tmp_path: Path) -> None:
    broken = Interpreter(tmp_path / "python3.70", 70)
    broken.executable.write_text("#!/bin/sh\necho 'No module named _ctypes' >&2\nexit 1\n")
    broken.executable.chmod(0o755)
    with pytest.raises(
        images.UnusableInterpreterError, match=r"python3\.70 .*No module named _ctypes"
    ):
        images.prepare(broken, tmp_path / "state", Path("agent.py"))


def _interpreter(path: Path) -> Path:
    """A program in machine code by that name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy("/bin/true", path))
