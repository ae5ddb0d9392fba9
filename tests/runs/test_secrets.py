"""Secrets are planted wherever a run could pick one up, and looked for in all of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.plugin.rollouts import folder

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Run = Callable[..., pytest.RunResult]

PLANTED = {
    "environment": "env-9f3kQ2vX7pLm",
    "quoted": 'quo"ted-\\-Zk4w9s',
    "extra body": "body-4Tn8cB1yRwe",
    "header": "hdr-x7Vd0Gq5uJa",
    "command line": "cmd-2Ph6mSz3KfN",
    "url": "url-8Yb1jWc4HtE",
    "bearer": "bear-5Lr9oDx2VkU",
    "key by its form": "sk-proj-3Fg7nQa0ZbM1xCv6KjHs",
}
TESTS = """
    import json, os
    import pytest

    ENV, QUOTED = os.environ["PLANTED_API_KEY"], os.environ["PLANTED_PASSWORD"]

    def test_detail(record_reward):
        record_reward(0.0, detail=f"the service said {ENV} and {QUOTED}", metadata={"a": QUOTED})

    def test_assertion(record_reward):
        record_reward(0.0)
        assert {"given": QUOTED, "env": ENV} == {}, os.environ["PLANTED_TEXT"]

    def test_error(record_reward):
        record_reward(0.0)
        raise RuntimeError(f"{ENV} {QUOTED!r}")

    def test_check():
        assert ENV == ""

    @pytest.mark.problems()
    async def test_agent(problem, rollout):
        trajectory = await rollout(problem)
        assert trajectory.reward == 1.0, trajectory.messages
"""


def test_no_file_of_a_run_holds_a_secret(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets = PLANTED
    text = (
        f"Authorization: Bearer {secrets['bearer']} {secrets['key by its form']} "
        f"https://me:{secrets['url']}@host/ {secrets['extra body']}"
    )
    monkeypatch.setenv("PLANTED_API_KEY", secrets["environment"])
    monkeypatch.setenv("PLANTED_PASSWORD", secrets["quoted"])
    monkeypatch.setenv("PLANTED_TEXT", text)
    prompt = f"Add with {secrets['environment']}, {secrets['quoted']} or {text}"
    row = {"task_id": "1", "prompt": prompt, "test_list": ["assert add(1, 2) == 3"]}
    (pytester.path / "mine.jsonl").write_text(json.dumps(row))
    pytester.makeconftest("def pytest_addoption(parser): parser.addoption('--upload-token')")
    pytester.makepyfile(test_planted=TESTS)
    body = {"api_key": secrets["extra body"], "headers": [{"Authorization": secrets["header"]}]}
    run(
        "--cwsandbox-problems=mine.jsonl",
        f"--cwsandbox-extra-body={json.dumps(body)}",
        "--upload-token",
        secrets["command line"],
        "-p",
        "asyncio",
    ).assert_outcomes(passed=1, failed=4)
    made = folder(pytester.path)
    files = {file.name: file.read_text() for file in made.rglob("*") if file.is_file()}
    assert files.keys() >= {"run.json", "plan.jsonl", "problems.jsonl", "samples.jsonl"}
    assert any(name.startswith("trajectories-") for name in files)
    for name, content in files.items():
        found = [where for where, secret in secrets.items() if _core(secret) in content]
        assert not found, f"{name} holds the secret of the {found}"
        for line in content.splitlines() if name.endswith(".jsonl") else []:
            json.loads(line)  # what is hidden leaves it JSON
    assert "[redacted]" in files["samples.jsonl"]
    # What is no secret is whole.
    assert json.loads(files["run.json"])["max_tool_calls"] == 20
    assert json.loads(files["problems.jsonl"])["test_list"] == row["test_list"]


def _core(secret: str) -> str:
    """The part that no way of quoting changes."""
    return secret.rpartition("-")[2]
