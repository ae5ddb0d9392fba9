"""What a training run needs, asked for before any work: packages, keys, a GPU."""

from __future__ import annotations

import os
from importlib.util import find_spec

from pytest_cwsandbox.errors import UserError
from pytest_cwsandbox.rollouts import scripted

EXTRA = "pip install 'pytest-cwsandbox[art]'"
# What ART imports for its backends; the rest of its extras comes with these.
PACKAGES = {
    "local": ("torch", "transformers", "peft", "unsloth", "wandb"),
    "tinker": ("torch", "transformers", "tinker", "tinker_cookbook", "wandb"),
}


def prepare_environment() -> None:
    """Import ART, which reads ``.env``, and give the keys the names under which they are read."""
    if find_spec("art") is None:
        raise UserError(f"ART is not installed: {EXTRA}")
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # prices need no network
    import art  # noqa: F401 - for what its import does

    for known, read in (
        ("FORGE_API_KEY", "WANDB_API_KEY"),
        ("ART_TINKER_API_KEY", "TINKER_API_KEY"),
    ):
        if os.environ.get(known) and not os.environ.get(read):
            os.environ[read] = os.environ[known]


def check_training(backend: str, *, model: str | None, base_url: str) -> None:
    """Raise one ``UserError`` that names all that is missing.

    ``model`` is the one that answers in place of the trained one, None on-policy.
    """
    missing = []
    if absent := [name for name in PACKAGES[backend] if find_spec(name) is None]:
        extra = {"local": "backend", "tinker": "tinker"}[backend]
        missing.append(
            f"{', '.join(absent)} (pip install 'openpipe-art[{extra}]' wandb, in an environment of "
            "its own: it pins torch and transformers)"
        )
    elif backend == "local" and not _has_gpu():
        missing.append("a CUDA GPU (or take --backend tinker)")
    if backend == "tinker" and not os.environ.get("TINKER_API_KEY"):
        missing.append("ART_TINKER_API_KEY or TINKER_API_KEY")
    asks_openai = model is not None and not scripted.is_scripted(model)
    elsewhere = base_url or os.environ.get("OPENAI_BASE_URL")
    if asks_openai and not elsewhere and not os.environ.get("OPENAI_API_KEY"):
        missing.append(f"OPENAI_API_KEY for {model} (or give --base-url, or --on-policy)")
    if missing:
        raise UserError(f"missing for --backend {backend}: {'; '.join(missing)}")


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())
