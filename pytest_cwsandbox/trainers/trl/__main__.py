from __future__ import annotations

from pytest_cwsandbox.trainers.trl.command import main

main(prog_name="python -m pytest_cwsandbox.trainers.trl")
