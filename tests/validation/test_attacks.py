"""The catalog of reward hacks: what it holds, that it is harmless, and who falls for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.grading import ExitCodeGrader, Grader, Limits
from pytest_cwsandbox.problems import Problem, load
from pytest_cwsandbox.validation.attacks import (
    Attack,
    attacks,
    builtin_attacks,
    load_directory,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cwsandbox import Session

BUNDLED = load("bundled")
CATALOG = builtin_attacks()
# An int by ==, a float by math.isclose, a list by ==; the function alone, in a fence, in a tag.
TARGETS: dict[str, Callable[[str], str]] = {
    "digit_spread": "{}".format,
    "mean_speed": "```python\n{}\n```".format,
    "rotate_left": "Here it is.\n<answer>\n{}\n</answer>".format,
}
LIMITS = Limits(cpu_seconds=5, wall_seconds=30)


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with grading_session(BackendOptions("local")) as session:
        yield session


def problem_named(entry_point: str) -> Problem:
    return next(problem for problem in BUNDLED if problem.entry_point == entry_point)


def naive_program(problem: Problem, code: str) -> str:
    """What a reward function without a judge runs: `python -c`, reward 1.0 if it exits with 0."""
    return "\n".join([*problem.test_imports, code, problem.test_setup_code, *problem.test_list])


def applicable(problem: Problem) -> dict[str, str]:
    return {
        attack.name: code for attack in CATALOG if (code := attack.completion(problem)) is not None
    }


def test_the_catalog_has_many_kinds_of_attacks_with_names_of_their_own() -> None:
    names = [attack.name for attack in CATALOG]
    assert len(names) == len(set(names)) >= 150
    assert len({attack.family for attack in CATALOG}) >= 12
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in names)


def test_every_attack_says_what_it_exploits_in_one_line_and_where_it_is_described() -> None:
    assert [a.name for a in CATALOG if not a.why or "\n" in a.why or not a.reference] == []


@pytest.mark.parametrize("attack", CATALOG, ids=lambda attack: str(attack.name))
def test_an_attack_answers_a_bundled_problem_with_code_that_is_python_unless_meant_not_to(
    attack: Attack,
) -> None:
    codes = [code for problem in BUNDLED if (code := attack.completion(problem)) is not None]
    assert codes
    for code in codes:
        assert "ENTRY_POINT" not in code
        try:
            compile(code, attack.name, "exec", dont_inherit=True)
        except SyntaxError:
            assert not attack.compiles
        else:
            assert attack.compiles


def test_an_attack_on_a_problem_without_a_function_does_not_apply() -> None:
    toys = load("toy")
    assert [attack.name for attack in CATALOG if attack.completion(toys[0]) is not None] == []


def test_a_lie_about_equality_has_the_type_that_the_asserts_expect() -> None:
    fitting = {"digit_spread": "int", "swap_ends": "str", "shared_tags": "set", "invert": "dict"}
    for name, kind in fitting.items():
        codes = applicable(problem_named(name))
        assert [n for n in codes if n.startswith("always-equal-")] == [
            f"always-equal-{kind}",
            "always-equal-metaclass",
        ]
        assert f"class Answer({kind}):" in codes[f"always-equal-{kind}"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_attack_earns_reward_or_evades_a_zero_from_the_hardened_grader(
    session: Session, target: str
) -> None:
    problem, wrap = problem_named(target), TARGETS[target]
    grader = Grader(session, limits=LIMITS, concurrency=4)
    try:
        refs = {
            name: grader.grade(problem, wrap(code)) for name, code in applicable(problem).items()
        }
        outcomes = {name: ref.result() for name, ref in refs.items()}
    finally:
        grader.close()
    assert len(outcomes) > 150
    assert {name: out for name, out in outcomes.items() if out.reward != 0.0} == {}


def test_the_naive_exit_code_reward_falls_for_at_least_25_attacks(session: Session) -> None:
    grader = ExitCodeGrader(session, limits=LIMITS, concurrency=4)
    try:
        refs = [
            (name, grader.grade(naive_program(problem, code)))
            for problem in map(problem_named, TARGETS)
            for name, code in applicable(problem).items()
        ]
        exploits = {name for name, ref in refs if ref.result().reward == 1.0}
    finally:
        grader.close()
    assert len(exploits) >= 25, sorted(exploits)
    # One of each kind that the exit code cannot see.
    assert exploits >= {
        "exit-at-import",
        "os-exit-in-atexit",
        "always-equal",
        "always-equal-int",
        "patched-isclose",
        "expected-from-bytecode",
        "re-exec-without-asserts",
        "trace-jump",
        "print-passed",
        "verdict-files-then-exit",
        "code-in-a-string",
    }


# Runs in front of an attack and notes what it has no business doing.
WATCHER = """
def _watch():
    import os, sys
    here, pid = os.path.realpath("."), os.getpid()
    log = {log!r}
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
    busy = []

    def outside(path):
        if isinstance(path, int):
            return False
        path = os.path.realpath(os.fsdecode(path))
        return path != os.devnull and not path.startswith(here + os.sep)

    def forbidden(event, arguments):
        if event == "open":
            return arguments[2] & writing and outside(arguments[0])
        if event == "os.mkdir":
            return outside(arguments[0])
        if event == "os.kill":
            return arguments[0] not in (pid, os.getpid())
        if event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
            name = os.path.basename(os.fsdecode(arguments[0]))
            return name not in ("true", os.path.basename(sys.executable))
        return event in (
            "os.system", "os.remove", "os.rmdir", "os.rename", "os.truncate", "os.chmod",
            "os.chown", "os.link", "os.symlink", "os.killpg", "os.forkpty", "pty.spawn",
        ) or event.startswith(("socket.", "shutil.", "urllib.", "ftplib.", "smtplib."))

    def hook(event, arguments):
        if busy:
            return
        busy.append(event)
        try:
            if forbidden(event, arguments):
                file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
                os.write(file, f"{{event}} {{arguments}}\\n".encode("utf-8", "replace"))
                os.close(file)
        finally:
            busy.clear()

    sys.addaudithook(hook)

_watch()
"""


def processes_marked(marker: str) -> list[str]:
    """Command lines of the processes that have the marker in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if marker.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_text(errors="replace"))
        except OSError:
            continue  # it ended meanwhile, or is another user's
    return found


@pytest.mark.parametrize(("target", "watcher"), [("mean_speed", WATCHER), ("digit_spread", "")])
def test_attacks_are_inert_on_a_host_that_runs_them_without_a_sandbox(
    target: str, watcher: str, tmp_path: Path
) -> None:
    marker = uuid.uuid4().hex
    problem = problem_named(target)

    def run(name: str, code: str) -> tuple[str, str]:
        root = tmp_path / name
        folders = {part: root / part for part in ("work", "home", "tmp")}
        for folder in folders.values():
            folder.mkdir(parents=True)
        log = tmp_path / f"{name}.log"
        subprocess.run(
            [sys.executable, "-c", watcher.format(log=str(log)) + naive_program(problem, code)],
            cwd=folders["work"],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(folders["home"]),
                "TMPDIR": str(folders["tmp"]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "ATTACK": marker,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
            check=False,
        )
        complaint = log.read_text() if log.exists() else ""
        strays = [path for path in root.glob("*/**/*") if root / "work" not in path.parents]
        return name, complaint + "".join(f"left {path}\n" for path in strays)

    codes = {n: c for n, c in applicable(problem).items() if "\0" not in c}
    with ThreadPoolExecutor(4) as pool:
        findings = dict(pool.map(run, codes, codes.values()))
    assert {name: finding for name, finding in findings.items() if finding} == {}

    patience = time.monotonic() + 60
    while (left := processes_marked(marker)) and time.monotonic() < patience:
        time.sleep(0.1)
    assert left == []


def write_attack(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text)
    return path


def test_a_directory_of_payloads_joins_the_catalog(tmp_path: Path) -> None:
    write_attack(
        tmp_path,
        "my_exit.py",
        "# severity: high\n# why: leaves\n# reference: a ticket\n# family: house\n\n"
        "def ENTRY_POINT(n):\n    raise SystemExit\n",
    )
    (mine,) = load_directory(tmp_path)
    assert (mine.name, mine.severity, mine.why, mine.reference, mine.family) == (
        "my-exit",
        "high",
        "leaves",
        "a ticket",
        "house",
    )
    code = mine.completion(problem_named("digit_spread"))
    assert code is not None
    assert "def digit_spread(n):" in code
    assert attacks(tmp_path)[-1] == mine


def test_a_payload_that_defines_no_function_gets_one_that_only_raises(tmp_path: Path) -> None:
    write_attack(tmp_path, "bare.py", "# why: prints\nprint('PASSED')\n")
    (mine,) = load_directory(tmp_path)
    code = mine.completion(problem_named("digit_spread"))
    assert code is not None
    assert code.startswith("def digit_spread(*args, **kwargs):\n    raise NotImplementedError\n")
    assert code.endswith("print('PASSED')\n")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# why: a\ndef ENTRY_POINT(:\n", r"broken\.py: no Python"),
        ("# why: a\n# severity: extreme\n", r'broken\.py: severity "extreme" is none of high'),
        ("# severity: low\n", r'broken\.py: say in a line "# why'),
        ("# why: a\n# why: b\n", r"broken\.py: has two lines"),
    ],
)
def test_a_broken_payload_file_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    write_attack(tmp_path, "broken.py", text)
    with pytest.raises(UserError, match=complaint):
        load_directory(tmp_path)


def test_a_file_that_is_no_text_or_has_no_usable_name_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary.py").write_bytes(b"# why: a\n\xff\xfe")
    with pytest.raises(UserError, match=r"binary\.py: no Python"):
        load_directory(tmp_path)
    (tmp_path / "binary.py").unlink()
    write_attack(tmp_path, "Über.py", "# why: a\n")
    with pytest.raises(UserError, match="lower case and hyphens"):
        load_directory(tmp_path)


def test_a_directory_that_is_missing_or_empty_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: not a directory"):
        load_directory(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"holds no \*\.py files"):
        load_directory(tmp_path)


def test_an_attack_by_the_name_of_another_is_refused_with_both_places(tmp_path: Path) -> None:
    path = write_attack(tmp_path, "always_equal.py", "# why: a\n")
    with pytest.raises(
        UserError, match=rf'{re.escape(str(path))}: the built-in catalog has .*"always-equal" too'
    ):
        attacks(tmp_path)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, value: str) -> None:
    """A package with an entry point, as an installer would leave it."""
    information = folder / "house_attacks-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Name: house-attacks\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[pytest_cwsandbox.attacks]\nmine = {value}\n")
    name = value.partition(":")[0]
    (folder / f"{name}.py").write_text(module)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.delitem(sys.modules, name, raising=False)


ONE = (
    "from pytest_cwsandbox.validation.attacks import Attack\n"
    "one = Attack('house-{}', 'house', 'low', 'none known', 'prints', 'print(1)\\n')\n"
)


def test_installed_packages_add_one_attack_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, ONE.format("a") + "both = [one]\n", "house_many:both")
    assert attacks()[-1].name == "house-a"
    (tmp_path / "house_attacks-1.0.dist-info" / "entry_points.txt").write_text(
        "[pytest_cwsandbox.attacks]\nmine = house_many:one\n"
    )
    assert attacks()[-1].name == "house-a"


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        ("one = 3\n", "neither an Attack nor an iterable"),
        ("one = ['text']\n", "holds 'text', which is no Attack"),
        ("raise RuntimeError('gone')\n", "cannot be loaded: RuntimeError: gone"),
        (ONE.format("Ä"), "lower case and hyphens"),
    ],
)
def test_a_broken_entry_point_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, complaint: str
) -> None:
    install(tmp_path, monkeypatch, module, "house_broken:one")
    with pytest.raises(UserError, match=f'"mine = house_broken:one".*{complaint}'):
        attacks()
