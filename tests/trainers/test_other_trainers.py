"""verl and OpenRLHF, called as they call: by keyword, one sample at a time, from threads."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from pytest_cwsandbox.errors import ConfigurationError, InfrastructureError
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.rewards import CodeReward
from pytest_cwsandbox.trainers import openrlhf, verl
from pytest_cwsandbox.trainers.end_tokens import without_end_tokens

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_cwsandbox.outcome import Outcome

[PROBLEM] = load("bundled", limit=1)
ROW = PROBLEM.to_json()
RIGHT = f"```python\n{PROBLEM.reference_solution}\n```"
WRONG = f"```python\ndef {PROBLEM.entry_point}(*arguments):\n    return None\n```"


def loaded_by_path(module: ModuleType) -> Any:
    """The module as both trainers load a file that is named to them."""
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location("custom_module", module.__file__)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sandboxes that fail after every retry."""
    reward = CodeReward(on_infrastructure="raise")

    def outcomes(*_: object, **__: object) -> list[Outcome]:
        raise InfrastructureError("the service is away")

    monkeypatch.setattr(reward, "outcomes", outcomes)
    for module in (verl, openrlhf):
        monkeypatch.setattr(module, "_reward", reward)


async def test_verl_awaits_scores_from_its_threads() -> None:
    compute_score = loaded_by_path(verl).compute_score
    loop = asyncio.get_running_loop()

    def called(said: str) -> float:
        score: float = compute_score(
            data_source="mbpp",
            solution_str=said,
            ground_truth=json.dumps(ROW),
            extra_info={"index": 0, "num_turns": 2, "rollout_reward_scores": {}},
        )
        return score

    with ThreadPoolExecutor() as threads:
        scores = await asyncio.gather(
            *(
                loop.run_in_executor(threads, called, said)
                for said in (RIGHT, WRONG, "I do not know.")
            )
        )
    assert scores == [1.0, 0.0, 0.0]
    assert {type(score) for score in scores} == {float}


@pytest.mark.parametrize(
    "truth",
    [ROW, list(PROBLEM.test_list), PROBLEM.test_list, json.dumps(list(PROBLEM.test_list))],
    ids=["row", "asserts", "tuple of asserts", "JSON of asserts"],
)
def test_verl_takes_a_ground_truth_in_every_form(truth: object) -> None:
    assert verl.compute_score("mbpp", RIGHT, truth) == 1.0


def test_verl_takes_the_arrays_of_a_parquet_file() -> None:
    numpy = pytest.importorskip("numpy")
    row = {**ROW, "test_list": numpy.array(PROBLEM.test_list, dtype=object)}
    assert verl.compute_score("mbpp", RIGHT, row) == 1.0
    assert verl.compute_score("mbpp", RIGHT, numpy.array(PROBLEM.test_list, dtype=object)) == 1.0


@pytest.mark.parametrize("truth", ["42", "assert f() == 1", None, {}, {"test_list": None}])
def test_a_ground_truth_without_tests_is_refused(truth: object) -> None:
    with pytest.raises(ConfigurationError, match="ground truth must be"):
        verl.compute_score("mbpp", RIGHT, truth)


@pytest.mark.usefixtures("broken")
def test_an_infrastructure_failure_is_raised_and_never_a_number() -> None:
    with pytest.raises(InfrastructureError):
        verl.compute_score("mbpp", RIGHT, ROW)
    with pytest.raises(InfrastructureError):
        openrlhf.scores(["Solve it." + RIGHT], ["Solve it."], [ROW])


def test_openrlhf_gets_the_tensors_that_it_stores() -> None:
    torch = pytest.importorskip("torch", reason="needs torch, as OpenRLHF does")
    reward_func = loaded_by_path(openrlhf).reward_func
    prompt = "<|im_start|>user\nSolve it.<|im_end|>\n<|im_start|>assistant\n"
    for said, expected in ((RIGHT, 1.0), (WRONG, 0.0)):
        found = reward_func([f"{prompt}{said}<|im_end|>"], [prompt], [json.dumps(ROW)])
        assert set(found) == {"rewards", "scores", "extra_logs"}
        assert found["rewards"].tolist() == found["scores"].tolist() == [expected]
        for value in found["extra_logs"].values():
            assert value.flatten()[0].item() == expected
        assert torch.tensor([found["rewards"]]).shape == (1,)  # as its experiences hold it


def test_openrlhf_grades_the_answer_and_not_the_prompt() -> None:
    prompt = f"<s>Here is one that is right:\n{RIGHT}\nWrite another.\n"
    queries = [prompt + "I cannot.</s>", prompt + PROBLEM.reference_solution + "</s><pad><pad>"]
    assert openrlhf.scores(queries, [prompt.removeprefix("<s>")] * 2, [ROW, ROW]) == [0.0, 1.0]


def test_openrlhf_refuses_a_query_that_lost_its_prompt() -> None:
    with pytest.raises(ConfigurationError, match="truncated"):
        openrlhf.scores(["answer"], ["a long prompt"], [ROW])


def test_openrlhf_takes_a_query_whose_prompt_is_empty() -> None:
    assert openrlhf.scores([RIGHT], [""], [ROW]) == [1.0]


ENDS = {
    "ChatML": "<|im_end|>\n",
    "GPT": "<|endoftext|><|endoftext|>",
    "Llama 2": "</s><unk><unk>",
    "Llama 3": "<|eot_id|><|end_of_text|>",
    "Mistral": " [/INST]</s>[PAD][PAD]",
    "padded": "[PAD][PAD]",
    "DeepSeek": "<\uff5cend\u2581of\u2581sentence\uff5c><\uff5c\u2581pad\u2581\uff5c>",
    "old DeepSeek": "<|EOT|>",
    "Gemma": "<end_of_turn>\n<eos><pad>",
    "Gemma 4": "<turn|>",
    "CodeLlama": " <EOT>",
    "OpenChat": "<|end_of_turn|>",
    "InternLM": "<end_of_sentence>",
    "BERT": "[SEP]",
    "MiniMax": "[e~[",
    "Seed": "<seed:eos>",
}


@pytest.mark.parametrize("tokens", ENDS.values(), ids=ENDS)
def test_a_right_answer_is_right_whatever_the_tokenizer_ends_it_with(tokens: str) -> None:
    for answer in (RIGHT, PROBLEM.reference_solution, f"<answer>{RIGHT}</answer>"):
        assert without_end_tokens(answer + tokens) == answer.rstrip()
    said = [PROBLEM.reference_solution + tokens, RIGHT + tokens]
    assert openrlhf.scores([f"Solve it.{each}" for each in said], ["Solve it."] * 2, [ROW] * 2) == [
        1.0,
        1.0,
    ]
    assert verl.compute_score("mbpp", said[0], ROW) == 1.0


@pytest.mark.parametrize(
    "code",
    [
        "PAD = 0\ndef last(ids): return ids[PAD]",
        "PAD = 0\ndef last(ids): return ids[PAD][PAD]",
        "def last(ids, cls): return ids[cls]",
        "def last(ids): return ids[-1] | {1}",
        "def last(ids): return ids < '</s>'",
        "<think>def last(ids): pass</think>",
        "<answer>def last(ids): pass</answer>",
        "",
    ],
)
def test_code_is_not_taken_for_the_tokens_after_it(code: str) -> None:
    assert without_end_tokens(code) == code
    assert without_end_tokens(f"{code}</s>[PAD]") == code
    assert without_end_tokens(f"```\n{code}\n```[PAD]") == f"```\n{code}\n```"
