from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

from pytest_cwsandbox.errors import ProblemFileError, UserError
from pytest_cwsandbox.problems import Problem, load, load_completions

OWN = {"task_id": "a1", "prompt": "Add.", "test_list": ["assert add(1, 2) == 3"]}
FULL = {
    "text": "Add two numbers.",
    "code": "def add(a, b):\r\n    return a + b",
    "task_id": 11,
    "test_setup_code": "one = 1",
    "test_list": ["assert add(1, 2) == 3"],
    "challenge_test_list": ["assert add(one, 5) == 6"],
}
SANITIZED = {
    "source_file": "notebook",
    "task_id": 600,
    "prompt": "Halve a number.",
    "code": "def half(x):\n    return x / 2",
    "test_imports": ["import math"],
    "test_list": ["assert math.isclose(half(3), 1.5)"],
}


def write(path: Path, *rows: object, end: str = "\n") -> str:
    path.write_bytes("".join(json.dumps(row) + end for row in rows).encode())
    return str(path)


def message(source: str, **options: object) -> str:
    with pytest.raises(UserError) as raised:
        load(source, **options)  # type: ignore[arg-type]  # options of either type
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_row_of_the_full_dataset_becomes_a_problem(tmp_path: Path) -> None:
    assert load(write(tmp_path / "mbpp.jsonl", FULL)) == [
        Problem(
            task_id="11",
            prompt="Add two numbers.",
            test_list=("assert add(1, 2) == 3",),
            entry_point="add",
            test_setup_code="one = 1",
            challenge_test_list=("assert add(one, 5) == 6",),
            reference_solution="def add(a, b):\r\n    return a + b",
            split="test",
            source="mbpp",
        )
    ]


def test_a_row_of_the_sanitized_dataset_becomes_a_problem(tmp_path: Path) -> None:
    (problem,) = load(write(tmp_path / "sanitized-mbpp.jsonl", SANITIZED))
    assert problem.prompt == "Halve a number."
    assert problem.test_imports == ("import math",)
    assert problem.entry_point == "half"
    assert problem.split == "validation"


def test_what_a_problem_writes_is_read_back(tmp_path: Path) -> None:
    problems = load("bundled")
    path = write(tmp_path / "bundled.jsonl", *(problem.to_json() for problem in problems))
    assert load(path) == problems


def test_only_three_fields_are_required(tmp_path: Path) -> None:
    assert load(write(tmp_path / "own.jsonl", OWN)) == [
        Problem("a1", "Add.", ("assert add(1, 2) == 3",), entry_point="add", source="own")
    ]


def test_a_json_array_reads_like_lines(tmp_path: Path) -> None:
    lines = load(write(tmp_path / "x.jsonl", FULL, SANITIZED))
    (tmp_path / "x.json").write_text(json.dumps([FULL, SANITIZED], indent=2))
    assert load(str(tmp_path / "x.json")) == lines


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("mbpp.jsonl", "mbpp"),
        ("sanitized-mbpp.json", "sanitized-mbpp"),
        ("my set [v2]::x.jsonl", "my-set-v2-x"),
        ("été.jsonl", "t"),
        ("問題.jsonl", "problems"),
        ("UPPER.JSONL", "UPPER"),
    ],
)
def test_the_stem_names_the_source_in_letters_safe_for_ids(
    tmp_path: Path, name: str, source: str
) -> None:
    (tmp_path / name).write_text(json.dumps([OWN] if name.endswith(".json") else OWN))
    (problem,) = load(str(tmp_path / name))
    assert problem.id == f"{source}-a1"


def test_byte_order_mark_crlf_and_blank_lines_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    row, other = json.dumps(OWN), json.dumps({**OWN, "task_id": 2})
    path.write_bytes(b"\xef\xbb\xbf" + f"{row}\r\n\r\n  \r\n{other}".encode())
    assert [problem.task_id for problem in load(str(path))] == ["a1", "2"]


def test_unicode_line_separators_stay_inside_their_string(tmp_path: Path) -> None:
    prompt = "one\u2028two\u2029three\x85four\x1cfive"
    (tmp_path / "p.jsonl").write_text(
        json.dumps({**OWN, "prompt": prompt}, ensure_ascii=False), encoding="utf-8"
    )
    (problem,) = load(str(tmp_path / "p.jsonl"))
    assert problem.prompt == prompt


def test_warnings_of_a_problems_code_stay_silent(tmp_path: Path) -> None:
    row = {**OWN, "test_list": [r"assert f('\d') == '\d'"], "reference_solution": r"f = '\d'"}
    path = write(tmp_path / "p.jsonl", row)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(load(path)) == 1


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"test_list": 5}, 'field "test_list" must be a list of strings, got int'),
        ({"test_list": "assert 1"}, 'field "test_list" must be a list of strings, got str'),
        ({"test_list": None}, 'field "test_list" must be a list of strings, got null'),
        (
            {"test_list": ["assert f(1)", 7]},
            'field "test_list" must be a list of strings, item 2 is int',
        ),
        ({"test_list": []}, 'field "test_list" is empty; a problem needs at least one assert'),
        (
            {"test_list": ["assert f(1) == 1", "assert f(("]},
            "field \"test_list\" item 2 does not parse: '(' was never closed",
        ),
        ({"test_list": ["f(1)"]}, 'field "test_list" item 1 must be one assert statement'),
        (
            {"challenge_test_list": ["assert f(1); assert f(2)"]},
            'field "challenge_test_list" item 1 must be one assert statement',
        ),
        (
            {"challenge_test_list": {}},
            'field "challenge_test_list" must be a list of strings, got dict',
        ),
        (
            {"test_imports": ["import math)"]},
            "field \"test_imports\" item 1 does not parse: unmatched ')'",
        ),
        ({"test_setup_code": None}, 'field "test_setup_code" must be a string, got null'),
        ({"prompt": ["x"]}, 'field "prompt" must be a string, got list'),
        ({"prompt": "\ud800"}, 'field "prompt" holds half of a surrogate pair, which is no text'),
        ({"task_id": 1.5}, 'field "task_id" must be an integer or a string, got float'),
        ({"task_id": True}, 'field "task_id" must be an integer or a string, got bool'),
        ({"task_id": ""}, 'field "task_id" is empty'),
        ({"entry_point": "a b"}, 'field "entry_point" must be the name of a function, got "a b"'),
        ({"entry_point": 3}, 'field "entry_point" must be a string, got int'),
        ({"split": 0}, 'field "split" must be a string, got int'),
        ({"code": None}, 'field "code" must be a string, got null'),
        ({"text": "Add."}, 'missing field "code"'),
    ],
)
def test_a_broken_field_is_named_by_file_line_and_field(
    tmp_path: Path, change: dict[str, object], complaint: str
) -> None:
    path = write(tmp_path / "problems.jsonl", {**OWN, "task_id": 0}, {**OWN, **change})
    assert message(path) == f"{path}:2: {complaint}"


@pytest.mark.parametrize("field", ["task_id", "prompt", "test_list"])
def test_a_missing_field_is_named(tmp_path: Path, field: str) -> None:
    row = {name: value for name, value in OWN.items() if name != field}
    path = write(tmp_path / "problems.jsonl", row)
    assert message(path) == f'{path}:1: missing field "{field}"'


@pytest.mark.parametrize("first", [7, "7"], ids=["integer", "string"])
def test_a_repeated_task_id_is_named_with_both_lines(tmp_path: Path, first: int | str) -> None:
    path = write(tmp_path / "p.jsonl", {**OWN, "task_id": first}, OWN, {**OWN, "task_id": 7})
    assert message(path) == f'{path}:3: field "task_id" repeats "7" of {path}:1'


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b'{"task_id": 1,}', "not valid JSON: "),
        (b"[1, 2]", "must be a JSON object, got list"),
        (b"null", "must be a JSON object, got null"),
        (b'{"prompt": "caf\xe9"}', "not UTF-8: byte 0xe9 at offset 15"),
        (b"9" * 5000, "not valid JSON: Exceeds the limit"),
        (b"[" * 100_000, "not valid JSON: maximum recursion depth exceeded"),
    ],
)
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: bytes, complaint: str) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_bytes(json.dumps(OWN).encode() + b"\r\n\r\n" + line + b"\n")
    assert message(str(path)).startswith(f"{path}:3: {complaint}")


def test_invalid_json_names_the_column(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"task_id": oops}')
    assert message(str(tmp_path / "p.jsonl")) == (
        f"{tmp_path / 'p.jsonl'}:1: not valid JSON: Expecting value at column 13"
    )


def test_a_broken_element_of_an_array_is_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "problems.json"
    path.write_text(json.dumps([OWN, {**OWN, "task_id": 2, "prompt": 1}], indent=1))
    assert message(str(path)) == f'{path}: element 2: field "prompt" must be a string, got int'


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (
            '{"task_id": 1}',
            "must be a JSON array of objects, got dict; name a file with one object per line",
        ),
        ("[\n{},\n{},,\n]", "not valid JSON: "),
        ("[3]", "element 1: must be a JSON object, got int"),
        ("[]", "the file has no rows"),
        ("\ufeff \n", "the file has no rows"),
    ],
)
def test_a_json_file_that_is_no_array_of_rows_is_refused(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "problems.json"
    path.write_text(content, encoding="utf-8")
    assert message(str(path)).startswith(f"{path}: {complaint}")


def test_a_file_without_rows_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"\xef\xbb\xbf\r\n\r\n")
    assert message(str(path)) == f"{path}: the file has no rows"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert message(f"{tmp_path}/no.jsonl") == f"{tmp_path}/no.jsonl: no such file"


def test_a_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "set.jsonl").mkdir()
    assert message(f"{tmp_path}/set.jsonl") == (
        f"{tmp_path}/set.jsonl: is a directory, not a .jsonl or .json file"
    )


def test_an_unreadable_file_is_named_with_the_systems_reason(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    path.symlink_to("/proc/self/mem")  # reads fail, also for root
    assert message(str(path)) == f"{path}: cannot be read: Input/output error"


def test_an_unknown_source_lists_the_known_ones() -> None:
    assert message("mbbp") == (
        '--cwsandbox-problems: "mbbp" is none of bundled, toy, mbpp, mbpp-sanitized'
        " and no path to a .jsonl or .json file"
    )


def test_the_split_of_a_row_counts_before_its_number(tmp_path: Path) -> None:
    path = write(tmp_path / "my-mbpp.jsonl", {**FULL, "split": "mine"}, {**FULL, "task_id": 12})
    assert [problem.split for problem in load(path)] == ["mine", "test"]
    assert [problem.task_id for problem in load(path, split="mine")] == ["11"]


def test_only_a_file_of_mbpp_has_the_splits_of_mbpp(tmp_path: Path) -> None:
    path = write(tmp_path / "own.jsonl", {**FULL, "task_id": 12})
    assert [problem.split for problem in load(path)] == [""]


def test_an_unknown_split_lists_those_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "mbpp.jsonl", {**OWN, "split": "dev"}, {**FULL, "task_id": 1})
    assert message(path, split="test") == (
        f'--cwsandbox-split: {path} has no split "test"; its splits are dev, prompt, and all'
    )


def test_a_file_without_splits_says_so(tmp_path: Path) -> None:
    path = write(
        tmp_path / "mbpp.jsonl", OWN, {**FULL, "task_id": "mine"}, {**FULL, "task_id": 5000}
    )
    assert message(path, split="test") == (
        f'--cwsandbox-split: {path} has no split "test"; it has no splits'
    )


def test_a_limit_keeps_the_first_problems_of_the_split(tmp_path: Path) -> None:
    path = write(tmp_path / "mbpp.jsonl", *({**FULL, "task_id": n} for n in range(9, 15)))
    assert [problem.task_id for problem in load(path, split="test", limit=2)] == ["11", "12"]
    assert len(load(path, split="all", limit=100)) == 6


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_below_one_is_refused(limit: int) -> None:
    assert message("bundled", limit=limit) == (
        f"--cwsandbox-limit: must be at least 1, got {limit}"
    )


def test_completions_carry_their_own_asserts(tmp_path: Path) -> None:
    tests = {"test_list": ["assert add(1, 2) == 3"]}
    path = tmp_path / "answers.jsonl"
    write(path, {"id": "x", "solution": "A", **tests}, {"completion": "B", "id": 4, **tests})
    first, second = load_completions(path)
    assert (first.id, first.text, first.problem.entry_point) == ("x", "A", "add")
    assert (second.id, second.text) == ("4", "B")


def test_completions_without_an_id_are_numbered(tmp_path: Path) -> None:
    row = {"completion": "", "test_list": ["assert add(1, 2) == 3"]}
    write(tmp_path / "answers.jsonl", row, row)
    assert [completion.id for completion in load_completions(tmp_path / "answers.jsonl")] == [
        "1",
        "2",
    ]


def test_a_row_without_a_completion_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "answers.jsonl", {"test_list": ["assert f(1)"]})
    with pytest.raises(ProblemFileError) as raised:
        load_completions(Path(path))
    assert str(raised.value) == f'{path}:1: missing field "completion"'
