"""A preflight for people: the problems, their pass rates as a histogram, the verdict last."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from pytest_cwsandbox.reports.columns import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rich.console import Console
    from rich.table import Table

    from pytest_cwsandbox.validation.preflight import Preflight, ProblemSignal
    from pytest_cwsandbox.validation.zero_variance import Share

SHOWN = 20
"""Rows of the table beyond the folded ones."""
BAR = 40


def show(found: Preflight, console: Console) -> None:
    """Print everything; READY or NOT READY is the last line."""
    if found.problems:
        console.print(_table(found))
        console.print()
        for line in _histogram(found.problems):
            console.print(line, markup=False)
        console.print()
    whole = not console.is_terminal  # a line for who reads a pipe or a log
    for name, fact in facts(found):
        console.print(printable(f"{name:<12} {fact}"), markup=False, soft_wrap=whole)
    for note in found.notes:
        console.print(printable(f"note: {note}"), markup=False, soft_wrap=whole)
    for reason in found.reasons:
        console.print(printable(f"- {reason}"), style="red", markup=False, soft_wrap=whole)
    console.print("READY" if found.ready else "NOT READY", style="bold")


def _table(found: Preflight) -> Table:
    from rich.table import Table
    from rich.text import Text

    built = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    built.add_column("problem", overflow="fold", ratio=1)
    graded = any(problem.mean_reward != problem.pass_rate for problem in found.problems)
    columns = ["passed", "rate", "95% interval", "no gradient"]
    columns += ["mean"] * graded + ["keep"] * (found.plan.keep is not None)
    for column in columns:
        built.add_column(column, justify="right", no_wrap=True)
    for name, rows in _folded(found.problems):
        built.add_row(Text(printable(name)), *map(_cells(rows).__getitem__, columns))
    return built


def _cells(rows: Sequence[ProblemSignal]) -> dict[str, str]:
    passed, samples = sum(row.passed for row in rows), sum(row.samples for row in rows)
    low, high = rows[0].interval
    return {
        "passed": f"{passed}/{samples}",
        "rate": f"{passed / samples:.1%}",
        "95% interval": f"{low:.1%}..{high:.1%}" if len(rows) == 1 else "-",
        "no gradient": f"{sum(row.zero_variance for row in rows) / len(rows):.1%}",
        "mean": f"{sum(row.mean_reward for row in rows) / len(rows):.3g}",
        "keep": _kept(rows),
    }


def _folded(
    problems: Sequence[ProblemSignal],
) -> Iterator[tuple[str, list[ProblemSignal]]]:
    """Rows of the table by name; problems with one and the same reward throughout share a row.

    Of the others the middle is folded when they are many: the ends are where to look.
    """
    mixed = sum(problem.values > 1 for problem in problems)
    hidden = max(mixed - SHOWN, 0)
    first = range(SHOWN // 2)
    last = range(mixed - SHOWN // 2, mixed)
    place = 0
    middle: list[ProblemSignal] = []
    for (varied, reward), group in groupby(problems, key=_kind):
        rows = list(group)
        if not varied:
            several = f"{len(rows)} problems, always {reward:g}"
            yield (several if len(rows) > 1 else rows[0].task_id), rows
            continue
        for row in rows:
            if not hidden or place in first or place in last:
                if middle:
                    yield f"... {len(middle)} problems between", middle
                    middle = []
                yield row.task_id, [row]
            else:
                middle.append(row)
            place += 1


def _kind(problem: ProblemSignal) -> tuple[bool, float]:
    varied = problem.values > 1
    return varied, 0.0 if varied else problem.mean_reward


def _kept(rows: Sequence[ProblemSignal]) -> str:
    kept = sum(row.kept for row in rows)
    if kept in {0, len(rows)}:
        return "yes" if kept else "-"
    return str(kept)


def by_pass_rate(rates: Iterable[float]) -> dict[str, int]:
    """Problems by pass rate; never and always have bins of their own: there is nothing to learn."""
    edges = (0.2, 0.4, 0.6, 0.8, 1.0)
    counts = dict.fromkeys(("0%", "< 20%", "< 40%", "< 60%", "< 80%", "< 100%", "100%"), 0)
    for rate in rates:
        name = "100%"
        if rate == 0:
            name = "0%"
        elif rate < 1:
            name = next(f"< {edge:.0%}" for edge in edges if rate < edge)
        counts[name] += 1
    return counts


def _histogram(problems: Sequence[ProblemSignal]) -> Iterator[str]:
    counts = by_pass_rate(problem.pass_rate for problem in problems)
    most = max(counts.values())
    yield "pass rate  problems"
    for name, count in counts.items():
        bar = "#" * -(-count * BAR // most)
        yield f"{name:>9}  {bar} {count}".rstrip() if count else f"{name:>9}"


def facts(found: Preflight) -> Iterator[tuple[str, str]]:
    """Lines that say what was found, each with its name, "" where it goes on."""
    plan, training = found.plan, found.training
    total = found.samples + found.infrastructure + found.not_finite
    rewards = f"{found.samples} of {len(found.problems)} problems"
    if found.infrastructure:
        rewards += f", {found.infrastructure} of {total} lost to infrastructure"
    if found.unscored:
        rewards += f", without any: {len(found.unscored)}"
    yield "rewards", rewards
    if found.noise is not None:
        yield "noise", f"variance within problems {found.noise:.3g} (sd {found.noise**0.5:.3g})"
    if found.zero_variance is not None:
        share = _share(found.zero_variance)
        yield "no gradient", f"{share} of the groups of {plan.group_size}"
    if plan.keep is not None:
        yield "kept", f"{len(found.kept)} of {len(found.problems)} problems, pass rate {plan.keep}"
        if training is not None:
            apart = "on other samples" if found.held_out else "on the same samples"
            yield "", f"no gradient {_share(training)}, {apart}"
    if training is not None:
        yield "batch", _batch(training, plan.batch, plan.group_size)
        if training.estimate < 1:
            draws = 1 / (1 - training.estimate)
            yield "", f"dynamic sampling draws {draws:.2f} groups for each with gradient"


def _share(share: Share) -> str:
    return f"{share.estimate:.1%} ({share.low:.1%}..{share.high:.1%})"


def _batch(training: Share, batch: int, group_size: int) -> str:
    groups, fewest, most = (
        batch * (1 - part) for part in (training.estimate, training.high, training.low)
    )
    return (
        f"{groups:.1f} ({fewest:.1f}..{most:.1f}) of {batch} groups have gradient,"
        f" {groups * group_size:.0f} of {batch * group_size} samples"
    )
