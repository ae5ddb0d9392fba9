"""What the host lacks is one usage error with the remedy, before any test runs."""

from __future__ import annotations

from pathlib import Path

import pytest

# A bwrap that answers as a real one does on a host that restricts user namespaces.
RESTRICTED = """\
#!/bin/sh
[ "$1" = --version ] && { echo bubblewrap 0.11.0; exit 0; }
echo "bwrap: setting up uid map: Permission denied" >&2
exit 1
"""


@pytest.fixture
def restricted(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host without user namespaces for ordinary processes."""
    if Path("/usr/bin/bwrap").exists():
        pytest.skip("the system's bwrap comes first, and cannot be replaced here")
    folder = pytester.mkdir("bin")
    folder.chmod(0o755)
    program = folder / "bwrap"
    program.write_text(RESTRICTED)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


@pytest.mark.usefixtures("restricted")
@pytest.mark.parametrize("args", [("-n0",), ("-n2",), ("-p", "no:xdist")])
def test_no_user_namespaces_is_a_usage_error_with_the_remedy(
    pytester: pytest.Pytester, args: tuple[str, ...]
) -> None:
    pytester.makepyfile("def test_never_runs(): raise SystemExit(9)")
    result = pytester.runpytest_subprocess("--cwsandbox-backend=local", *args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*cannot run here: user namespaces: *Permission denied*apt install bubblewrap*=hosted*"]
    )
    result.stderr.no_fnmatch_line("*Traceback*")


@pytest.mark.usefixtures("restricted")
def test_without_options_it_shows_at_first_need_in_one_line(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_needs_nothing(): pass

        def test_needs_a_sandbox(sandbox): pass
        """
    )
    result = pytester.runpytest_subprocess("-n1")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*cwsandbox: user namespaces: *Permission denied*"])
    result.stdout.no_fnmatch_line("*Traceback*")
