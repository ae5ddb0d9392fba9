"""Secrets are planted wherever a run could pick one up, and looked for in all of its files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

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
    "list": "list-6Wd2rKx8QpZ",
    "nested": "nest-1Mf7uYc3HvB",
    "tag": "tag-4Jh9sLe5NgT",
    "parameter": "par-0Rq6wXz2DkC",
    "digits": "8675309123",
    "key by its form": "sk-proj-3Fg7nQa0ZbM1xCv6KjHs",
}
TESTS = """
    import json, os
    import pytest

    ENV, QUOTED = os.environ["PLANTED_API_KEY"], os.environ["PLANTED_PASSWORD"]
    PIN = os.environ["PLANTED_PIN_PASSWORD"]

    def test_names(record_reward):
        key = os.environ["PLANTED_API_KEY"]
        record_reward(0.0, detail=json.dumps({key: 1}), metadata={key: "1", "b": f"<{key}>"})

    def test_detail(record_reward):
        detail = f"the service said {ENV} and {QUOTED}, {PIN}"
        record_reward(0.0, detail=detail, metadata={"a": QUOTED})

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
        f"https://me:{secrets['url']}@host/ {secrets['extra body']} {secrets['list']} "
        f"{secrets['nested']} {secrets['tag']} {secrets['digits']} "
        f"http://h/v1?a=b&token={secrets['parameter']}"
    )
    monkeypatch.setenv("PLANTED_API_KEY", secrets["environment"])
    monkeypatch.setenv("PLANTED_PASSWORD", secrets["quoted"])
    monkeypatch.setenv("PLANTED_PIN_PASSWORD", secrets["digits"])
    monkeypatch.setenv("PLANTED_TEXT", text)
    prompt = f"Add with {secrets['environment']}, {secrets['quoted']} or {text}"
    row = {"task_id": "1", "prompt": prompt, "test_list": ["assert add(1, 2) == 3"]}
    (pytester.path / "mine.jsonl").write_text(json.dumps(row))
    pytester.makeconftest(
        "def pytest_addoption(parser): parser.addoption('--upload-token'); "
        "parser.addoption('--upload-address')"
    )
    pytester.makepyfile(test_planted=TESTS)
    body = {
        "api_key": secrets["extra body"],
        "headers": [{"Authorization": secrets["header"]}],
        "Cookie": [secrets["list"]],
        "auth_token": {"v": secrets["nested"]},
    }
    run(
        "--cwsandbox-problems=mine.jsonl",
        f"--cwsandbox-extra-body={json.dumps(body)}",
        f"--upload-address=http://h/v1?api_key={secrets['parameter']}",
        f"--cwsandbox-tag=api_key={secrets['tag']}",
        "--junitxml=junit.xml",
        "--upload-token",
        secrets["command line"],
        "-p",
        "asyncio",
    ).assert_outcomes(passed=2, failed=4)
    made = folder(pytester.path)
    files = {file.name: file.read_text() for file in made.rglob("*") if file.is_file()}
    assert files.keys() >= {"run.json", "plan.jsonl", "problems.jsonl", "samples.jsonl"}
    assert any(name.startswith("trajectories-") for name in files)
    properties = ET.parse(pytester.path / "junit.xml").iter("property")  # noqa: S314 - ours
    files["junit.xml, properties"] = "\n".join(str(each.attrib) for each in properties)
    assert "[redacted]" in files["junit.xml, properties"]
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
