"""The volumes that are attached to a node, against the limits of its CSINode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

Attachment = tuple[str, str]
"""(CSI driver, ``namespace/name`` of the claim)."""


@dataclass
class Attachments:
    """Volumes attached to one node, by driver (SCH-91). A driver that is not in ``limits`` has no limit."""

    limits: Mapping[str, int] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)

    def excess(self, wanted: Iterable[Attachment]) -> str:
        """The reason why these claims cannot be attached too (SCH-55); empty when they can."""
        coming: dict[str, set[str]] = {}
        for driver, claim in wanted:
            if driver in self.limits and claim not in self.held.get(driver, ()):
                coming.setdefault(driver, set()).add(claim)
        for driver, claims in coming.items():
            count, limit = len(self.held.get(driver, ())) + len(claims), self.limits[driver]
            if count > limit:
                return (
                    f"checking volume usage, {count} volumes of {driver} exceed the limit {limit}"
                )
        return ""

    def add(self, wanted: Iterable[Attachment]) -> None:
        """Adds these claims to the node."""
        for driver, claim in wanted:
            self.held.setdefault(driver, set()).add(claim)
