"""ARC zonal shift as far as a node autoscaler uses it: GetManagedResource of the cluster (GAT-03), which moto lacks.

All resources share one shift state, because the emulator has one cluster.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

PATH = "/managedresources/"


class ZonalShifts:
    """The zones from which traffic is shifted away."""

    def __init__(self) -> None:
        self._zone_ids: set[str] = set()

    def set(self, zone_id: str, *, active: bool) -> None:
        """Start or end a shift."""
        if active:
            self._zone_ids.add(zone_id)
        else:
            self._zone_ids.discard(zone_id)

    def clear(self) -> None:
        """End all shifts."""
        self._zone_ids.clear()

    def resource(self, path: str) -> dict[str, Any]:
        """The answer of GetManagedResource."""
        arn = unquote(path.removeprefix(PATH))
        shifts = [
            {"appliedStatus": "APPLIED", "awayFrom": zone_id, "resourceIdentifier": arn}
            for zone_id in sorted(self._zone_ids)
        ]
        weights = dict.fromkeys(sorted(self._zone_ids), 0.0)
        return {"arn": arn, "appliedWeights": weights, "zonalShifts": shifts, "autoshifts": []}
