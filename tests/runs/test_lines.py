"""Files of lines outlive whoever writes them, and a disk that takes no more."""

from __future__ import annotations

import json
import resource
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.runs import lines

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run" / "samples-gw0.jsonl"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def _room_for_100_bytes() -> Iterator[None]:
    """Files of this process may grow to that, as on a disk that is nearly full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def rows(file: Path, said: list[str]) -> list[dict[str, object]]:
    return [row for _, row in lines.read(file, said.append)]


def test_what_is_appended_is_read_with_its_place(file: Path, said: list[str]) -> None:
    lines.append(file, {"a": "1\n2 \u2028 ü \udc80"})
    lines.append(file, {"a": 2})
    assert list(lines.read(file, said.append)) == [
        (f"{file}:1", {"a": "1\n2 \u2028 ü \udc80"}),
        (f"{file}:2", {"a": 2}),
    ]
    assert not said


@pytest.mark.usefixtures("_room_for_100_bytes")
def test_a_line_that_the_disk_takes_in_part_is_taken_back(file: Path, said: list[str]) -> None:
    lines.append(file, {"a": "x" * 40})
    with pytest.raises(OSError, match="File too large"):
        lines.append(file, {"a": "y" * 80})
    lines.append(file, {"a": "z" * 20})
    assert [str(row["a"])[0] for row in rows(file, said)] == ["x", "z"]
    assert not said


@pytest.mark.parametrize("rest", [b'{"a": 2', b'{"a": "\xc3', b"\0\0\0", b"{"])
def test_a_last_line_that_was_cut_off_is_said(file: Path, said: list[str], rest: bytes) -> None:
    lines.append(file, {"a": 1})
    with file.open("ab") as stream:
        stream.write(rest)
    assert rows(file, said) == [{"a": 1}]
    assert said == [f"{file}:2: {lines.CUT_OFF}"]


@pytest.mark.parametrize("rest", [b'{"a": 2', b'{"a": "\xc3', b"\0\0\0", b"{"])
def test_a_mended_file_can_be_appended_to(file: Path, said: list[str], rest: bytes) -> None:
    lines.append(file, {"a": 1})
    with file.open("ab") as stream:
        stream.write(rest)
    lines.mend(file, said.append)
    assert said == [f"{file}:2: {lines.CUT_OFF}"]
    lines.append(file, {"a": 3})
    assert rows(file, said) == [{"a": 1}, {"a": 3}]


def test_only_the_end_of_a_last_line_may_be_missing(file: Path, said: list[str]) -> None:
    lines.append(file, {"a": 1})
    with file.open("ab") as stream:
        stream.write(json.dumps({"a": 2}).encode())
    lines.mend(file, said.append)
    lines.append(file, {"a": 3})
    assert rows(file, said) == [{"a": 1}, {"a": 2}, {"a": 3}]
    assert not said


def test_a_broken_line_before_the_last_is_an_error(file: Path, said: list[str]) -> None:
    file.parent.mkdir()
    file.write_text('{"a": 1}\n{"a"{"a": 3}\n{"a": 4}\n')
    with pytest.raises(ProblemFileError, match=r"samples-gw0.jsonl:2: not valid JSON"):
        rows(file, said)


def test_files_of_workers_are_in_the_order_of_their_numbers() -> None:
    names = ["gw10", "gw2", "main", "gw0"]
    assert sorted(names, key=lines.natural) == ["gw0", "gw2", "gw10", "main"]


def test_numbers_in_names_count_however_long_they_are() -> None:
    long, longer = "gw" + "9" * 5000, "gw1" + "0" * 5000
    names = ["gw2", "gw010", "gw9", "gw0", "gw", "a", longer, long, "gw\u0663"]
    ordered = ["a", "gw", "gw0", "gw2", "gw9", "gw010", long, longer, "gw\u0663"]
    assert sorted(names, key=lines.natural) == ordered
