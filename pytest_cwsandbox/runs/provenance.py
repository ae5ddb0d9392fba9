"""Where a run comes from: run.json. docs/provenance.md describes its fields."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Self, cast

from pytest_cwsandbox.errors import ProblemFileError
from pytest_cwsandbox.runs import plan
from pytest_cwsandbox.runs.redaction import redact, redacted
from pytest_cwsandbox.runs.schema import check_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SCHEMA = 1
FILE = "run.json"
PACKAGES = ("pytest-cwsandbox", "pytest", "pytest-xdist", "pytest-asyncio", "cwsandbox", "openai")
GIT_SECONDS = 10.0
# What must not change when a run is continued: half of its samples would be of something else.
# Options are called as the fields are.
SAME_OPTIONS = (
    "image",
    "split",
    "limit",
    "model",
    "model_api",
    "temperature",
    "top_p",
    "max_tokens",
    "seed",
    "extra_body",
    "max_tool_calls",
    "max_turns",
    "max_total_tokens",
    "rollout_timeout",
    "visible_asserts",
    "cpu_limit",
    "wall_limit",
    "memory_limit",
    "reward",
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a run was made of. Fields that are called like an option hold its effective value.

    Times are ISO 8601 in UTC; ``ended`` and ``exit_status`` are missing while the run is under way,
    and for good when it was killed. Seconds and bytes. ``seeds`` holds the seed of each sample
    number. Hashes are SHA-256: of the problems and tasks that were planned, and of the code that
    rewards; "" where there is none. ``git_dirty`` says whether tracked files had changed.
    ``resumed`` and ``differences`` say when a run was continued, and what was different then;
    ``rescored_from`` names the run whose completions these are.
    """

    run: str
    started: str
    command: tuple[str, ...]
    ended: str | None = None
    exit_status: int | None = None
    resumed: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    rescored_from: str = ""
    tags: tuple[str, ...] = ()
    python: str = ""
    platform: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    git_commit: str = ""
    git_dirty: bool | None = None
    backend: str = ""
    base_url: str = ""
    image: str = ""
    cpu_limit: int = 0
    wall_limit: float = 0.0
    memory_limit: int = 0
    retries: int = 0
    problems: str = ""
    split: str = ""
    limit: int | None = None
    problems_hash: str = ""
    tasks: str = ""
    tasks_hash: str = ""
    reward: str = ""
    reward_hash: str = ""
    model: str = ""
    model_base_url: str = ""
    model_api: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    seeds: dict[str, int] = field(default_factory=dict)
    extra_body: dict[str, object] = field(default_factory=dict)
    max_tool_calls: int | None = None
    max_turns: int | None = None
    max_total_tokens: int | None = None
    rollout_timeout: float | None = None
    visible_asserts: int | None = None
    schema: int = SCHEMA

    def to_json(self) -> dict[str, object]:
        row = asdict(self)
        return {"schema": row.pop("schema"), **row}

    @classmethod
    def from_json(cls, row: dict[str, object]) -> Self:
        """Build from ``to_json``'s form; ``TypeError`` or ``ValueError`` for any other."""
        check_schema(row.get("schema"), SCHEMA, remedy="use the version that wrote the run")
        known = {each.name for each in fields(cls)}
        if strange := sorted(row.keys() - known):
            raise TypeError(f'unknown field "{strange[0]}"')
        if missing := sorted(known - row.keys()):
            raise TypeError(f'missing field "{missing[0]}"')
        return cls(**{k: tuple(v) if isinstance(v, list) else v for k, v in row.items()})  # type: ignore[arg-type]  # checked above


def write(folder: Path, provenance: Provenance) -> None:
    """Write ``run.json`` into a run's folder, which is made when missing, without any secret."""
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{FILE}.part"
    text = json.dumps(redacted(provenance.to_json()), indent=2)
    unfinished.write_text(redact(text) + "\n")
    unfinished.replace(folder / FILE)


def read(folder: Path) -> Provenance | None:
    """What ``write`` wrote, None where nothing was; ``ProblemFileError`` for anything else."""
    file = folder / FILE
    try:
        row = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProblemFileError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ProblemFileError(f"{file}: not valid JSON: {error}") from None
    if not isinstance(row, dict):
        raise ProblemFileError(f"{file}: must be a JSON object, got {type(row).__name__}")
    try:
        return Provenance.from_json(row)
    except (TypeError, ValueError) as error:
        raise ProblemFileError(f"{file}: {error}") from None


def conflicts(before: Provenance, now: Provenance) -> list[str]:
    """What must be alike in a run and its continuation, and is not; a line for each."""
    was, new = (cast("dict[str, object]", redacted(each.to_json())) for each in (before, now))
    lines = [
        f"--cwsandbox-{name.replace('_', '-')}: {_shown(was[name])} in the run, "
        f"{_shown(new[name])} now"
        for name in SAME_OPTIONS
        if was[name] != new[name]
    ]
    if before.reward_hash != now.reward_hash:
        lines.append(
            "--cwsandbox-reward: the code that rewards has changed: "
            f"{_brief(before.reward_hash)} in the run, {_brief(now.reward_hash)} now"
        )
    return lines


def differences(before: Provenance, now: Provenance) -> list[str]:
    """What may differ in a continuation, but is to be known; a line for each."""
    pairs: list[tuple[str, object, object]] = [
        (name, before.versions.get(name) or "missing", now.versions.get(name) or "missing")
        for name in PACKAGES
    ]
    pairs += [
        (name.replace("_", " "), getattr(before, name), redacted(getattr(now, name)))
        for name in ("python", "git_commit", "git_dirty", "backend", "model_base_url")
    ]
    return [
        f"{name} {_shown(was)} in the run, {_shown(new)} now"
        for name, was, new in pairs
        if was != new
    ]


def content_conflicts(before: Provenance, now: Provenance) -> list[str]:
    """As ``conflicts``, of the problems and tasks that a run and its continuation collected."""
    return [
        f"--cwsandbox-{name}: what was collected has changed: {_shown(getattr(before, name))} "
        f"({_brief(was)}) in the run, {_shown(getattr(now, name))} ({_brief(new)}) now"
        for name in ("problems", "tasks")
        if (was := getattr(before, f"{name}_hash")) != (new := getattr(now, f"{name}_hash"))
    ]


def _brief(digest: str) -> str:
    return f"sha256 {digest[:12]}" if digest else "none"


def _shown(value: object) -> str:
    return value or "none" if isinstance(value, str) else json.dumps(value)


# What it is made of


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def versions() -> dict[str, str]:
    """Of the packages that matter, where they are installed."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def with_surroundings(of: Provenance, folder: Path) -> Provenance:
    """With this interpreter, its packages, this system, and the commit of the folder."""
    commit, dirty = git(folder)
    return replace(
        of,
        python=platform.python_version(),
        platform=platform.platform(),
        versions=versions(),
        git_commit=commit,
        git_dirty=dirty,
    )


def git(folder: Path) -> tuple[str, bool | None]:
    """The commit that is checked out, and whether tracked files differ; nothing without git."""
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    try:
        done = subprocess.run(
            [*command, "--untracked-files=no"],
            capture_output=True,
            text=True,
            check=False,
            timeout=GIT_SECONDS,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},  # others may be working there
        )
    except (OSError, subprocess.TimeoutExpired):
        return "", None
    if done.returncode != 0:
        return "", None
    lines = done.stdout.splitlines()
    commits = [line.split()[-1] for line in lines if line.startswith("# branch.oid ")]
    changed = any(not line.startswith("#") for line in lines)
    commit = commits[0] if commits else ""
    return ("", None) if commit in {"", "(initial)"} else (commit, changed)


def with_content(of: Provenance, folder: Path) -> Provenance:
    """With the hashes of the problems and tasks in the plan of a run's folder."""
    problems = {name: each.to_json() for name, each in plan.read_problems(folder).items()}
    return replace(
        of,
        problems_hash=_content_hash(problems),
        tasks_hash=_content_hash(plan.read_tasks(folder)),
    )


def _content_hash(rows: Mapping[str, Mapping[str, object]]) -> str:
    if not rows:
        return ""
    digest = hashlib.sha256()
    for name in sorted(rows):
        digest.update(json.dumps([name, rows[name]], sort_keys=True).encode() + b"\n")
    return digest.hexdigest()


def code_hash(reward: str, places: Iterable[Path]) -> str:
    """Hash of the code that rewards: ours, and the module of a function of the user's.

    ``reward`` names it as ``package.module:function``, "" is none; it is looked for in ``places``
    and then where Python imports from, and not imported.
    """
    package = Path(__file__).parents[1]
    ours = sorted(file for room in ("grading", "rewards") for file in (package / room).glob("*.py"))
    digest = hashlib.sha256()
    for file in [*ours, *_module_files(reward.partition(":")[0], places)]:
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _module_files(module: str, places: Iterable[Path]) -> list[Path]:
    """The module's file; nothing where it is in none of the usual places."""
    parts = module.split(".")
    for place in [*places, *map(Path, sys.path)] if module else []:
        for file in (
            place.joinpath(*parts[:-1], f"{parts[-1]}.py"),
            place.joinpath(*parts, "__init__.py"),
        ):
            if file.is_file():
                return [file]
    return []


def ended(folder: Path, exit_status: int) -> None:
    """Complete ``run.json``, where there is one."""
    if (begun := read(folder)) is not None:
        write(folder, replace(begun, ended=now(), exit_status=exit_status))
