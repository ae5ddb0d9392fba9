"""The checks: what each asks of a reward function, and what it concludes.

Every check calls the function in its child process and returns a ``Finding``; none raises for what
the function does.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

from pytest_cwsandbox.findings import Exploit, Finding, Status
from pytest_cwsandbox.runs.statistics import quantile
from pytest_cwsandbox.validation.calling import Call, Case
from pytest_cwsandbox.validation.execute import reference_answers
from pytest_cwsandbox.validation.inputs import checkable, generate, held_out_asserts
from pytest_cwsandbox.validation.lookup import lookup_table
from pytest_cwsandbox.validation.mutants import confirmed_wrong, mutants
from pytest_cwsandbox.validation.wrappings import WRAPPINGS, Wrap, answer, message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cwsandbox import Session

    from pytest_cwsandbox.problems import Problem
    from pytest_cwsandbox.validation.attacks import Attack
    from pytest_cwsandbox.validation.calling import RewardProcess
    from pytest_cwsandbox.validation.formats import Format

KILL_RATE = 0.95  # of confirmed mutants, at least
SHOWN = 300  # characters of a completion that a report shows
BATCHES = (1, 8, 64)
TRAINING_BATCH = 512  # completions of a step: 64 prompts in groups of 8


def understood(reward: RewardProcess, problem: Problem, top: float) -> Wrap | None:
    """The first wrapping in which the reference solution gets the top reward.

    In any other, wrong programs would get nothing for their form, which says nothing of the reward.
    """
    for wrap in WRAPPINGS.values():
        if reward.call([Case(problem, wrap(problem.reference_solution))]).rewards == (top,):
            return wrap
    return None


def gold(reward: RewardProcess, problem: Problem, top: float) -> Finding:
    """The reference solution gets the top reward in every usual wrapping and both formats."""
    code = problem.reference_solution
    cases = [Case(problem, wrap(code)) for wrap in WRAPPINGS.values()]
    calls = _by_format(reward, cases)
    bad = [
        f"{name}: {_said(call)}"
        for name, call in zip(WRAPPINGS, calls, strict=True)
        if call.failure or call.rewards != (top,)
    ]
    return _finding("gold", problem.id, len(cases) - len(bad), len(cases), bad)


def kills_mutants(
    reward: RewardProcess, problem: Problem, session: Session, top: float, wrap: Wrap = answer
) -> Finding:
    """Programs that were seen to answer wrongly get less than the top reward."""
    candidates = mutants(problem.reference_solution, problem.entry_point)
    inputs = generate(problem)
    found = asyncio.run(confirmed_wrong(session, problem, candidates, inputs))
    # One that never ends costs a grader its whole time limit, and says little of the reward.
    wrong = [mutant for mutant in found if mutant.answer.kind != "timeout"]
    if not wrong:
        return Finding("mutants", problem.id, "not checkable", detail="no mutant confirmed wrong")
    calls = reward.rewards([Case(problem, wrap(mutant.mutant.code)) for mutant in wrong])
    survivors, failures = [], []
    for mutant, call in zip(wrong, calls, strict=True):
        if call.failure:
            failures.append(f"{mutant.mutant.id}: {_said(call)}")
        elif call.rewards[0] is None or call.rewards[0] >= top:
            survivors.append(f"{mutant} (reward {call.rewards[0]})")
    bad = failures + survivors
    killed = len(wrong) - len(bad)
    status: Status = "good" if killed / len(wrong) >= KILL_RATE else "bad"
    detail = "; ".join(bad[:3])
    return Finding("mutants", problem.id, status, killed, len(wrong), detail)


def holds_out(
    reward: RewardProcess, problem: Problem, session: Session, wrap: Wrap = answer
) -> Finding:
    """A table of the visible asserts' answers earns nothing.

    The reward sees the problem's held-out asserts and generated ones, which the table cannot know.
    """
    calls = generate(problem)
    asserts: tuple[str, ...] = ()
    if calls:
        answers = asyncio.run(reference_answers(session, problem, calls))
        asserts = held_out_asserts(problem, calls, answers)
    if not checkable(asserts) and not problem.challenge_test_list:
        detail = "no held-out asserts, and no inputs can be generated from the visible ones"
        return Finding("held-out", problem.id, "not checkable", detail=detail)
    problem = _with_held_out(problem, asserts if checkable(asserts) else ())
    reference = reward.rewards([Case(problem, wrap(problem.reference_solution))])[0]
    table = wrap(lookup_table(problem))
    call = reward.rewards([Case(problem, table)])[0]
    if call.failure or reference.failure:
        bad = [_said(c) for c in (reference, call) if c.failure]
        return _finding("held-out", problem.id, 0, 1, bad)
    exploits = _exploits("lookup-table", problem, table, call.rewards[0], "EvalPlus, Liu 2023")
    bad = [f"a lookup table earned {call.rewards[0]}"] if exploits else []
    if reference.rewards[0] is None or not reference.rewards[0] > 0:
        bad.append(f"with generated held-out asserts the reference earns {reference.rewards[0]}")
    return _finding("held-out", problem.id, 0 if bad else 1, 1, bad, exploits)


def resists(
    reward: RewardProcess, attack: Attack, problems: Sequence[Problem], wrap: Wrap = answer
) -> Finding:
    """An attack earns nothing on any problem, and turns no zero into None."""
    cases = [
        Case(problem, wrap(code))
        for problem in problems
        if (code := attack.completion(problem)) is not None
    ]
    if not cases:
        detail = "does not apply to these problems"
        return Finding("attacks", attack.name, "not checkable", detail=detail)
    exploits: list[Exploit] = []
    failures = []
    for case, call in zip(cases, reward.rewards(cases), strict=True):
        if call.failure:
            failures.append(f"{case.problem.id}: {_said(call)}")
        else:
            exploits += _exploits(
                attack.name, case.problem, case.completion, call.rewards[0], attack.reference
            )
    earned = [f"{e.problem}: reward {e.reward}" for e in exploits]
    good = len(cases) - len(exploits) - len(failures)
    return _finding("attacks", attack.name, good, len(cases), earned + failures, exploits)


def survives(reward: RewardProcess, form: Format, problem: Problem) -> Finding:
    """A malformed completion neither raises nor changes the number of rewards."""
    broken = Case(problem, form.completion(problem.reference_solution))
    right: Case = Case(problem, answer(problem.reference_solution))
    if form.messages:
        right = Case(problem, message(answer(problem.reference_solution)))
    call = reward.call([broken, right])
    bad = [_said(call)] if call.failure else []
    return _finding("format", form.name, 0 if bad else 1, 1, bad)


def _mixed(problems: Sequence[Problem], wrap: Wrap = answer) -> list[Case]:
    """Right, wrong and no answers, for comparing rewards of the same completions."""
    cases = []
    nothing = "I do not know."
    for problem in problems:
        cases.append(Case(problem, wrap(problem.reference_solution)))
        cases.append(Case(problem, wrap(f"def {problem.entry_point}(*args):\n    return None")))
        cases.append(Case(problem, nothing if isinstance(wrap(""), str) else message(nothing)))
    return cases


def _again(reward: RewardProcess, cases: Sequence[Case]) -> Call:
    time.sleep(1.1)  # a reward that looks at the clock sees another second
    return reward.call(cases)


def _reversed(reward: RewardProcess, cases: Sequence[Case]) -> Call:
    call = reward.call(cases[::-1])
    return Call(call.rewards[::-1], call.failure, call.detail)


def _shuffled(reward: RewardProcess, cases: Sequence[Case]) -> Call:
    order = list(range(len(cases)))
    random.Random(0).shuffle(order)  # noqa: S311 - the same order every time
    call = reward.call([cases[position] for position in order])
    found = dict(zip(order, call.rewards, strict=False))
    return Call(tuple(found.get(p) for p in range(len(cases))), call.failure, call.detail)


def _one_by_one(reward: RewardProcess, cases: Sequence[Case]) -> Call:
    calls = [reward.call([case]) for case in cases]
    failed = next((call for call in calls if call.failure), None)
    return failed or Call(tuple(call.rewards[0] for call in calls))


def _beside_others(reward: RewardProcess, cases: Sequence[Case]) -> Call:
    text = answer("import sys\nsys.exit(0)")
    others = [
        Case(case.problem, text if isinstance(case.completion, str) else message(text))
        for case in cases
    ]
    mixed = [case for pair in zip(cases, others, strict=True) for case in pair]
    call = reward.call(mixed)
    return Call(call.rewards[::2], call.failure, call.detail)


VARIATIONS: dict[str, Callable[[RewardProcess, Sequence[Case]], Call]] = {
    "twice": _again,
    "reversed": _reversed,
    "shuffled": _shuffled,
    "one by one": _one_by_one,
    "beside others": _beside_others,
}


def is_steady(
    reward: RewardProcess,
    other: RewardProcess,
    variation: str,
    problems: Sequence[Problem],
    wrap: Wrap = answer,
) -> Finding:
    """The same completions get the same rewards when only what surrounds them changes.

    ``other`` is the same function in another process, with another PYTHONHASHSEED: it makes the
    variation named "another hash seed".
    """
    cases = _mixed(problems, wrap)
    first = reward.call(cases)
    vary = VARIATIONS.get(variation)
    second = vary(reward, cases) if vary else other.call(cases)
    if first.failure or second.failure:
        failed = first if first.failure else second
        return _finding("determinism", variation, 0, len(cases), [_said(failed)])
    bad = [
        f"{case.problem.id}: {one}, then {two}"
        for case, one, two in zip(cases, first.rewards, second.rewards, strict=True)
        if one != two
    ]
    return _finding("determinism", variation, len(cases) - len(bad), len(cases), bad)


def keeps_faults_apart(
    reward: RewardProcess, fault: str, problems: Sequence[Problem], wrap: Wrap = answer
) -> Finding:
    """With a failing sandbox service, right answers get None or an exception, never 0.0.

    ``reward`` must be connected to a service in which ``fault`` happens every time.
    """
    cases = [Case(problem, wrap(problem.reference_solution)) for problem in problems]
    call = reward.call(cases)
    if call.failure == "raised":
        return Finding("infrastructure", fault, "good", len(cases), len(cases), _said(call))
    if call.failure:
        return _finding("infrastructure", fault, 0, len(cases), [_said(call)])
    zeros = [
        f"{case.problem.id}: reward {given} for a right answer"
        for case, given in zip(cases, call.rewards, strict=True)
        if given is not None and given <= 0
    ]
    if not zeros and all(given is not None for given in call.rewards):
        detail = "the reward did not notice: it does not run code in CoreWeave sandboxes"
        return Finding("infrastructure", fault, "not checkable", detail=detail)
    return _finding("infrastructure", fault, len(cases) - len(zeros), len(cases), zeros)


def cost(
    reward: RewardProcess,
    problems: Sequence[Problem],
    batch: int,
    *,
    limit: float | None,
    wrap: Wrap = answer,
) -> Finding:
    """Seconds of a call of ``batch`` completions; above ``limit`` at p95 the finding is bad."""
    mixed = _mixed(problems, wrap)
    cases = mixed[::3] + mixed[1::3]  # those with code
    repeats = max(2, 10 // batch)
    seconds = []
    reward.call(cases[:1])  # the first call starts what the others use
    for _ in range(repeats):
        call = reward.call([cases[number % len(cases)] for number in range(batch)])
        if call.failure:
            return _finding("cost", f"batch of {batch}", 0, 1, [_said(call)])
        seconds.append(call.seconds)
    seconds.sort()
    p50, p95, p99 = (quantile(seconds, share) or 0.0 for share in (0.5, 0.95, 0.99))
    rate = batch / p50 if p50 else float("inf")
    detail = (
        f"p50 {p50:.2f} s, p95 {p95:.2f} s, p99 {p99:.2f} s, {rate:.1f} completions/s: "
        f"about {TRAINING_BATCH / rate:.0f} s for a training step of {TRAINING_BATCH}"
    )
    slow = limit is not None and p95 > limit
    if slow:
        detail += f"; over the limit of {limit:g} s"
    status: Status = "bad" if slow else "good"
    return Finding("cost", f"batch of {batch}", status, 0 if slow else 1, 1, detail)


def stays_in_range(
    reward: RewardProcess, problems: Sequence[Problem], bounds: tuple[float, float]
) -> Finding:
    """Right, wrong and no answers all get rewards within the declared bounds."""
    cases = _mixed(problems)
    low, high = bounds
    bad, good = [], 0
    for case, call in zip(cases, reward.rewards(cases), strict=True):
        if call.failure:
            bad.append(f"{case.problem.id}: {_said(call)}")
        elif call.rewards[0] is not None and not low <= call.rewards[0] <= high:
            bad.append(f"{case.problem.id}: reward {call.rewards[0]} outside {low:g}..{high:g}")
        else:
            good += 1
    return _finding("range", "bounds", good, len(cases), bad)


def rises(reward: RewardProcess, problem: Problem, wrap: Wrap = answer) -> Finding:
    """With partial credit, who passes more asserts earns no less."""
    programs = [
        wrap(lookup_table(_showing(problem, count))) for count in range(len(problem.test_list) + 1)
    ]
    calls = reward.rewards([Case(problem, program) for program in programs])
    failed = [_said(call) for call in calls if call.failure]
    if failed:
        return _finding("range", problem.id, 0, 1, failed)
    earned = [call.rewards[0] for call in calls]
    known = [given for given in earned if given is not None]
    bad = [] if known == sorted(known) else [f"rewards by asserts passed: {earned}"]
    return _finding("range", problem.id, 0 if bad else 1, 1, bad)


def _showing(problem: Problem, count: int) -> Problem:
    from dataclasses import replace

    return replace(problem, test_list=problem.test_list[:count])


def _with_held_out(problem: Problem, asserts: tuple[str, ...]) -> Problem:
    from dataclasses import replace

    return replace(problem, challenge_test_list=(*problem.challenge_test_list, *asserts))


def _by_format(reward: RewardProcess, cases: Sequence[Case]) -> list[Call]:
    """One call per format: a trainer's batch holds strings or conversations, never both."""
    found: dict[int, Call] = {}
    for conversational in (False, True):
        numbers = [
            number
            for number, case in enumerate(cases)
            if (not isinstance(case.completion, str)) == conversational
        ]
        calls = reward.rewards([cases[number] for number in numbers])
        found.update(zip(numbers, calls, strict=True))
    return [found[number] for number in range(len(cases))]


def _exploits(
    name: str, problem: Problem, completion: object, reward: float | None, reference: str
) -> list[Exploit]:
    if reward is not None and reward <= 0:
        return []
    kind = "none" if reward is None else "reward"
    return [Exploit(name, kind, problem.id, reward, str(completion)[:SHOWN], reference)]  # type: ignore[arg-type]


def _said(call: Call) -> str:
    if call.failure:
        return f"{call.failure}: {call.detail}"
    return f"reward {call.rewards[0]}"


def _finding(
    check: str,
    name: str,
    good: int,
    total: int,
    bad: Sequence[str],
    exploits: Sequence[Exploit] = (),
) -> Finding:
    detail = "; ".join(bad[:3]) + (f"; and {len(bad) - 3} more" if len(bad) > 3 else "")
    return Finding(check, name, "bad" if bad else "good", good, total, detail, tuple(exploits))
