"""Draw what ``scaling.py`` measured, and model from it what a larger run would need.

python -m tests.benchmarks.scaling_chart scaling.json -o docs/scaling.svg
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import dataclass
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 720, 400, 64, 24, 56, 150
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #333 } .line { stroke: #bbb; stroke-width: 1 }
.ideal { stroke: #888; stroke-dasharray: 5 4; stroke-width: 2; fill: none }
.measured { stroke: #2563eb; stroke-width: 2.5; fill: none } circle { fill: #2563eb }
.blue { fill: #2563eb } .back { fill: #fff }
@media (prefers-color-scheme: dark) {
  text { fill: #ddd } .line { stroke: #444 } .back { fill: #111 }
  .measured { stroke: #7aa2ff } circle, .blue { fill: #7aa2ff }
}
"""
BUSY = 0.7  # share of a core that a process may use, so that its loop stays responsive
SECONDS = (10.8, 60.0, 300.0)  # that samples may take; the first as measured here


@dataclass(frozen=True, slots=True)
class Needed:
    """For a number of samples per hour; a model, and no measurement."""

    per_second: float
    in_flight: int
    processes: int
    in_flight_per_process: int
    hosts: int


def needed(
    per_hour: float,
    *,
    sample_seconds: float,
    pytest_cpu: float,
    most_in_flight: int,
    cores_per_host: int,
) -> Needed:
    """Little's law for the samples in flight, whose CPU seconds and number processes share."""
    per_second = per_hour / 3600
    in_flight = math.ceil(per_second * sample_seconds)
    processes = max(
        math.ceil(per_second * pytest_cpu / BUSY), math.ceil(in_flight / most_in_flight)
    )
    return Needed(
        round(per_second, 1),
        in_flight,
        processes,
        math.ceil(in_flight / processes),
        math.ceil(processes / cores_per_host),
    )


def chart(figures: dict[str, object]) -> str:
    """Throughput over samples in flight, both on logarithmic axes, beside Little's law."""
    alone = float(str(figures["alone"]))
    measured = figures["measured"]
    assert isinstance(measured, list)
    points = [(one["in_flight"], one["per_second"]) for one in measured]
    ideal = [(n, n / alone) for n, _ in points]
    low = math.floor(math.log2(min(y for _, y in points + ideal)))
    high = math.ceil(math.log2(max(y for _, y in points + ideal)))
    first, last = math.log2(points[0][0]), math.log2(points[-1][0])

    def at(point: tuple[float, float]) -> tuple[float, float]:
        across = (math.log2(point[0]) - first) / (last - first)
        up = (math.log2(point[1]) - low) / (high - low)
        wide, tall = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
        return round(LEFT + across * wide, 1), round(TOP + (1 - up) * tall, 1)

    def path(line: list[tuple[float, float]]) -> str:
        return " ".join(f"{x},{y}" for x, y in map(at, line))

    parts = [f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>']
    for power in range(low, high + 1):
        x, y = at((points[0][0], 2.0**power))
        parts.append(f'<line class="line" x1="{x}" x2="{WIDTH - RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{x - 8}" y="{y + 4}" text-anchor="end">{2.0**power:g}</text>')
    for n, _ in points:
        x, _ = at((n, 2.0**low))
        parts.append(f'<text x="{x}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{n}</text>')
    parts.append(f'<polyline class="ideal" points="{path(ideal)}"/>')
    parts.append(f'<polyline class="measured" points="{path(points)}"/>')
    for point in points:
        x, y = at(point)
        parts.append(f'<circle cx="{x}" cy="{y}" r="4"/>')
        parts.append(f'<text class="blue" x="{x + 6}" y="{y + 18}">{point[1]:.3g}</text>')
    (x, y), (_, other) = at(ideal[-1]), at(points[-1])
    parts.append(f'<text x="{x + 12}" y="{y + 4}">N / {alone:g} s (ideal)</text>')
    parts.append(f'<text class="blue" x="{x + 12}" y="{other - 8}">measured</text>')
    parts.append(f'<text x="{LEFT}" y="{TOP - 8}">samples per second</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        f'<text x="{middle}" y="{HEIGHT - 12}" text-anchor="middle">samples in flight</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        'aria-label="Throughput over samples in flight">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("figures", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--per-hour", type=float, default=100_000)
    parser.add_argument("--cores-per-host", type=int, default=8)
    options = parser.parse_args()
    figures = json.loads(options.figures.read_text())
    options.output.write_text(chart(figures))
    largest = figures["measured"][-1]
    for seconds in SECONDS:
        model = needed(
            options.per_hour,
            sample_seconds=seconds,
            pytest_cpu=largest["pytest_cpu"] / largest["samples"],
            most_in_flight=largest["in_flight"],
            cores_per_host=options.cores_per_host,
        )
        print(f"samples of {seconds:g} s: {model}")  # noqa: T201 - its output


if __name__ == "__main__":
    main()
