"""How throughput grows with the samples in flight, past what one machine's sandboxes can do.

    python -m tests.benchmarks.scaling --in-flight 8 32 128 512 --rounds 20 -o scaling.json
    python -m tests.benchmarks.scaling_chart scaling.json -o docs/scaling.svg

Rollouts of three tool calls in one pytest process, on a service with injected latencies: 3 s to
start a sandbox, 0.2 s per command, 2 s per answer of the model. By Little's law N samples in flight
that take R seconds each give N / R samples per second; R is measured with one in flight. CPU
seconds are told apart by who spends them: pytest, which any backend needs, and the local runner
with its sandboxes and the scripted model, which a hosted service and a real endpoint take over.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from pytest_cwsandbox import runner
from pytest_cwsandbox.problems import load
from pytest_cwsandbox.rollouts import scripted
from pytest_cwsandbox.rollouts.scripted.plans import solution

START, COMMAND, ANSWER = 3.0, 0.2, 2.0  # seconds
TOOL_CALLS = 3
PROBLEMS = 8
ALONE = 5  # samples, one after the other, for R
TICKS = os.sysconf("SC_CLK_TCK")

EVALUATION = """
import functools, os, time
import pytest
from pytest_cwsandbox.rollouts.model import ModelOptions, openai_policy

@functools.cache
def policy():
    return openai_policy(
        ModelOptions("scripted"), base_url=os.environ["MODEL"], api_key=os.environ["TOKEN"]
    )

@pytest.mark.problems("problems.jsonl", samples=int(os.environ["SAMPLES"]))
async def test_agent(problem, rollout):
    began = time.time()
    trajectory = await rollout(problem, policy=policy())
    with open("times", "a") as times:
        times.write(f"{began} {time.time()}\\n")
    assert trajectory.reward == 1
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """One run. ``per_second`` is throughput between first start and last end; the rest is seconds.

    ``sample_seconds`` is the median: the first one has connections to open.
    """

    in_flight: int
    samples: int
    seconds: float
    per_second: float
    sample_seconds: float
    mean_in_flight: float
    pytest_cpu: float
    runner_cpu: float
    model_cpu: float


def measure(in_flight: int, samples: int, problems: int = PROBLEMS) -> Measured:
    """Run ``samples`` rollouts of each of the problems, ``in_flight`` at once."""
    known = [one for one in load("bundled") if len(solution(one).steps) == TOOL_CALLS]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        rows = [json.dumps(one.to_json()) + "\n" for one in known[:problems]]
        (folder / "problems.jsonl").write_text("".join(rows))
        (folder / "test_agents.py").write_text(EVALUATION)
        faults = [f"create-latency={START}", f"exec-latency={COMMAND}"]
        served = runner.join_or_start(folder / "runner", lifeline=os.getpid(), faults=faults)
        model = scripted.join_or_start(folder / "model", lifeline=os.getpid(), latency=ANSWER)
        variables = {name: v for name, v in os.environ.items() if not name.startswith("CWSANDBOX")}
        variables |= served.environment(os.environ)
        variables |= {"MODEL": model.address, "TOKEN": model.token, "SAMPLES": str(samples)}
        before = _children()
        try:
            subprocess.run(
                [
                    *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0"),
                    f"--cwsandbox-concurrency={in_flight}",
                ],
                cwd=folder,
                env=variables,
                check=True,
                stdout=sys.stderr,
            )
            pytest_cpu = _children() - before
            [announced] = (folder / "model").glob("*.json")
            others = _cpu(served.pid), _cpu(json.loads(announced.read_text())["pid"])
        finally:
            runner.stop(folder / "runner")
            scripted.stop(folder / "model")
        times = [
            tuple(map(float, line.split())) for line in (folder / "times").read_text().splitlines()
        ]
    seconds = max(end for _, end in times) - min(start for start, _ in times)
    took = [end - start for start, end in times]
    return Measured(
        in_flight,
        len(times),
        round(seconds, 1),
        round(len(times) / seconds, 3),
        round(statistics.median(took), 2),
        round(sum(took) / seconds, 1),
        round(pytest_cpu, 1),
        *(round(cpu, 1) for cpu in others),
    )


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu(pid: int) -> float:
    """CPU seconds of a process and of its ended children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--in-flight", type=int, nargs="+", default=[8, 32, 128, 512])
    parser.add_argument("--rounds", type=int, default=20, help="samples per place in flight")
    parser.add_argument("-o", "--output", type=Path, help="where the figures go, beside the screen")
    options = parser.parse_args()
    measured = [measure(1, ALONE, problems=1)]
    for in_flight in options.in_flight:
        samples = max(1, options.rounds * in_flight // PROBLEMS)
        measured.append(measure(in_flight, samples))
        print(json.dumps(asdict(measured[-1])), file=sys.stderr, flush=True)  # noqa: T201 - its progress
    figures = {
        "date": time.strftime("%Y-%m-%d"),
        "cores": len(os.sched_getaffinity(0)),
        "alone": measured[0].sample_seconds,
        "measured": [asdict(one) for one in measured[1:]],
    }
    text = json.dumps(figures, indent=2)
    print(text)  # noqa: T201 - its output
    if options.output:
        options.output.write_text(text + "\n")


if __name__ == "__main__":
    main()
