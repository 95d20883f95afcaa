"""A node or planned machine as topology rules see it: name, labels, taints and reachable zones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from shared.domain.requirements import Requirement, Requirements


@dataclass(slots=True, eq=False)
class Host:
    """A node, or a planned machine (``is_new``)."""

    name: str
    requirements: Requirements
    is_new: bool = False
    zones: frozenset[str] | None = None
    """Zones that its pool can reach; None for a node, whose labels are final."""
    taints: tuple[Taint, ...] = ()
    zone_ids: Mapping[str, str] = field(default_factory=dict)
    """Zone -> zone id, as far as the pool's subnets have one."""
    _decided: dict[str, list[str] | None] | None = None

    def pinned(self, requirements: Requirements) -> Requirements:
        """Requirements with zone and zone id narrowed to the same places, if they ask for a zone id."""
        if self.zones is None or keys.ZONE_ID not in requirements:
            return requirements
        zone, zone_id = requirements.get(keys.ZONE), requirements.get(keys.ZONE_ID)
        ids = {
            z: self.zone_ids[z]
            for z in self.zones
            if z in self.zone_ids
            and (zone is None or zone.has(z))
            and (zone_id is None or zone_id.has(self.zone_ids[z]))
        }
        return requirements.add(
            Requirement(keys.ZONE, False, frozenset(ids)),
            Requirement(keys.ZONE_ID, False, frozenset(ids.values())),
        )

    def reaches(self, key: str) -> frozenset[str] | None:
        """The domains of a topology key that its pool can reach; None: only the requirements limit them."""
        if self.zones is None or key not in (keys.ZONE, keys.ZONE_ID):
            return None
        if key == keys.ZONE:
            return self.zones
        return frozenset(self.zone_ids[z] for z in self.zones if z in self.zone_ids)

    def decided(self, key: str) -> list[str] | None:
        """The one domain of a topology key that the host's requirements leave, as a list; empty when its pool does not
        reach it; None while there may be several. Kept, since most pods come to hosts whose place is decided."""
        if self._decided is None:
            self._decided = {}
        if key not in self._decided:
            self._decided[key] = self._decide(key)
        return self._decided[key]

    def _decide(self, key: str) -> list[str] | None:
        allowed = self.requirements.get(key)
        value = None if allowed is None else allowed.single_value
        if value is None:
            return None
        reachable = self.reaches(key)
        return [value] if reachable is None or value in reachable else []

    def is_tolerated(self, tolerations: tuple[Toleration, ...]) -> bool:
        """As kube-scheduler counts for nodeTaintsPolicy: PreferNoSchedule taints exclude no node."""
        hard = tuple(t for t in self.taints if t.effect != PREFER_NO_SCHEDULE)
        return first_untolerated(hard, tolerations) is None
