"""What ``doctor`` and the plugin say about a host, and what helps."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from pytest_cwsandbox.local import bwrap, host

if TYPE_CHECKING:
    from pathlib import Path


def test_this_host_passes_every_check() -> None:
    assert [check for check in host.checks() if not check.ok] == []


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("setting up uid map: Permission denied", "bwrap-userns-restrict"),
        ("loopback: Failed RTM_NEWADDR: Operation not permitted", "bwrap-userns-restrict"),
        ("No permissions to create new namespace, likely because ...", "seccomp=unconfined"),
        ("Creating new namespace failed: No space left on device", "max_user_namespaces"),
        ("Can't mount proc on /newroot/proc: Operation not permitted", "systempaths=unconfined"),
        ("something new", "unprivileged users"),
    ],
)
def test_what_bwrap_says_is_met_with_a_remedy(
    said: str, remedy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_bwrap(
        tmp_path, monkeypatch, version="bubblewrap 0.9.0", then=f'echo "bwrap: {said}" >&2; exit 1'
    )
    found = host.checks()[-1]
    assert (found.name, found.ok) == ("user namespaces", False)
    assert said in found.detail
    assert remedy in found.remedy


def test_no_bwrap_is_met_with_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap, "_candidates", lambda _: iter(()))
    found = host.checks()[-1]
    assert (found.name, found.ok) == ("bubblewrap", False)
    assert "apt install bubblewrap" in found.remedy


def test_a_bwrap_that_is_too_old_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fake_bwrap(tmp_path, monkeypatch, version="bubblewrap 0.6.1", then="exit 0")
    assert not host.checks()[-1].ok


def test_another_architecture_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    (failed,) = [check for check in host.checks() if not check.ok]
    assert "riscv64" in failed.detail
    assert "x86_64 or aarch64" in failed.remedy


def test_another_system_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    (failed,) = host.checks()
    assert (failed.name, failed.ok) == ("Linux", False)


def test_checks_load_neither_grpc_nor_the_sdk() -> None:
    program = (
        "import sys; from pytest_cwsandbox.local import host; host.checks(); "
        "sys.exit(any(name in sys.modules for name in ('grpc', 'cwsandbox', 'google.protobuf')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def _fake_bwrap(folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str, then: str) -> None:
    program = folder / "bwrap"
    program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version}" && exit\n{then}\n')
    program.chmod(0o755)
    monkeypatch.setattr(bwrap, "_candidates", lambda _: iter((program,)))
