"""``python -m pytest_cwsandbox.local``: the embedded runner, a process of its own."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from pytest_cwsandbox.errors import BackendError
from pytest_cwsandbox.local import keeper
from pytest_cwsandbox.local.faults import Faults, read_faults


def main() -> int:
    options = _arguments()
    try:
        faults = read_faults(options.fault)
    except BackendError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    options.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    keeping = keeper.start(options.state_dir, options.rendezvous)
    try:
        lifeline = options.lifeline_fd
        if lifeline is not None:
            os.set_inheritable(lifeline, False)  # sandboxes need not know of it
        elif options.lifeline is not None:
            lifeline = _hold(options.lifeline)
            if lifeline is None:
                return 0
        from pytest_cwsandbox.local import server

        server.run(
            options.state_dir,
            announce=lambda text: keeper.announce(keeping, text),
            lifeline=lifeline,
            max_lifetime=options.max_lifetime,
            faults=Faults(faults, seed=options.fault_seed) if faults else None,
        )
    except BackendError as error:
        sys.stderr.write(f"error: {error}\n")
        return 3
    finally:
        keeper.finish(keeping)
    return 0


def _hold(fifo: Path) -> int | None:
    """The reading end of the lifeline; None when its holder is gone already."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)  # blocking, it would wait for a holder
    try:
        os.read(descriptor, 1)
    except BlockingIOError:
        return descriptor
    return None


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m pytest_cwsandbox.local", description=__doc__)
    parser.add_argument("--state-dir", type=Path, required=True, help="removed at the end")
    parser.add_argument("--rendezvous", type=Path, help="file that says where and how to connect")
    parser.add_argument("--lifeline", type=Path, help="FIFO; the runner ends when its writer does")
    parser.add_argument("--lifeline-fd", type=int, help="the same, inherited; or a pidfd")
    parser.add_argument("--max-lifetime", type=float, help="seconds that any sandbox may live")
    parser.add_argument("--fault", action="append", default=[], help="KIND[=NUMBER][@SHARE]")
    parser.add_argument("--fault-seed", type=int, default=0, help="which calls a share means")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
