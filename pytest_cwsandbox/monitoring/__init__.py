"""Metrics of training steps, sandboxes by tag: what to watch while a job runs."""

from __future__ import annotations

from pytest_cwsandbox.monitoring.sandboxes import count_active_sandboxes
from pytest_cwsandbox.monitoring.step import log_step, step_metrics
from pytest_cwsandbox.telemetry import training_step

__all__ = ["count_active_sandboxes", "log_step", "step_metrics", "training_step"]
