"""A language model of a few words, made here: each of its words is a whole answer.

Random weights choose among them about evenly, so that a training step sees right and wrong answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CHAT = (
    "{%- for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{%- if add_generation_prompt %}assistant:{% endif %}"
)


def tokenizer(words: Sequence[str], template: str = CHAT, end: str = "<end>") -> Any:
    """Every other word is unknown to it, and tells the model nothing."""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    unknown, pad = "<unknown>", "<pad>"
    known = Tokenizer(models.WordLevel({unknown: 0, end: 1, pad: 2}, unk_token=unknown))
    known.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made = PreTrainedTokenizerFast(
        tokenizer_object=known, unk_token=unknown, eos_token=end, pad_token=pad
    )
    made.add_tokens([AddedToken(word, normalized=False) for word in words])
    made.chat_template = template
    return made


def model(words: Any) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed

    set_seed(1)
    made = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(words),
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=8,
        )
    )
    # Only answers: nothing else may come of a short completion.
    made.generation_config.suppress_tokens = [0, 1, 2]
    return made


def save(folder: Path, words: Sequence[str]) -> Path:
    """As `--model` takes it."""
    made = tokenizer(words)
    made.save_pretrained(folder)
    model(made).save_pretrained(folder)
    return folder


def config(folder: Path, **settings: Any) -> Any:
    """Four completions of one prompt per step, of one word each."""
    import trl

    given = {
        "output_dir": str(folder),
        "max_steps": 3,
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_completion_length": 1,
        "logging_steps": 1,
        "log_completions": True,
        "learning_rate": 1e-3,
        "report_to": "none",
        "save_strategy": "no",
        "use_cpu": True,
        "bf16": False,
    }
    return trl.GRPOConfig(**{**given, **settings})
