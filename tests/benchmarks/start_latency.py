"""How much of the time that sandboxes take to start do tests wait for it?

    python -m tests.benchmarks.start_latency [--tests 50] [--seconds 3] [--latency 3]

Sequential tests that each use a sandbox of their own for some seconds, on a local runner whose
sandboxes take as long again to start. Without starting ahead that is twice the time of the tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TESTS = """
import time
import pytest

@pytest.mark.parametrize("number", range({tests}))
def test_works(number, sandbox):
    began = time.monotonic()
    assert sandbox.exec(["true"]).result().returncode == 0
    time.sleep(max(0, {seconds} - (time.monotonic() - began)))
"""
MOST = 1.1  # times the tests' own seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--latency", type=float, default=1.5)
    options = parser.parse_args()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("CWSANDBOX_", "PYTEST_"))
    }
    with tempfile.TemporaryDirectory() as folder:
        text = TESTS.format(tests=options.tests, seconds=options.seconds)
        Path(folder, "test_latency.py").write_text(text)
        started = time.monotonic()
        subprocess.run(
            [
                *(sys.executable, "-m", "pytest_cwsandbox", "serve"),
                *(f"--fault=create-latency={options.latency}", "--"),
                *(sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider"),
            ],
            cwd=folder,
            env=environment,
            check=True,
        )
        took = time.monotonic() - started
    ideal = options.tests * options.seconds
    print(  # noqa: T201 - a benchmark's output
        f"{options.tests} tests of {options.seconds:g} s, sandboxes that start in "
        f"{options.latency:g} s: {took:.1f} s, {took / ideal:.3f} times "
        f"the {ideal:g} s of the tests (at most {MOST})"
    )
    return int(took > MOST * ideal)


if __name__ == "__main__":
    sys.exit(main())
