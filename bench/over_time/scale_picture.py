"""Draws ``bench.over_time.scale`` as SVG: pods, machines and cost above one axis of time, in the reader's colours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol
from xml.sax.saxutils import escape

from bench.story_picture import DARK, LIGHT, style

WIDTH, HEIGHT = 860, 440
LEFT, RIGHT = 110, 836
STRIPS = ((56, 160), (186, 280), (306, 392))
"""Top and bottom of each chart, in pixels."""
HALF_HOUR = 1800.0


class Moment(Protocol):
    """What is drawn of one moment; ``at`` in seconds from the beginning."""

    @property
    def at(self) -> float: ...
    @property
    def wanted(self) -> int: ...
    @property
    def running(self) -> int: ...
    @property
    def machines(self) -> int: ...
    @property
    def micro_usd_per_hour(self) -> int: ...


Value = Callable[[Moment], float]


def draw(moments: Sequence[Moment], title: str) -> str:
    """The whole SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{escape(title)}</title><style>{style(LIGHT, DARK)}</style>",
        f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<text x="20" y="30" class="title">{escape(title)}</text>',
        *_chart(
            moments, STRIPS[0], "pods", {"wait": lambda m: m.wanted, "run": lambda m: m.running}
        ),
        *_chart(moments, STRIPS[1], "machines", {"machine": lambda m: m.machines}),
        *_chart(moments, STRIPS[2], "$ an hour", {"cost": lambda m: m.micro_usd_per_hour / 1e6}),
        *_axis(moments[-1].at),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _chart(
    moments: Sequence[Moment], strip: tuple[int, int], name: str, values: dict[str, Value]
) -> Iterator[str]:
    """One area per value, the first behind the others; a cost is a line."""
    top, bottom = strip
    most = max(1e-9, *(value(m) for value in values.values() for m in moments))
    yield f'<text x="20" y="{(top + bottom) / 2 - 2}" class="label">{name}</text>'
    yield f'<text x="20" y="{(top + bottom) / 2 + 15}">up to {most:,.0f}</text>'
    for kind, value in values.items():
        points = _points(moments, strip, value, most)
        if kind == "cost":
            yield f'<polyline class="cost" points="{points}"/>'
        else:
            yield f'<polygon class="{kind}" points="{LEFT},{bottom} {points} {RIGHT},{bottom}"/>'
    yield f'<line class="axis" x1="{LEFT}" y1="{bottom}" x2="{RIGHT}" y2="{bottom}"/>'


def _points(moments: Sequence[Moment], strip: tuple[int, int], value: Value, most: float) -> str:
    top, bottom = strip
    end = moments[-1].at
    found = (
        f"{_x(m.at, end)},{round(bottom - (bottom - top) * value(m) / most, 1)}" for m in moments
    )
    return " ".join(found)


def _x(at: float, end: float) -> float:
    return round(LEFT + (RIGHT - LEFT) * at / max(end, 1.0), 1)


def _axis(end: float) -> Iterator[str]:
    for number in range(int(end / HALF_HOUR) + 1):
        x = _x(number * HALF_HOUR, end)
        yield f'<text x="{x}" y="{STRIPS[-1][1] + 24}" text-anchor="middle">{number * 30} min</text>'
