"""TRL's GRPO: ``python -m pytest_cwsandbox.trainers.trl``, and an environment for agents.

Importing this room imports neither trl nor torch.
"""

from __future__ import annotations

from pytest_cwsandbox.trainers.trl.environment import CodeEnvironment

__all__ = ["CodeEnvironment"]
