"""Rollouts on ART's way from groups to tokens, with ART's own code and a tokenizer made here."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import pytest

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # art's import asks the network else
REASON = (
    "needs openpipe-art, torch, transformers and pillow, which have an environment of their own"
)
art = pytest.importorskip("art", reason=REASON)
for name in ("torch", "transformers", "PIL"):
    pytest.importorskip(name, reason=REASON)

from openai import AsyncOpenAI  # noqa: E402 - after the imports that may skip

from pytest_cwsandbox.backend import BackendOptions  # noqa: E402 - likewise
from pytest_cwsandbox.problems import load  # noqa: E402 - likewise
from pytest_cwsandbox.rollouts import scripted  # noqa: E402 - likewise
from pytest_cwsandbox.trainers.art import (  # noqa: E402 - likewise
    on_policy,
    open_environment,
    rollout,
)
from pytest_cwsandbox.trainers.art.tokens import for_tokenisation  # noqa: E402 - likewise
from tests.trainers.art_models import Model  # noqa: E402 - likewise

if TYPE_CHECKING:
    from pathlib import Path

TOOLS = ("execute_code", "submit_solution")
TEMPLATE = """\
{%- if tools %}<tools>{% for tool in tools %}{{ tool | tojson }}{% endfor %}</tools>{% endif %}
{%- for message in messages %}<{{ message.role }}>{{ message.content }}
{%- if message.tool_calls %}{% for call in message.tool_calls -%}
<call>{{ call.function.name }}{{ call.function.arguments }}</call>{% endfor %}{% endif %}<end>
{%- endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"""


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    """A tokenizer of bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    # Some to spare: ART marks what it trains with a token that the text does not hold.
    spare = [f"<spare{number}>" for number in range(4)]
    tokens = [*alphabet, "<end>", "<pad>", *spare]
    bytes_alone = Tokenizer(
        models.BPE(vocab={token: number for number, token in enumerate(tokens)}, merges=[])
    )
    bytes_alone.add_special_tokens(["<end>", "<pad>", *spare])
    bytes_alone.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bytes_alone.decoder = decoders.ByteLevel()
    special = {"eos_token": "<end>", "pad_token": "<pad>"}
    made = PreTrainedTokenizerFast(tokenizer_object=bytes_alone, **special)
    made.chat_template = TEMPLATE
    return made


async def groups_of(folder: Path) -> list[Any]:
    """A group of a right and a wrong trajectory, on-policy."""
    server = scripted.join_or_start(folder, lifeline=os.getpid())
    try:
        client = AsyncOpenAI(base_url=server.address, api_key=server.token)
        [problem] = load("bundled", limit=1)
        async with open_environment(backend=BackendOptions("local")) as (environment, _):
            return [
                art.TrajectoryGroup(
                    [
                        await rollout(
                            Model(),
                            problem,
                            environment=environment,
                            policy=on_policy(Model(client, name)),
                        )
                        for name in ("scripted", "scripted-wrong")
                    ]
                )
            ]
    finally:
        scripted.stop(folder)


async def test_right_and_wrong_become_tokens_with_opposite_advantages(
    tmp_path: Path, tokenizer: Any
) -> None:
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    groups = [for_tokenisation(group) for group in await groups_of(tmp_path)]
    results = list(
        tokenize_trajectory_groups(
            tokenizer, groups, allow_training_without_logprobs=False, scale_rewards=True
        )
    )
    assert len(results) == 2
    for result in results:
        assert math.copysign(1.0, result.trajectory.reward - 0.5) == math.copysign(
            1.0, result.advantage
        )
        said = [
            choice.logprobs.content
            for choice in result.trajectory.messages_and_choices
            if not isinstance(choice, dict)
        ]
        assert sum(result.assistant_mask) == sum(map(len, said))
        learned = [
            logprob
            for logprob, mask in zip(result.logprobs, result.assistant_mask, strict=True)
            if mask
        ]
        assert all(math.isfinite(logprob) for logprob in learned)
        assert json.dumps(result.trajectory.tools[0])[2:20] in result.chat


async def test_every_tool_call_is_learned_from_once(tmp_path: Path, tokenizer: Any) -> None:
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    groups = await groups_of(tmp_path)
    for trajectory in groups[0]:
        written_by(tokenizer, trajectory)

    def calls(groups: list[Any]) -> list[list[int]]:
        results = tokenize_trajectory_groups(
            tokenizer,
            groups,
            allow_training_without_logprobs=False,
            scale_rewards=True,
            shuffle_group_trajectories=False,
        )
        texts = [tokenizer.decode(result.token_ids) for result in results]
        return [[text.count(f'{tool}{{"code"') for tool in TOOLS] for text in texts]

    # A newer ART that needs no help would show here.
    assert calls(groups) == [[2, 1], [0, 1]]
    assert calls([for_tokenisation(group) for group in groups]) == [[1, 1], [0, 1]]
    assert groups[0].trajectories[0].messages_and_choices[2].message.tool_calls, (
        "what is logged keeps its calls"
    )


def written_by(tokenizer: Any, trajectory: Any) -> None:
    """Give the answers the tokens of this tokenizer, as ART's own servers do: by number."""
    for said in trajectory.messages_and_choices:
        if not isinstance(said, dict):
            first, text = said.logprobs.content[0], "".join(t.token for t in said.logprobs.content)
            said.logprobs.content = [
                first.model_copy(update={"token": f"token_id:{number}"})
                for number in tokenizer.encode(text, add_special_tokens=False)
            ]


async def test_trained_tokens_are_packed_into_tensors(tmp_path: Path, tokenizer: Any) -> None:
    from art.preprocessing.pack import packed_tensors_from_tokenized_results
    from art.preprocessing.tokenize import tokenize_trajectory_groups

    groups = [for_tokenisation(group) for group in await groups_of(tmp_path)]
    results = list(
        tokenize_trajectory_groups(
            tokenizer, groups, allow_training_without_logprobs=False, scale_rewards=True
        )
    )
    packed = packed_tensors_from_tokenized_results(
        results, 32_768, pad_token_id=tokenizer.pad_token_id
    )
    assert packed["assistant_mask"].sum().item() > 0
    trained = packed["assistant_mask"].bool()
    assert packed["advantages"][trained].isfinite().all()
    assert {weight > 0 for weight in packed["weights"][trained].tolist()} == {True}
