"""Tests of runs run pytest as those of the plugin do."""

from __future__ import annotations

from tests.plugin.conftest import _no_account, run  # noqa: F401 - fixtures
