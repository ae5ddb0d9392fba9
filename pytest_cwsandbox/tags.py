"""Tags: how the sandboxes of a training run, a test run or a worker are found again."""

from __future__ import annotations

import hashlib
import os
import re

TEST_ANNOTATION = "pytest-test-id"  # of a sandbox: a node id is no label, it is too long for one
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LABEL_LENGTH = 63  # Kubernetes: letters, digits and -_. inside, a letter or digit at both ends


def label_safe(value: str) -> str:
    """Make a tag's value safe as a Kubernetes label value.

    Letters, digits and ``-_.`` stay; everything else becomes ``-``; at most 63 characters, with a
    letter or digit at both ends. A value that had to change carries a short hash of the original,
    so that different values stay different: ``Qwen/Qwen3-8B`` becomes ``Qwen-Qwen3-8B-a82fd547``.
    """
    safe = _UNSAFE.sub("-", value).strip("-_.")
    if safe == value and len(safe) <= _LABEL_LENGTH and safe:
        return safe
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    kept = safe[: _LABEL_LENGTH - len(digest) - 1].rstrip("-_.")
    return f"{kept}-{digest}" if kept else digest


def tag(text: str) -> str:
    """A tag as the service takes it: ``name:value``, both label-safe, or one safe word."""
    name, colon, value = text.partition(":")
    return f"{label_safe(name)}:{label_safe(value)}" if colon else label_safe(text)


def run_tag(run: str) -> str:
    """The tag that every sandbox of one test run carries."""
    return tag(f"pytest-run:{run}")


def worker_tag(worker: str) -> str:
    """The tag that every sandbox of one worker process carries."""
    return tag(f"pytest-worker:{worker}")


def sandbox_tags(
    *, run: str, worker: str, model: str = "", extra: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """The tags of every sandbox, by the table of CoreWeave's guide plus this plugin's own."""
    environ = os.environ
    tags = [
        tag(f"training-run:{environ.get('TRAINING_RUN_ID') or run}"),
        tag(f"slurm-job:{environ.get('SLURM_JOB_ID') or 'interactive'}"),
        tag(f"env:{environ.get('CWSANDBOX_ENV') or 'dev'}"),
        run_tag(run),
        worker_tag(worker),
        "rl-training",
    ]
    if model:
        tags.append(tag(f"model:{model}"))
    tags += [tag(text) for text in extra]
    return tuple(dict.fromkeys(tags))
