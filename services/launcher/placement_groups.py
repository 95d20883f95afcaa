"""The placement group that a node class's machines are launched into (EC-06).

What may go wrong: no group of that name or id, or one that is being deleted: ``InvalidObject`` names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.clock import Clock
from shared.cloud.session import Cloud
from shared.domain import labels as keys
from shared.domain.nodepools import NodeClass
from shared.errors import InvalidObject

NOT_FOUND = "PlacementGroupNotFound"
FRESH_SECONDS = 24 * 3600.0
"""LCH-90."""
MOST_KNOWN = 1000
GROUP_LABEL = keys.AWS_PREFIX + "placement-group-id"


@dataclass
class PlacementGroups:
    """Remembers which groups exist."""

    cloud: Cloud
    clock: Clock
    _seen: dict[tuple[tuple[str, str], ...], float] = field(default_factory=dict)
    _ids: dict[tuple[tuple[str, str], ...], str] = field(default_factory=dict)
    """Of the groups that were seen."""

    async def check(self, node_class: NodeClass) -> None:
        """Raises InvalidObject unless the class's group exists, or it names none."""
        selector = node_class.placement_group
        if not selector:
            return
        name = tuple(sorted(selector.items()))
        since, now = self._seen.get(name), self.clock.monotonic()
        if since is not None and now - since < FRESH_SECONDS:
            return
        found = await self.cloud.ec2.placement_groups(selector)
        if not found:
            shown = " ".join(f"{key} {value}" for key, value in name)
            raise InvalidObject(
                f"EC2 has no placement group with {shown}; make it, or select another",
                field="spec.placementGroupSelector",
                reason=NOT_FOUND,
            )
        if len(self._seen) >= MOST_KNOWN:
            self._seen.clear()
            self._ids.clear()
        self._seen[name], self._ids[name] = now, found[0].id

    def labels_of(self, node_class: NodeClass) -> dict[str, str]:
        """IT-44: what nodes of the class say of their group; nothing before it was checked."""
        found = self._ids.get(tuple(sorted(node_class.placement_group.items())))
        return {GROUP_LABEL: found} if found else {}
