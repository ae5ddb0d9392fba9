"""Calls the reward function under test, in a child process that may die, hang or lie."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.rewards.columns import Completion

START_SECONDS = 120.0
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSW|CREDENTIAL", re.IGNORECASE)
NEEDED = ("CWSANDBOX_API_KEY",)  # it must still reach the sandbox service
MARK = "CWSANDBOX_REWARD_PROCESS"
PROMPT = "{prompt}\nPut the code inside <answer> tags."


@dataclass(frozen=True, slots=True)
class Case:
    """A completion, and the problem that it answers."""

    problem: Problem
    completion: Completion


@dataclass(frozen=True, slots=True)
class Call:
    """What one call gave.

    ``failure`` names how it failed and is empty if it did not: "unusable", "raised", "wrong type",
    "wrong length", "not finite", "died" or "hung".
    """

    rewards: tuple[float | None, ...] = ()
    failure: str = ""
    detail: str = ""
    seconds: float = 0.0

    def __str__(self) -> str:
        return f"{self.failure}: {self.detail}" if self.failure else str(list(self.rewards))


@dataclass
class RewardProcess:
    """The function ``spec`` in a child process of its own, started when it is first called.

    The child works in an empty folder, has no secrets in its environment but what reaches the
    sandbox service, and is started anew after it died or hung for ``timeout`` seconds.
    """

    spec: str
    timeout: float = 120.0
    path: Sequence[Path] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""
    _process: subprocess.Popen[str] | None = None
    _folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, cases: Sequence[Case]) -> Call:
        """Rewards of the cases, from one call of the function."""
        if self._process is None:
            said = self.start()
            if "ready" not in said:
                self.close()
                return Call(failure=str(said["failure"]), detail=str(said["detail"]))
        started = time.monotonic()
        said = self._ask(json.dumps(request(cases)), self.timeout)
        if said.get("failure") in {"died", "hung"}:
            self.close()
        return Call(
            rewards=tuple(said.get("rewards", ())),  # type: ignore[arg-type]
            failure=str(said.get("failure", "")),
            detail=str(said.get("detail", "")),
            seconds=float(said.get("seconds", time.monotonic() - started)),  # type: ignore[arg-type]
        )

    def rewards(self, cases: Sequence[Case]) -> list[Call]:
        """A call's part for each case: where a call fails as a whole, halves of it are called."""
        if not cases:
            return []
        call = self.call(cases)
        if not call.failure:
            return [Call((reward,), seconds=call.seconds) for reward in call.rewards]
        if len(cases) == 1 or call.failure == "unusable":
            return [call] * len(cases)
        middle = len(cases) // 2
        return [*self.rewards(cases[:middle]), *self.rewards(cases[middle:])]

    def close(self) -> None:
        """End the child with everything that it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            _kill_all_with(f"{MARK}={self.mark}")
            for pipe in (self._process.stdin, self._process.stdout):
                with contextlib.suppress(BrokenPipeError):  # a request that it never read
                    pipe.close()  # type: ignore[union-attr]  # both are pipes
            self._process = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def start(self) -> dict[str, object]:
        """Start the child; what it said first: "ready", or a "failure" and its "detail"."""
        self._folder = tempfile.TemporaryDirectory(prefix="cwsandbox-reward-")
        environment = {
            name: value
            for name, value in os.environ.items()
            if name in NEEDED or not SECRET.search(name)
        }
        paths = [*map(str, self.path), *filter(None, [environment.get("PYTHONPATH")])]
        self.mark = secrets.token_hex(8)
        environment |= {
            "PYTHONPATH": os.pathsep.join(paths),
            MARK: self.mark,
            **self.environment,
        }
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "pytest_cwsandbox.validation.child", self.spec],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=self._folder.name,
            env=environment,
            start_new_session=True,
        )
        return self._read(START_SECONDS)

    def _ask(self, line: str, timeout: float) -> dict[str, object]:
        assert self._process is not None  # noqa: S101 - started by ``call``
        assert self._process.stdin is not None  # noqa: S101
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return {"failure": "died", "detail": "its process was gone before the call"}
        return self._read(timeout)

    def _read(self, timeout: float) -> dict[str, object]:
        assert self._process is not None  # noqa: S101
        assert self._process.stdout is not None  # noqa: S101
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            return {"failure": "hung", "detail": f"no answer within {timeout:g} s"}
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            code = self._process.wait()
            ended = f"signal {-code}" if code < 0 else f"exit code {code}"
            return {"failure": "died", "detail": f"its process ended with {ended}"}
        said: dict[str, object] = json.loads(line)
        return said


def _kill_all_with(setting: str) -> None:
    """Kill every process with this in its environment: what left the child's process group."""
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            if setting.encode() in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)


def check(spec: str, path: Sequence[Path]) -> None:
    """Raise ``ConfigurationError`` where ``spec`` names no reward function that can be called."""
    with RewardProcess(spec, path=path) as reward:
        said = reward.start()
    if "ready" not in said:
        raise ConfigurationError(f"--cwsandbox-reward: {said['detail']}")


def request(cases: Sequence[Case]) -> dict[str, object]:
    """The arguments of a call as a trainer passes them."""
    conversational = any(not isinstance(case.completion, str) for case in cases)
    texts = [PROMPT.format(prompt=case.problem.prompt) for case in cases]
    rows = [case.problem.to_json() for case in cases]
    columns = (
        "task_id",
        "entry_point",
        "test_list",
        "test_imports",
        "test_setup_code",
        "challenge_test_list",
    )
    return {
        "prompts": [[{"role": "user", "content": t}] for t in texts] if conversational else texts,
        "completions": [case.completion for case in cases],
        "completion_ids": [[0] for _ in cases],
        **{name: [row[name] for row in rows] for name in columns},
    }
