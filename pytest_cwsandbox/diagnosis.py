"""What `pytest-cwsandbox doctor` prints: can sandboxes run here, do grades come out right."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

from pytest_cwsandbox import backend, runner
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.errors import BackendError, HarnessError
from pytest_cwsandbox.problems import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_cwsandbox.backend import BackendOptions

PACKAGES = ("pytest-cwsandbox", "cwsandbox", "pytest", "pytest-xdist", "pytest-asyncio", "openai")
ADD = Problem("add", "Add two numbers.", ("assert add(2, 3) == 5",), entry_point="add")
TRIALS = (
    ("a right program", "def add(a, b): return a + b", 1.0),
    ("a wrong program", "def add(a, b): return a - b", 0.0),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    good: bool
    name: str
    detail: str
    remedy: str = ""


def diagnose(options: BackendOptions) -> bool:
    """Print what was found, line by line as it is found; True when all is well."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    packages = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    console.print(f"Python {platform.python_version()}, {packages}")
    healthy = True
    for finding in _findings(options):
        healthy = healthy and finding.good
        line = Text("ok    " if finding.good else "FAIL  ", "green" if finding.good else "red")
        line.append(f"{finding.name}: {finding.detail}", "default")
        console.print(line, soft_wrap=True)
        if finding.remedy and not finding.good:
            console.print(f"      remedy: {finding.remedy}", soft_wrap=True, markup=False)
    return healthy


def _findings(options: BackendOptions) -> Iterator[Finding]:
    try:
        kind = options.choose(os.environ)
        yield Finding(good=True, name="backend", detail=kind)
        if kind == "hosted":
            yield Finding(good=True, name="service", detail=backend.check_hosted(options))
        else:
            host = list(_host(options.image or backend.local_image()))
            yield from host
            if not all(finding.good for finding in host):
                return
        yield from _trials(options)
    except HarnessError as error:
        yield Finding(good=False, name="backend", detail=str(error))


def _host(image: str) -> Iterator[Finding]:
    from pytest_cwsandbox.local import checks, limits

    if runner.inherited(os.environ):
        yield Finding(good=True, name="local runner", detail=os.environ[runner.LOCAL_MARKER])
        return
    for check in checks.checks():
        yield Finding(check.ok, check.name, check.detail, check.remedy)
    yield Finding(good=True, name="limits", detail=limits.describe(limits.obtainable()))
    try:
        backend.check_image(image)
    except BackendError as error:
        yield Finding(
            good=False, name="image", detail=str(error), remedy="choose one of these with --image"
        )


def _trials(options: BackendOptions) -> Iterator[Finding]:
    from pytest_cwsandbox.grading import Grader

    with grading_session(options) as session:
        grader = Grader(session, retries=0)
        try:
            for name, code, reward in TRIALS:
                outcome = grader.grade_code(ADD, code).result()
                yield Finding(
                    outcome.reward == reward,
                    name,
                    f"reward {outcome.reward} in {outcome.seconds:.2f} s"
                    + (f" ({outcome.detail})" if outcome.detail else ""),
                    "a program of known worth must get its reward; see what the detail says",
                )
        finally:
            grader.close()
