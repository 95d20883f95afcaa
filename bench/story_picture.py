"""``python -m bench.story_picture REPORT --output docs/story.svg``: draws a demo's report as an SVG picture.

It has three charts above one time axis: pods, machines, and the cost of the machines. The data is the JSON document of
``dovetail demo --report``. The picture follows the reader's light or dark theme.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 430
LEFT, RIGHT = 96, 836
PODS, MACHINES, COST = (70, 190), (222, 286), (318, 392)
"""Top and bottom of each chart, in pixels."""
LIGHT = {
    "paper": "#ffffff", "ink": "#1f2328", "soft": "#59636e", "line": "#d1d9e0",
    "wait": "#d6e4f7", "run": "#2a78d6", "machine": "#1a7f64", "cost": "#b35900",
}  # fmt: skip
DARK = {
    "paper": "#0d1117", "ink": "#f0f6fc", "soft": "#9198a1", "line": "#3d444d",
    "wait": "#1f3a5f", "run": "#4493f8", "machine": "#3fb08f", "cost": "#e08e3c",
}  # fmt: skip
FILLED = ("paper", "wait", "run", "machine")
Point = tuple[float, float]
"""(seconds since the start, value from then on)."""


@dataclass(frozen=True)
class Machine:
    """One instance, from launch to termination, in seconds since the start."""

    name: str
    start: float
    end: float


@dataclass(frozen=True)
class Story:
    """The data of the picture."""

    seconds: float
    wanted: list[Point]
    running: list[Point]
    cost: list[Point]
    machines: list[Machine]
    acts: list[tuple[float, str]]
    """(seconds, text) of each change of the workload's size, such as "400 pods"."""


def story_of(report: dict[str, Any]) -> Story:
    """The story of a demo's report. Raises KeyError for other documents."""
    events = [(float(e["at"]), str(e["event"]), str(e["object"])) for e in report["timeline"]]
    return Story(
        seconds=float(report["seconds"]),
        wanted=_series(events, r"(\d+) pods exist"),
        running=_series(events, r"(\d+) of \d+ pods run"),
        cost=_series(events, r"machines cost \$([\d.]+) an hour"),
        machines=_machines(events, float(report["seconds"])),
        acts=_acts(report["phases"]),
    )


def _series(events: Iterable[tuple[float, str, str]], pattern: str) -> list[Point]:
    found = ((at, re.fullmatch(pattern, event)) for at, event, _ in events)
    return [(0.0, 0.0), *((at, float(match[1])) for at, match in found if match)]


def _machines(events: Iterable[tuple[float, str, str]], seconds: float) -> list[Machine]:
    started: dict[str, tuple[float, str]] = {}
    ended: dict[str, float] = {}
    for at, event, subject in events:
        match = re.fullmatch(r"instance ([\w-]+) \((\S+), (\S+)\)", event)
        if match and match[1] == "terminated":
            ended[subject] = at
        elif match:
            started.setdefault(subject, (at, f"{match[2]} in {match[3]}"))
    return [
        Machine(name, at, ended.get(subject, seconds)) for subject, (at, name) in started.items()
    ]


def _acts(phases: Iterable[dict[str, Any]]) -> list[tuple[float, str]]:
    acts, at = [], 0.0
    for phase in phases:
        if phase["title"].startswith("scale "):
            acts.append((at, f"{phase['title'].split()[-1]} pods"))
        at += phase["seconds"] or 0.0
    return acts


def style(light: dict[str, str], dark: dict[str, str]) -> str:
    """Colours by class, without CSS variables, which most programs except browsers do not support."""
    shape = (
        'text { font: 13px system-ui, "DejaVu Sans", sans-serif; } '
        ".title { font-size: 16px; font-weight: 600; } "
        ".cost { fill: none; stroke-width: 2.5; } .act { stroke-dasharray: 3 3; }"
    )
    return f"{shape} {_colours(light)} @media (prefers-color-scheme: dark) {{ {_colours(dark)} }}"


def _colours(of: dict[str, str]) -> str:
    filled = " ".join(f".{name} {{ fill: {of[name]}; }}" for name in FILLED)
    lines = f".axis {{ stroke: {of['line']}; }} .act {{ stroke: {of['soft']}; }}"
    # An outline in the background's colour keeps text readable where a line crosses it.
    outline = f"paint-order: stroke; stroke: {of['paper']}; stroke-width: 4;"
    words = f"text {{ fill: {of['soft']}; }} .label, .title {{ fill: {of['ink']}; {outline} }}"
    return f"{filled} {lines} {words} .cost {{ stroke: {of['cost']}; }}"


def draw(story: Story, title: str) -> str:
    """The whole SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{style(LIGHT, DARK)}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        _text(20, 28, title, "title"),
        *_acts_drawn(story),
        *_pods(story),
        *_bars(story),
        *_cost(story),
        *_axis(story),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _x(story: Story, at: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * at / story.seconds, 1)


def _text(x: float, y: float, words: str, name: str = "", anchor: str = "start") -> str:
    attribute = f' class="{name}"' if name else ""
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}"{attribute}>{escape(words)}</text>'


def _steps(story: Story, points: Sequence[Point], strip: tuple[int, int], most: float) -> str:
    """The points of a step line, which keeps each value until the next."""
    top, bottom = strip
    corners: list[str] = []
    y = float(bottom)
    for at, value in points:
        x, new = _x(story, at), round(bottom - (bottom - top) * value / most, 1)
        corners += [f"{x},{y}", f"{x},{new}"]
        y = new
    return " ".join([*corners, f"{_x(story, story.seconds)},{y}"])


def _acts_drawn(story: Story) -> Iterable[str]:
    for at, label in story.acts:
        x = _x(story, at)
        yield f'<line class="act" x1="{x}" y1="50" x2="{x}" y2="{COST[1]}"/>'
        yield _text(x + 5, 60, label, "label")


def _pods(story: Story) -> Iterable[str]:
    most = max(value for _, value in story.wanted)
    end = f"{_x(story, story.seconds)},{PODS[1]}"
    for name, points in (("wait", story.wanted), ("run", story.running)):
        shape = _steps(story, points, PODS, most)
        yield f'<polygon class="{name}" points="{shape} {end}"/>'
    yield from _label(PODS, "pods", f"up to {most:.0f}")
    for x, name, label in ((RIGHT - 170, "wait", "waiting"), (RIGHT - 80, "run", "running")):
        yield f'<rect class="{name}" x="{x}" y="18" width="12" height="12" rx="2"/>'
        yield _text(x + 18, 29, label)


def _bars(story: Story) -> Iterable[str]:
    height = (MACHINES[1] - MACHINES[0]) / max(1, len(story.machines))
    for index, machine in enumerate(story.machines):
        x, y = _x(story, machine.start), round(MACHINES[0] + index * height, 1)
        width = round(_x(story, machine.end) - x, 1)
        yield (
            f'<rect class="machine" x="{x}" y="{y}" width="{width}" height="{min(10, height - 4):.1f}" rx="3"/>'
        )
        yield _text(x, y + 24, machine.name, "label")
    yield from _label(MACHINES, "machines", f"{len(story.machines)} in all")


def _cost(story: Story) -> Iterable[str]:
    most = max(value for _, value in story.cost)
    yield f'<polyline class="cost" points="{_steps(story, story.cost, COST, most)}"/>'
    for (at, value), (until, _) in zip(
        story.cost, [*story.cost[1:], (story.seconds, 0.0)], strict=True
    ):
        if value and until - at > story.seconds / 12:
            y = round(COST[1] - (COST[1] - COST[0]) * value / most - 6, 1)
            yield _text(_x(story, at) + 5, y, f"${value:.2f} an hour", "label")
    yield from _label(COST, "cost", "list price")


def _label(strip: tuple[int, int], name: str, more: str) -> Iterable[str]:
    middle = (strip[0] + strip[1]) / 2
    yield _text(20, middle - 2, name, "label")
    yield _text(20, middle + 15, more)
    yield f'<line class="axis" x1="{LEFT}" y1="{strip[1]}" x2="{RIGHT}" y2="{strip[1]}"/>'


def _axis(story: Story) -> Iterable[str]:
    for at in range(0, int(story.seconds) + 1, 10):
        yield _text(_x(story, at), COST[1] + 20, f"{at} s", anchor="middle")


def main() -> None:
    """Reads the report, draws it, and writes the SVG file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("report", type=Path, help="the file written by `dovetail demo --report`")
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--title", required=True)
    given = parser.parse_args()
    story = story_of(json.loads(given.report.read_text()))
    given.output.write_text(draw(story, given.title))


if __name__ == "__main__":
    main()
