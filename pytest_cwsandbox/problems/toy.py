"""Five toy completions whose rewards are known, for trying out a reward function.

They test nothing and are graded by exit code: 1.0 when ``python -c code`` exits with 0. Three
sleep, so that a runner which executes them in parallel shows it: together they take as long as the
slowest, and the quick ones finish first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ToyCompletion:
    """A program, and what the exit code makes of it."""

    name: str
    prompt: str
    code: str
    expected_reward: float


TOY_COMPLETIONS = (
    ToyCompletion(
        name="slow-sum",
        prompt="Wait two seconds, then check that the integers from 1 to 100 sum to 5050.",
        code="""\
import time

time.sleep(2)
total = sum(range(1, 101))
assert total == 5050
print(f"sum: {total}")
""",
        expected_reward=1.0,
    ),
    ToyCompletion(
        name="string-ops",
        prompt='Check that the words of "rewards need sandboxes" in reverse order, joined by'
        ' dashes, read "sandboxes-need-rewards".',
        code="""\
words = "rewards need sandboxes".split()
joined = "-".join(reversed(words))
assert joined == "sandboxes-need-rewards"
print(joined.upper())
""",
        expected_reward=1.0,
    ),
    ToyCompletion(
        name="delayed-error",
        prompt="Wait one second, then raise an error.",
        code="""\
import time

time.sleep(1)
raise ValueError("failed after a second of work")
""",
        expected_reward=0.0,
    ),
    ToyCompletion(
        name="syntax-error",
        prompt="Write a function whose signature is cut off.",
        code="""\
def area(width, height
    return width * height
""",
        expected_reward=0.0,
    ),
    ToyCompletion(
        name="slow-list",
        prompt="Wait three seconds, then check that the even squares below 50 are 0, 4, 16, 36.",
        code="""\
import time

time.sleep(3)
squares = [n * n for n in range(8) if n % 2 == 0]
assert squares == [0, 4, 16, 36]
print(squares)
""",
        expected_reward=1.0,
    ),
)
