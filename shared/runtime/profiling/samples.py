"""Stacks that were seen, and how often: pure. As collapsed text for flame graphs, and as a document of speedscope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

Stack = tuple[str, ...]
"""Frames from the outermost to the innermost, the thread's name first."""
MOST_STACKS = 20_000
MOST_FRAMES = 100
OTHER: Stack = ("(further stacks)",)
SCHEMA = "https://www.speedscope.app/file-format-schema.json"


@dataclass
class Samples:
    """At most ``most`` different stacks count apart; the others count together."""

    interval_seconds: float
    most: int = MOST_STACKS
    counts: dict[Stack, int] = field(default_factory=dict)
    passes: int = 0
    """How often all threads were looked at."""

    def add(self, stacks: Iterable[Stack]) -> None:
        """One pass over all threads."""
        self.passes += 1
        for stack in stacks:
            known = stack if stack in self.counts or len(self.counts) < self.most else OTHER
            self.counts[known] = self.counts.get(known, 0) + 1

    def collapsed(self) -> str:
        """One line for each stack: its frames with semicolons between, and its count. Most frequent first."""
        lines = (f"{';'.join(stack)} {count}\n" for stack, count in self._sorted())
        return "".join(lines)

    def speedscope(self, name: str) -> dict[str, Any]:
        """A sampled profile: weights are seconds."""
        frames: dict[str, int] = {}
        stacks = self._sorted()
        samples = [[frames.setdefault(one, len(frames)) for one in stack] for stack, _ in stacks]
        weights = [round(count * self.interval_seconds, 6) for _, count in stacks]
        profile = {
            "type": "sampled",
            "name": name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": round(sum(weights), 6),
            "samples": samples,
            "weights": weights,
        }
        return {
            "$schema": SCHEMA,
            "name": name,
            "exporter": "dovetail",
            "shared": {"frames": [{"name": one} for one in frames]},
            "profiles": [profile],
        }

    def _sorted(self) -> list[tuple[Stack, int]]:
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
