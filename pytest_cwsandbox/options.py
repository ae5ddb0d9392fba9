"""The plugin's options: declared once, read from the command line or the ini file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import pytest

from pytest_cwsandbox.runs.gate import Thresholds

if TYPE_CHECKING:
    from collections.abc import Callable

IniType = Literal["string", "args", "int", "float", "number or text"]
NAMED_SOURCES = ("bundled", "toy", "mbpp", "mbpp-sanitized")
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
    Option("limit", "use at most N problems or tasks of a source", "N", ini="int"),
    Option(
        "model",
        "model of the rollouts (default: scripted, which plays fixed scripts on this machine)",
        "MODEL",
    ),
    Option(
        "model-base-url",
        "address of an OpenAI-compatible endpoint (default: OPENAI_BASE_URL, or OpenAI itself)",
        "URL",
    ),
    Option(
        "model-api",
        "API to speak with it (default: responses for OpenAI itself, else chat)",
        "responses|chat",
        choices=("responses", "chat"),
    ),
    Option("temperature", "sampling temperature (default: the endpoint's)", "T", "float"),
    Option("top-p", "nucleus sampling (default: the endpoint's)", "P", "float"),
    Option("max-tokens", "most tokens of one answer (default: the endpoint's)", "N", "int"),
    Option("seed", "seed of sample 0; sample n has seed + n", "N", "int"),
    Option("extra-body", "JSON object, added to every request to the model", "JSON"),
    Option("model-timeout", "seconds for one request to the model (default: 300)", "S", "float"),
    Option("model-retries", "retries of a failed request (default: 4)", "N", "int"),
    Option(
        "model-price",
        "US dollars per million tokens, of prompt and answer, such as 0.25:2",
        "IN:OUT",
    ),
    Option("max-tool-calls", "most tool calls of a rollout (default: 20)", "N", "int"),
    Option(
        "alert-tool-calls", "warn when a rollout makes more tool calls (default: never)", "N", "int"
    ),
    Option("max-turns", "most answers of the model in a rollout", "N", "int"),
    Option("max-total-tokens", "most tokens of a rollout, prompts and answers", "N", "int"),
    Option(
        "rollout-timeout",
        "most seconds of a rollout, waiting for sandboxes not counted (default: 1200)",
        "S",
        "float",
    ),
    Option(
        "visible-asserts", "asserts of a problem that the model sees (default: all)", "N", "int"
    ),
    Option(
        "tasks",
        "source for tests marked `tasks`: bundled, or a path to JSONL (default: bundled)",
        "SOURCE",
    ),
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
        "gate: fail the run when fewer samples pass: a number for all groups pooled, or "
        "GROUP=RATE,...; samples below full reward are then data and no failures",
        "RATE",
        "number or text",
    ),
    Option(
        "min-pass-rate-lower",
        "gate: as --cwsandbox-min-pass-rate, on the lower end of the 95% interval",
        "RATE",
        "number or text",
    ),
    Option(
        "max-infra-rate",
        "gate: the run is inconclusive (exit code 75) when more samples were lost to "
        "infrastructure (default: 0)",
        "RATE",
        "float",
    ),
    Option(
        "baseline",
        "gate: fail the run when it is significantly worse than this file of "
        "`pytest-cwsandbox baseline`; samples below full reward are then data and no failures",
        "PATH",
    ),
    Option(
        "alpha",
        "significance level of the comparison with the baseline (default: 0.05)",
        "P",
        "float",
    ),
    Option("group-by", "report rates by these keys of the samples' metadata too", "KEY[,KEY]"),
    Option("pass-k", "report pass@k and pass^k for these k", "K[,K]", "number or text"),
    Option("resume", "continue a run: its folder, its id, or latest", "RUN"),
    Option(
        "progress",
        "a live line of what is done; auto: on a terminal, and now and then elsewhere "
        "(default: auto)",
        "auto|on|off",
        choices=("auto", "on", "off"),
    ),
    Option(
        "junit-properties",
        "whether test cases in the file of --junitxml carry the sample's reward, verdict and tags "
        "as properties (default: yes); Jenkins' xUnit plugin takes no file that has them",
        "yes|no",
        choices=("yes", "no"),
    ),
)

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([KMGT])(i?)B?|B)?", re.IGNORECASE)
SIZE_WANTED = "a size of at least 64MiB, such as 1GiB"
SMALLEST_SIZE = 64 << 20
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


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
        if option.ini == "number or text":
            parser.addini(option.key, option.help, type=float | str, default=None)
        else:
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


class Reader:
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

    def optional_path(self, name: str) -> Path | None:
        """A path, or None; on the command line an empty one turns the ini file's off."""
        value = self._raw(name)
        return self._home() / str(value) if value else None

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

    def rates(self, name: str) -> Thresholds:
        """A share from 0 to 1, or ``group=share`` pairs, separated by commas."""
        value = self._raw(name)
        if value is None:
            return Thresholds()
        pooled: float | None = None
        groups: dict[str, float] = {}
        expected = "a number from 0 to 1, or GROUP=NUMBER pairs separated by commas"
        for part in str(value).split(","):
            group, equals, text = part.rpartition("=")
            try:
                rate = float(text)
            except ValueError:
                rate = -1.0
            group = group.strip()
            repeated = group in groups if equals else pooled is not None
            if not 0 <= rate <= 1 or (equals and not group):
                raise self._error(expected, value)
            if repeated:
                twice = f"{group} is named" if equals else "a number for all samples is there"
                raise pytest.UsageError(f"{self._place}: {twice} twice in {value!r}")
            if equals:
                groups[group] = rate
            else:
                pooled = rate
        return Thresholds(pooled, groups, lenient=not self._place.startswith("--"))

    def numbers(self, name: str) -> tuple[int, ...]:
        """Whole numbers of at least 1, separated by commas."""
        value = self._raw(name)
        if value is None:
            return ()
        text = f"{value:g}" if isinstance(value, float) else str(value)
        parts = [part.strip() for part in text.split(",")]
        if not all(part.isdecimal() and int(part) >= 1 for part in parts):
            raise self._error("whole numbers of at least 1, separated by commas", value)
        return tuple(sorted({int(part) for part in parts}))

    def words(self, name: str) -> tuple[str, ...]:
        """Words, separated by commas."""
        value = self._raw(name)
        if value is None:
            return ()
        words = tuple(word.strip() for word in str(value).split(","))
        if not all(words):
            raise self._error("names separated by commas", value)
        return words

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

    def pair(self, name: str) -> tuple[float, float] | None:
        """Two numbers of at least 0, with a colon between them."""
        value = self._raw(name)
        if value is None:
            return None
        parts = str(value).split(":")
        try:
            first, second = (float(part) for part in parts)
        except ValueError:
            first = second = -1.0
        if not (0 <= first < float("inf") and 0 <= second < float("inf")):
            raise self._error("two numbers of at least 0, such as 0.25:2", value)
        return first, second

    def object(self, name: str) -> dict[str, object]:
        """A JSON object."""
        value = self._raw(name)
        if value is None:
            return {}
        try:
            parsed = json.loads(str(value))
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise self._error('a JSON object, such as {"top_k": 20}', value)
        return parsed

    def size(self, name: str) -> int | None:
        value = self._raw(name)
        if value is None:
            return None
        size = read_size(str(value))
        if size is None:
            raise self._error(SIZE_WANTED, value)
        return size
