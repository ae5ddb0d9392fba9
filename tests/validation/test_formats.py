"""Malformed completions: the list itself, and that this project's grader survives it."""

from __future__ import annotations

from pytest_cwsandbox.backend import BackendOptions
from pytest_cwsandbox.connections import grading_session
from pytest_cwsandbox.grading import Grader, Limits
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.validation.formats import malformed

PROBLEM = next(p for p in load("bundled") if p.entry_point == "digit_spread")


def test_formats_have_names_of_their_own_and_are_texts_or_messages() -> None:
    formats = malformed()
    assert len({form.name for form in formats}) == len(formats) >= 60
    for form in formats:
        kind = list if form.messages else str
        assert isinstance(form.completion(PROBLEM.reference_solution), kind)


def test_some_are_as_long_as_a_megabyte() -> None:
    longest = [len(form.completion(PROBLEM.reference_solution)) for form in malformed()]
    assert 1_000_000 < max(longest) < 2_000_000


def test_the_hardened_grader_gives_every_malformed_text_a_reward() -> None:
    with grading_session(BackendOptions("local")) as session:
        grader = Grader(session, limits=Limits(cpu_seconds=5, wall_seconds=30), concurrency=4)
        try:
            refs = {
                form.name: grader.grade(PROBLEM, text)
                for form in malformed()
                if isinstance(text := form.completion(PROBLEM.reference_solution), str)
            }
            outcomes = {name: ref.result() for name, ref in refs.items()}
        finally:
            grader.close()
    assert {name: out for name, out in outcomes.items() if out.reward is None} == {}
    # What holds a whole answer, however odd its surroundings, is not thrown away.
    whole = {"several-blocks", "unclosed-fence", "unclosed-answer", "crlf", "lone-cr", "emoji"}
    assert {name: outcomes[name] for name in whole if outcomes[name].reward != 1.0} == {}
    nothing = {"empty", "whitespace", "prose-only", "empty-fence", "only-thought"}
    assert {name: outcomes[name] for name in nothing if outcomes[name].reward != 0.0} == {}
