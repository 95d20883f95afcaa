"""The placement group that a node class's machines are launched into (EC-06).

What may go wrong: no group of that name or id, or one that is being deleted: ``InvalidObject`` names the field.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import PlacementGroup
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject

NOT_FOUND = "PlacementGroupNotFound"
GROUP_FRESH_SECONDS = 24 * 3600.0
"""How long a group counts as existing (LCH-90)."""
MOST_GROUPS_KNOWN = 1000
_Name = tuple[tuple[str, str], ...]


@dataclass
class PlacementGroups:
    cloud: Cloud
    clock: Clock
    _seen: dict[_Name, tuple[float, PlacementGroup]] = field(default_factory=dict)
    """When a group was seen, in monotonic seconds, and what it was."""

    async def find(self, node_class: NodeClass) -> PlacementGroup | None:
        """The class's group; None when it names none. Raises InvalidObject when there is no such group."""
        selector = node_class.placement_group
        if not selector:
            return None
        name, now = _name(node_class), self.clock.monotonic()
        known = self._seen.get(name)
        if known is not None and now - known[0] < GROUP_FRESH_SECONDS:
            return known[1]
        found = await self.cloud.ec2.placement_groups(selector)
        if not found:
            shown = " ".join(f"{key} {value}" for key, value in name)
            raise InvalidObject(
                f"EC2 has no placement group with {shown}; make it, or select another",
                field="spec.placementGroupSelector",
                reason=NOT_FOUND,
            )
        if len(self._seen) >= MOST_GROUPS_KNOWN:
            self._seen.clear()
        self._seen[name] = now, found[0]
        return found[0]

    def labels_of(self, node_class: NodeClass) -> dict[str, str]:
        """What nodes of the class say of their group; nothing before it was found (IT-44)."""
        known = self._seen.get(_name(node_class))
        return {keys.PLACEMENT_GROUP: known[1].id} if known else {}


def _name(node_class: NodeClass) -> _Name:
    return tuple(sorted(node_class.placement_group.items()))
