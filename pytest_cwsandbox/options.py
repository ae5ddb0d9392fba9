"""The plugin's options, declared once for the command line and the ini file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pytest

IniType = Literal["string", "args", "int", "float", "number or text"]
NAMED_SOURCES = ("bundled", "toy", "mbpp", "mbpp-sanitized")


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
        "concurrency",
        "most coroutine tests marked `problems` or `tasks` under way at once, in all processes of "
        "the run together; 1 runs them in order (default: 32, under -n the number given there)",
        "N",
        "int",
    ),
    Option(
        "processes",
        "processes of `-n N`, which then means N tests under way at once: a number, or auto for "
        "one per core (default: N processes)",
        "auto|N",
        "number or text",
    ),
    Option(
        "max-sandboxes",
        "most sandboxes of the run alive at once, in all its processes together (default: no "
        "limit but the concurrency)",
        "N",
        "int",
    ),
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
