from __future__ import annotations

from pytest_cwsandbox.trainers.art.command import main

main(prog_name="python -m pytest_cwsandbox.trainers.art")
