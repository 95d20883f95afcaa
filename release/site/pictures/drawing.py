"""Boxes, arrows and words of the drawn pictures, as SVG without a foreign address, in a light and a dark scheme.

Lengths are pixels of a picture 860 wide. A picture has its own paper, so it can be read on any page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH = 860
LINE = 17
_LIGHT = {
    "paper": "#ffffff",
    "ink": "#1f2328",
    "quiet": "#59636e",
    "edge": "#59636e",
    "lane": "#f6f8fa",
    "service": "#ddf4ff",
    "service-edge": "#0969da",
    "cluster": "#eaeef2",
    "cluster-edge": "#6e7781",
    "aws": "#fff1e5",
    "aws-edge": "#bc4c00",
    "redis": "#ffebe9",
    "redis-edge": "#cf222e",
    "good": "#dafbe1",
    "good-edge": "#1a7f37",
    "wait": "#fff8c5",
    "wait-edge": "#9a6700",
}
_DARK = {
    "paper": "#0d1117",
    "ink": "#f0f6fc",
    "quiet": "#9198a1",
    "edge": "#9198a1",
    "lane": "#151b23",
    "service": "#0c2d6b",
    "service-edge": "#4493f8",
    "cluster": "#21262d",
    "cluster-edge": "#9198a1",
    "aws": "#4a1f00",
    "aws-edge": "#f0883e",
    "redis": "#5a1016",
    "redis-edge": "#f85149",
    "good": "#04260f",
    "good-edge": "#3fb950",
    "wait": "#3b2300",
    "wait-edge": "#d29922",
}
_STYLE = """text { font: 13px system-ui, "DejaVu Sans", sans-serif; fill: %(ink)s; }
.title { font-weight: 600; } .quiet { fill: %(quiet)s; font-size: 12px; } .paper { fill: %(paper)s; }
.word { fill: %(quiet)s; font-size: 12px; paint-order: stroke; stroke: %(paper)s;
stroke-width: 5; stroke-linejoin: round; }
.lane { fill: %(lane)s; } .arrow { fill: none; stroke: %(edge)s; stroke-width: 1.6; } .head { fill: %(edge)s; }
.dashed { stroke-dasharray: 5 4; }"""
_KINDS = ("service", "cluster", "aws", "redis", "good", "wait")


def _scheme(colours: dict[str, str]) -> str:
    kinds = (
        f".{kind} {{ fill: {colours[kind]}; stroke: {colours[f'{kind}-edge']}; stroke-width: 1.4; }}"
        for kind in _KINDS
    )
    return " ".join([(_STYLE % colours).replace("\n", " "), *kinds])


@dataclass
class Picture:
    """A picture that is being drawn; later shapes lie on earlier ones."""

    title: str
    description: str
    """What the picture shows, for those who cannot see it."""
    height: int
    parts: list[str] = field(default_factory=list)

    def lane(self, y: int, height: int, words: str) -> None:
        """A band across the picture with a name at its left end."""
        self.parts.append(
            f'<rect class="lane" x="10" y="{y}" width="{WIDTH - 20}" height="{height}" rx="8"/>'
        )
        self._words(22, y + 20, words, "quiet")

    def box(
        self, kind: str, place: tuple[int, int], size: tuple[int, int], title: str, *lines: str
    ) -> None:
        """A box of one of the kinds, with a title and smaller lines, centred."""
        (x, y), (width, height) = place, size
        self.parts.append(
            f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'
        )
        top = y + (height - LINE * len(lines)) / 2 + 4
        self._words(x + width / 2, top, title, "title", "middle")
        for number, line in enumerate(lines, 1):
            self._words(x + width / 2, top + LINE * number, line, "quiet", "middle")

    def arrow(
        self,
        points: Sequence[tuple[int, int]],
        words: str = "",
        at: tuple[int, int] | None = None,
        anchor: str = "middle",
        dashed: bool = False,
    ) -> None:
        """A line along the points with a head at its end, and words at a place (else: on the middle of the line)."""
        path = " ".join(f"{x},{y}" for x, y in points)
        kind = "arrow dashed" if dashed else "arrow"
        self.parts.append(f'<polyline class="{kind}" points="{path}" marker-end="url(#head)"/>')
        if words:
            (x, y), (to_x, to_y) = points[0], points[-1]
            place = at or ((x + to_x) // 2, (y + to_y) // 2 - 6)
            self._words(*place, words, "word", anchor)

    def words(
        self, place: tuple[int, int], text: str, kind: str = "", anchor: str = "start"
    ) -> None:
        """Words at a place of their own."""
        self._words(*place, text, kind, anchor)

    def _words(self, x: float, y: float, text: str, kind: str, anchor: str = "start") -> None:
        self.parts.append(
            f'<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self) -> str:
        """The file's text."""
        style = f"{_scheme(_LIGHT)} @media (prefers-color-scheme: dark) {{ {_scheme(_DARK)} }}"
        head = (
            '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
            '<path class="head" d="M0,0 L10,5 L0,10 z"/></marker>'
        )
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" role="img">',
                f"<title>{escape(self.title)}</title><desc>{escape(self.description)}</desc><style>{style}</style>",
                f"<defs>{head}</defs>",
                f'<rect class="paper" width="{WIDTH}" height="{self.height}" rx="8"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )
