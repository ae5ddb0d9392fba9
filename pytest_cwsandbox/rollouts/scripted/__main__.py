"""``python -m pytest_cwsandbox.rollouts.scripted``: the scripted model, a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from pathlib import Path

from pytest_cwsandbox.rollouts.scripted.server import serve


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pytest_cwsandbox.rollouts.scripted", description=__doc__
    )
    parser.add_argument(
        "--rendezvous", type=Path, required=True, help="file that says where and how to connect"
    )
    parser.add_argument(
        "--lifeline-fd", type=int, required=True, help="pidfd of the process to end with"
    )
    parser.add_argument("--latency", type=float, default=0.0, help="seconds before each answer")
    options = parser.parse_args()
    try:
        asyncio.run(serve(options.rendezvous, options.lifeline_fd, options.latency))
    except OSError as error:
        sys.stderr.write(f"error: the scripted model cannot serve: {error}\n")
        return 3
    finally:
        _clear(options.rendezvous)
    return 0


def _clear(rendezvous: Path) -> None:
    rendezvous.unlink(missing_ok=True)
    # The lock is of those who wanted it at the same time; the folder, if only for this.
    rendezvous.with_suffix(".lock").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        rendezvous.parent.rmdir()


if __name__ == "__main__":
    sys.exit(main())
