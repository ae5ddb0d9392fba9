"""Every option of the plugin: declared once, read from the command line or the ini file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

from pytest_cwsandbox.backend import BackendOptions

if TYPE_CHECKING:
    from collections.abc import Callable

IniType = Literal["string", "args", "int", "float"]
NAMED_SOURCES = ("bundled", "toy", "mbpp", "mbpp-sanitized")
SETTINGS = pytest.StashKey["Settings"]()
T = TypeVar("T")
N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Option:
    """``--cwsandbox-NAME`` on the command line, ``cwsandbox_name`` in the ini file."""

    name: str
    help: str
    metavar: str
    ini: IniType = "string"
    choices: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return f"--cwsandbox-{self.name}"

    @property
    def key(self) -> str:
        return "cwsandbox_" + self.name.replace("-", "_")


OPTIONS = (
    Option(
        "backend",
        "where sandboxes run; auto: hosted when CWSANDBOX_API_KEY, a base URL or "
        "--cwsandbox-auth=wandb is given, else local (default: auto)",
        "auto|local|hosted",
        choices=("auto", "local", "hosted"),
    ),
    Option(
        "auth",
        "credentials for the hosted service (default: api-key)",
        "api-key|wandb",
        choices=("api-key", "wandb"),
    ),
    Option("base-url", "address of the hosted service", "URL"),
    Option(
        "image",
        "container image of the sandboxes (default: this Python's minor version, python:3.X)",
        "IMAGE",
    ),
    Option("tag", "a tag for every sandbox, may be given several times", "TAG", ini="args"),
    Option(
        "problems",
        "source for tests marked `problems`: bundled, toy, mbpp, mbpp-sanitized or a path to "
        "JSONL or JSON of MBPP's schema (default: bundled)",
        "SOURCE",
    ),
    Option("split", "use this split of the source only (mbpp by name: test)", "SPLIT"),
    Option("limit", "use at most N problems of a source", "N", ini="int"),
    Option("report-dir", "folder that holds a folder per run (default: .cwsandbox/runs)", "DIR"),
    Option("cpu-limit", "CPU seconds that a graded program may use (default: 20)", "S", "int"),
    Option("wall-limit", "wall seconds that a graded program may take (default: 60)", "S", "float"),
    Option("memory-limit", "memory of a graded program (default: 1GiB)", "SIZE"),
    Option("retries", "fresh sandboxes to try after a failure of one (default: 2)", "N", "int"),
    Option(
        "reward",
        "validate this reward function, named package.module:function; see docs/validation.md",
        "SPEC",
    ),
    Option("reward-bounds", "the rewards that it may give (default: 0:1)", "LOW:HIGH"),
    Option(
        "reward-partial-credit",
        "whether passing more asserts may earn more (default: no)",
        "yes|no",
        choices=("yes", "no"),
    ),
    Option("reward-max-seconds", "gate: p95 of a call with one completion", "S", "float"),
    Option("reward-timeout", "a call that takes longer hangs (default: 120)", "S", "float"),
    Option("reward-problems", "validate on at most N problems (default: 10)", "N", "int"),
    Option("attacks", "a directory of further attacks, may be given several times", "DIR", "args"),
    Option(
        "min-pass-rate",
        "gate: fail the run when fewer samples pass, pooled over all groups; samples below full "
        "reward are then data and no failures",
        "RATE",
        "float",
    ),
    Option(
        "max-infra-rate",
        "gate: the run is inconclusive (exit code 75) when more samples were lost to "
        "infrastructure (default: 0)",
        "RATE",
        "float",
    ),
)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
SIZE_WANTED = "a size of at least 64MiB, such as 1GiB"
SMALLEST_SIZE = 64 << 20
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


@dataclass(frozen=True)
class Settings:
    """What the options say, checked. Seconds and bytes unless the name says otherwise.

    ``explicit`` names the options that the command line or the ini file set.
    """

    backend: str = "auto"
    auth: str = ""
    base_url: str = ""
    image: str = ""
    tags: tuple[str, ...] = ()
    problems: str = "bundled"
    split: str = ""
    limit: int | None = None
    report_dir: Path = Path(".cwsandbox/runs")
    cpu_limit: int = 20
    wall_limit: float = 60.0
    memory_limit: int = 1 << 30
    retries: int = 2
    reward: str = ""
    reward_bounds: tuple[float, float] = (0.0, 1.0)
    reward_partial_credit: bool = False
    reward_max_seconds: float | None = None
    reward_timeout: float = 120.0
    reward_problems: int = 10
    attacks: tuple[Path, ...] = ()
    min_pass_rate: float | None = None
    max_infra_rate: float = 0.0
    explicit: frozenset[str] = field(default_factory=frozenset)

    @property
    def backend_options(self) -> BackendOptions:
        return BackendOptions(self.backend, self.auth, self.base_url, self.image)

    @property
    def gated(self) -> bool:
        return self.min_pass_rate is not None

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Read pytest's configuration; raises ``pytest.UsageError`` that names the bad option."""
        read = _Reader(config)
        settings = cls(
            backend=read.text("backend", cls.backend),
            auth=read.text("auth", cls.auth),
            base_url=read.text("base-url", cls.base_url),
            image=read.text("image", cls.image),
            tags=read.texts("tag"),
            problems=read.source("problems", cls.problems),
            split=read.text("split", cls.split),
            limit=read.number("limit", int, at_least=1),
            report_dir=read.path("report-dir", cls.report_dir),
            cpu_limit=read.number("cpu-limit", int, at_least=1) or cls.cpu_limit,
            wall_limit=read.number("wall-limit", float, above=0) or cls.wall_limit,
            memory_limit=read.size("memory-limit") or cls.memory_limit,
            retries=_default(read.number("retries", int, at_least=0), cls.retries),
            reward=read.text("reward", cls.reward),
            reward_bounds=read.interval("reward-bounds", cls.reward_bounds),
            reward_partial_credit=read.text("reward-partial-credit", "no") == "yes",
            reward_max_seconds=read.number("reward-max-seconds", float, above=0),
            reward_timeout=read.number("reward-timeout", float, above=0) or cls.reward_timeout,
            reward_problems=read.number("reward-problems", int, at_least=1) or cls.reward_problems,
            attacks=read.paths("attacks"),
            min_pass_rate=read.number("min-pass-rate", float, at_least=0, at_most=1),
            max_infra_rate=_default(
                read.number("max-infra-rate", float, at_least=0, at_most=1), cls.max_infra_rate
            ),
            explicit=frozenset(read.explicit),
        )
        if settings.base_url and not re.fullmatch(r"https?://[^/\s]+/?", settings.base_url):
            raise pytest.UsageError(
                f"--cwsandbox-base-url must look like https://host[:port], "
                f"got {settings.base_url!r}"
            )
        return settings


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and its ini twin."""
    group = parser.getgroup("cwsandbox", "agent rewards in CoreWeave sandboxes")
    for option in OPTIONS:
        group.addoption(
            option.flag,
            action="append" if option.ini == "args" else "store",
            dest=option.key,
            default=None,
            metavar=option.metavar,
            help=option.help,
        )
        parser.addini(option.key, option.help, type=option.ini, default=None)


def read_size(text: str) -> int | None:
    """Bytes that a text such as 1GiB means; None for nonsense, and for less than 64 MiB."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    unit = (match[2] or "").upper()
    base = 1024 if match[3] or not unit else 1000
    size = int(float(match[1]) * base ** _POWERS.get(unit, 0))
    return size if size >= SMALLEST_SIZE else None


def _default(value: T | None, default: T) -> T:
    return default if value is None else value


class _Reader:
    """Takes values from the command line, then from the ini file, and notes which were set."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._options = {option.name: option for option in OPTIONS}
        self.explicit: set[str] = set()
        self._place = ""

    def _raw(self, name: str) -> object:
        option = self._options[name]
        value: object = self._config.getoption(option.key)
        self._place = option.flag
        if value is None:
            self._place = option.key
            try:
                value = self._config.getini(option.key)
            except (TypeError, ValueError, pytest.UsageError) as error:
                raise pytest.UsageError(f"{option.key}: {error}") from error
        if value is None:
            return None
        self.explicit.add(name)
        if option.choices and value not in option.choices:
            raise self._error(f"one of {', '.join(option.choices)}", value)
        return value

    def _error(self, expected: str, value: object) -> pytest.UsageError:
        return pytest.UsageError(f"{self._place} must be {expected}, got {value!r}")

    def text(self, name: str, default: str) -> str:
        value = self._raw(name)
        if value is None:
            return default
        if not str(value).strip():
            raise self._error("a non-empty text", value)
        return str(value)

    def path(self, name: str, default: Path) -> Path:
        """A path: relative to where pytest was called, or to the ini file or rootdir."""
        value = self.text(name, "")
        return self._home() / value if value else self._config.rootpath / default

    def paths(self, name: str) -> tuple[Path, ...]:
        values = self.texts(name)
        return tuple(self._home() / value for value in values)

    def _home(self) -> Path:
        """What the path just read is relative to."""
        if self._place.startswith("--"):
            return self._config.invocation_params.dir
        return self._config.inipath.parent if self._config.inipath else self._config.rootpath

    def source(self, name: str, default: str) -> str:
        """A source of problems: a known name, or a path."""
        value = self.text(name, default)
        return value if value in NAMED_SOURCES else str(self.path(name, Path()))

    def texts(self, name: str) -> tuple[str, ...]:
        value = self._raw(name)
        return tuple(str(text) for text in value) if isinstance(value, list) else ()

    def number(
        self,
        name: str,
        kind: Callable[[str], N],
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> N | None:
        value = self._raw(name)
        if value is None:
            return None
        expected = "a whole number" if kind is int else "a number"
        if above is not None:
            expected += f" above {above:g}"
        if at_least is not None:
            expected += f" of at least {at_least:g}"
        if at_most is not None:
            expected += f" and at most {at_most:g}"
        try:
            number = kind(str(value))
        except ValueError:
            raise self._error(expected, value) from None
        inside = (
            (above is None or number > above)
            and (at_least is None or number >= at_least)
            and (at_most is None or number <= at_most)
            and abs(number) != float("inf")
        )
        if not inside:
            raise self._error(expected, value)
        return number

    def interval(self, name: str, default: tuple[float, float]) -> tuple[float, float]:
        value = self._raw(name)
        if value is None:
            return default
        low, colon, high = str(value).partition(":")
        try:
            bounds = (float(low), float(high))
        except ValueError:
            bounds = (0.0, 0.0)
        if not colon or not bounds[0] < bounds[1]:
            raise self._error("two numbers, the lower first, such as 0:1", value)
        return bounds

    def size(self, name: str) -> int | None:
        value = self._raw(name)
        if value is None:
            return None
        size = read_size(str(value))
        if size is None:
            raise self._error(SIZE_WANTED, value)
        return size
