"""The placement group that a node class's machines are launched into (EC-06).

What may go wrong: no group of that name or id, or one that is being deleted: ``InvalidObject`` names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.domain.nodepools import NodeClass
from shared.errors import InvalidObject

NOT_FOUND = "PlacementGroupNotFound"
FRESH_SECONDS = 24 * 3600.0
"""LCH-90."""
MOST_KNOWN = 1000


@dataclass
class PlacementGroups:
    """Remembers which groups exist."""

    cloud: Cloud
    clock: Clock
    _seen: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)

    async def check(self, node_class: NodeClass) -> None:
        """Raises InvalidObject unless the class's group exists, or it names none."""
        selector = node_class.placement_group
        if not selector:
            return
        name = tuple(sorted(selector.items()))
        since, now = self._seen.get(name), self.clock.monotonic()
        if since is not None and now - since < FRESH_SECONDS:
            return
        if not await self.cloud.ec2.placement_groups(selector):
            shown = " ".join(f"{key} {value}" for key, value in name)
            raise InvalidObject(
                f"EC2 has no placement group with {shown}; make it, or select another",
                field="spec.placementGroupSelector",
                reason=NOT_FOUND,
            )
        if len(self._seen) >= MOST_KNOWN:
            self._seen.clear()
        self._seen[name] = now
