"""MBPP by name: downloaded once through ``datasets``, then read from the user's cache."""

from __future__ import annotations

import json
import os
from hashlib import sha256
from typing import TYPE_CHECKING

from pytest_cwsandbox.errors import UserError

if TYPE_CHECKING:
    from pathlib import Path

DATASET = "google-research-datasets/mbpp"
REVISION = "4bb6404fdc6cacfda99d4ac4205087b89d32030c"
CONFIGS = {"mbpp": "full", "mbpp-sanitized": "sanitized"}
FILES = {"mbpp": "mbpp.jsonl", "mbpp-sanitized": "sanitized-mbpp.json"}
HOME = "https://github.com/google-research/google-research/tree/master/mbpp"


def cached(source: str) -> Path:
    """The materialized file; raises ``UserError`` when it is not there or damaged."""
    path = _find(source)
    if path is None:
        raise UserError(
            f"--cwsandbox-problems={source}: not in the cache {_directory()}; {_remedy(source)}"
        )
    return path


def materialize(source: str) -> Path:
    """The cached file, downloaded first when it is not there or damaged.

    Only the controller of a run calls this: ``datasets`` takes seconds to import. Processes that
    call it at once download once.
    """
    path = _find(source)
    if path is not None:  # also where the cache is read-only
        return path
    from filelock import FileLock

    directory = _directory()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with FileLock(directory / f"{source}.lock"):
            return _find(source) or _store(source, _download(source))
    except OSError as error:
        raise UserError(
            f"--cwsandbox-problems={source}: cannot write the cache {directory}: {error.strerror};"
            f" set XDG_CACHE_HOME to a writable directory, or {_remedy(source)}"
        ) from error


def _download(source: str) -> bytes:
    try:
        import datasets

        splits = datasets.load_dataset(DATASET, CONFIGS[source], revision=REVISION)
        rows = [{**row, "split": split} for split, table in splits.items() for row in table]
    except Exception as error:  # the library raises everything from OSError to httpx's own tree
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"--cwsandbox-problems={source}: cannot download {DATASET} ({reason[:200]});"
            f" {_remedy(source)}"
        ) from error
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _store(source: str, content: bytes) -> Path:
    path = _directory() / _name(source, sha256(content).hexdigest())
    draft = path.with_suffix(".draft")
    with draft.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return path


def _find(source: str) -> Path | None:
    """The cached file whose content is what its name says."""
    for path in sorted(_directory().glob(_name(source, "*"))):
        if path.name == _name(source, sha256(path.read_bytes()).hexdigest()):
            return path
    return None


def _name(source: str, digest: str) -> str:
    return f"{source}-{REVISION[:12]}-{digest}.jsonl"


def _directory() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("pytest-cwsandbox", appauthor=False)


def _remedy(source: str) -> str:
    return f"download {FILES[source]} from {HOME} and pass its path"
