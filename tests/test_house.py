"""The house: what imports what, and what the plugin costs every pytest run."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


HEAVY = ("cwsandbox", "grpc", "openai", "datasets", "scipy", "rich", "click", "filelock")


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    code = f"""
import sys
import pytest_cwsandbox.plugin
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert printed.strip() == "[]"


def test_a_run_that_uses_nothing_of_ours_loads_nothing_heavy(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        f"""
        import sys

        def test_nothing_heavy():
            assert [name for name in {HEAVY!r} if name in sys.modules] == []
        """
    )
    pytester.runpytest_subprocess("-p", "no:asyncio").assert_outcomes(passed=1)


def test_a_call_of_rollout_may_set_whatever_its_options_know() -> None:
    from pytest_cwsandbox.rollout_fixture import Changes
    from pytest_cwsandbox.rollouts import ModelOptions, RolloutOptions

    known = {field.name for kind in (ModelOptions, RolloutOptions) for field in fields(kind)}
    assert Changes.__annotations__.keys() == known
