"""What ART's tokenisation needs of a trajectory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import art
    from openai.types.chat.chat_completion import Choice


def for_tokenisation(group: art.TrajectoryGroup) -> art.TrajectoryGroup:
    """A copy of ``group`` in which each tool call stands once.

    ART 0.5.18 puts an answer's own tokens, and with them its tool calls as they were written, in
    the place of the answer's text, and then has the chat template write the calls once more, but
    for the last answer. Answers with logprobs, which are those that it treats so, give their calls
    away here.
    """
    return group.model_copy(
        update={
            "trajectories": [
                trajectory.model_copy(
                    update={
                        "messages_and_choices": [
                            said if isinstance(said, dict) else _by_tokens(said)
                            for said in trajectory.messages_and_choices
                        ]
                    }
                )
                for trajectory in group
            ]
        }
    )


def _by_tokens(choice: Choice) -> Choice:
    if choice.logprobs is None:
        return choice
    message = choice.message.model_copy(update={"tool_calls": None})
    return choice.model_copy(update={"message": message})


def any_logprobs(groups: list[art.TrajectoryGroup]) -> bool:
    """Whether ART would train on anything: on answers with logprobs it does."""
    return any(
        not isinstance(said, dict) and said.logprobs is not None
        for group in groups
        for trajectory in group
        for said in trajectory.messages_and_choices
    )
