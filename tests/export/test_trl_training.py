"""The trl files through the dataset preparation of TRL's own trainers, with a tiny model."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

trl = pytest.importorskip("trl", reason="needs trl and torch, which have their own environment")

from pytest_cwsandbox.export import export_run  # noqa: E402 - after the import that may skip
from tests.export.trajectories import mixed_run  # noqa: E402 - likewise

if TYPE_CHECKING:
    from pathlib import Path

TEMPLATE = """\
{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}
{%- for message in messages %}<{{ message.role }}>
{%- if message.role == 'assistant' %}{% generation %}{{ message.content }}
{%- if 'tool_calls' in message %}{% for call in message.tool_calls | list -%}
<call>{{ call.function.name }}
{%- if call.function.arguments is mapping %}{% for name, value in call.function.arguments.items() %}
{{- '(' + name + '=' + value + ')' }}{% endfor %}
{%- else %}{{ '!' + call.function.arguments }}{% endif %}</call>{% endfor %}{% endif %}<end>
{%- endgeneration %}{% else %}{{ message.content }}<end>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<assistant>{% endif %}"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A tokenizer of bytes, made here, with a strict template: no filler field may reach it."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: number for number, token in enumerate([*alphabet, "<end>", "<pad>"])}
    bytes_alone = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    special = {"eos_token": "<end>", "pad_token": "<pad>"}
    made = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, **special)
    made.chat_template = TEMPLATE
    return made


@pytest.fixture
def model(tokenizer: Any) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
        )
    )


def exported(folder: Path, to: str, suffix: str) -> Any:
    import datasets

    file = folder / f"out{suffix}"
    export_run(str(mixed_run(folder)), to, file, warn=pytest.fail)
    kind = "parquet" if suffix == ".parquet" else "json"
    return datasets.load_dataset(
        kind, data_files=str(file), split="train", cache_dir=str(folder / "cache")
    )


def settings(folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder / "trained"),
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "max_length": None,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
    }


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_sft_prepares_and_takes_a_step(
    tmp_path: Path, tokenizer: Any, model: Any, suffix: str
) -> None:
    data = exported(tmp_path, "trl", suffix)
    trainer = trl.SFTTrainer(
        model=model,
        args=trl.SFTConfig(**settings(tmp_path)),
        train_dataset=data,
        processing_class=tokenizer,
    )
    prepared = trainer.train_dataset
    assert len(prepared) == 5
    row = prepared[0]
    learned = tokenizer.decode(
        [token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label >= 0]
    )
    # From the model's first word to its last; the tool results between are TRL's choice.
    assert learned.startswith(
        "<call>execute_code(code=print('ü'))</call><call>write_file(path=a.py)"
    )
    assert learned.endswith("<call>submit</call><end>")
    assert '<call>execute_code!{"code": "unfinished</call>' in learned
    asked = tokenizer.decode(row["input_ids"])
    assert asked.startswith('<tools>{"type": "function"')
    trainer.train()


def test_dpo_prepares_and_takes_a_step(tmp_path: Path, tokenizer: Any, model: Any) -> None:
    trainer = trl.DPOTrainer(
        model=model,
        ref_model=copy.deepcopy(model),
        args=trl.DPOConfig(**settings(tmp_path)),
        train_dataset=exported(tmp_path, "trl-preference", ".parquet"),
        processing_class=tokenizer,
    )
    assert len(trainer.train_dataset) == 2
    trainer.train()
