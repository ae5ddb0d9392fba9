"""The scripts, by model name: pure functions of the conversation so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_cwsandbox.problems import Problem
from pytest_cwsandbox.rollouts.scripted import CANNOT
from pytest_cwsandbox.rollouts.scripted.conversation import (
    Answer,
    Conversation,
    Step,
    call,
    refuse,
    say,
)
from pytest_cwsandbox.rollouts.scripted.failure import ApiError
from pytest_cwsandbox.rollouts.scripted.plans import (
    Plan,
    find,
    solution,
    submission,
    trial,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def answer(model: str, conversation: Conversation) -> Answer:
    """What the script of this name says next; raises ``ApiError``."""
    script = SCRIPTS.get(model)
    if script is None:
        raise ApiError(
            404,
            "model_not_found",
            f"The model `{model}` does not exist; the scripts are {', '.join(SCRIPTS)}.",
        )
    return script(conversation)


def solves(conversation: Conversation, before: int = 0) -> Answer:
    """Solve what is asked, looking at what the tools answered; ``before`` calls went otherwise."""
    known = find(conversation.asked)
    if known is None:
        return say(CANNOT)
    plan = solution(known)
    if missing := {step.tool for step in plan.steps} - conversation.tools:
        return say(f"I am a script, and mine needs tools that are not here: {sorted(missing)}")
    done = conversation.observations[before:]
    if len(done) >= len(plan.steps):
        return say(plan.last_words)
    return call(conversation, plan.steps[len(done)], text=_comment(plan, done))


def _comment(plan: Plan, done: list[str]) -> str | None:
    """What there is to say about the last observation, if it is an error that was meant to be."""
    errors = [line for line in done[-1].splitlines() if "Error" in line] if done else []
    if not (plan.stumbles and errors):
        return None
    return f"That failed ({errors[-1].strip()[:200]}). I have found the mistake."


def never_submits(conversation: Conversation) -> Answer:
    """Try something else each turn, and never come to an end."""
    return _run(conversation, f"attempt {len(conversation.observations) + 1}")


def loops(conversation: Conversation) -> Answer:
    """Make the same call each turn."""
    return _run(conversation, "again")


def no_tool(_: Conversation) -> Answer:
    return say("I would write a function that does what is asked, and return its result.")


def says_nothing(_: Conversation) -> Answer:
    """An answer without content and without a call."""
    return say(None)


def parallel(conversation: Conversation) -> Answer:
    """Everything in one turn; of a problem two trials and the submission."""
    known = find(conversation.asked)
    if known is None or conversation.observations:
        return solves(conversation)
    if isinstance(known, Problem):
        return call(conversation, trial(known), trial(known), submission(known))
    return call(conversation, *solution(known).steps)


def same_ids(conversation: Conversation) -> Answer:
    """Two calls of one turn under the same id, then the solution."""
    if conversation.observations:
        return solves(conversation, before=2)
    steps = [_trivial(conversation, text) for text in ("one", "two")]
    return call(conversation, *steps, ids=["call_1", "call_1"])


def bad_json(conversation: Conversation) -> Answer:
    """Arguments that are no JSON, an unknown tool, a missing argument; then the solution."""
    tool = _trivial(conversation, "").tool
    mistakes = (
        Step(tool, '{"code": "print(1)'),
        Step("run_program", {"program": "print(1)"}),
        Step(tool, {}),
    )
    done = len(conversation.observations)
    if done < len(mistakes):
        return call(conversation, mistakes[done])
    known = find(conversation.asked)
    if isinstance(known, Problem) and done == len(mistakes):
        return call(conversation, submission(known))
    return solves(conversation, before=len(mistakes))


def cut_off(conversation: Conversation) -> Answer:
    """The first answer reaches the limit of tokens in the middle of a call; then the solution."""
    if conversation.observations:
        return solves(conversation, before=1)
    tool = _trivial(conversation, "").tool
    return Answer(call(conversation, Step(tool, '{"code": "prin')).message, "length")


def wrong(conversation: Conversation) -> Answer:
    """Submit code that is wrong; of a task, claim that it is done."""
    known = find(conversation.asked)
    if not isinstance(known, Problem) or conversation.observations:
        return say("It is done.")
    code = f'def {known.entry_point}(*args, **kwargs):\n    return "a wrong answer"\n'
    return call(conversation, Step("submit_solution", {"code": code}))


def forgets(conversation: Conversation) -> Answer:
    """Find the solution and forget to submit it; of a task, look around only."""
    if conversation.observations:
        return say("This is how it is done.")
    known = find(conversation.asked)
    step = trial(known) if isinstance(known, Problem) else Step("bash", {"command": "ls"})
    return call(conversation, step)


def refuses(_: Conversation) -> Answer:
    return refuse("I cannot help with that.")


def thinks(conversation: Conversation) -> Answer:
    """Solve, and show the thinking."""
    found = solves(conversation)
    thought = f"{len(conversation.observations)} calls are answered; on with the next."
    return Answer({**found.message, "reasoning_content": thought}, found.finish_reason)


def outgrows(conversation: Conversation) -> Answer:
    """After the first observation the conversation is longer than the context."""
    if conversation.observations:
        raise ApiError(
            400,
            "context_length_exceeded",
            "This model's maximum context length is 4096 tokens, and the messages are longer.",
        )
    return never_submits(conversation)


def fails(conversation: Conversation) -> Answer:
    """After the first observation the server fails."""
    if conversation.observations:
        raise ApiError(500, "server_error", "The server had an error.")
    return never_submits(conversation)


def _run(conversation: Conversation, text: str) -> Answer:
    return call(conversation, _trivial(conversation, text))


def _trivial(conversation: Conversation, text: str) -> Step:
    """A call without consequence."""
    if "bash" in conversation.tools and "execute_code" not in conversation.tools:
        return Step("bash", {"command": f"echo {text}"})
    return Step("execute_code", {"code": f"print({text!r})"})


SCRIPTS: dict[str, Callable[[Conversation], Answer]] = {
    "scripted": solves,
    "scripted-slow": solves,  # the server waits
    "scripted-rate-limited": solves,  # the server refuses at first
    "scripted-thinks": thinks,
    "scripted-parallel": parallel,
    "scripted-same-ids": same_ids,
    "scripted-bad-json": bad_json,
    "scripted-cut-off": cut_off,
    "scripted-wrong": wrong,
    "scripted-forgets": forgets,
    "scripted-never-submits": never_submits,
    "scripted-loops": loops,
    "scripted-no-tool": no_tool,
    "scripted-says-nothing": says_nothing,
    "scripted-refuses": refuses,
    "scripted-outgrows": outgrows,
    "scripted-fails": fails,
}
