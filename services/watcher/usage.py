"""``status.resources`` of each Provisioner: the summed capacity of its machines (P-13)."""

from __future__ import annotations

from services.watcher.journal import Journal
from shared.domain.machines import Machine
from shared.domain.nodepools import NodePool
from shared.domain.records import MACHINES, NODE_POOLS, decode_record
from shared.domain.resources import add, format_resources
from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import PROVISIONERS


def usage_by_pool(machines: list[Machine]) -> dict[str, dict[str, int]]:
    """Pool name -> capacity of its launched machines that are not going away (NP-24)."""
    totals: dict[str, dict[str, int]] = {}
    for machine in machines:
        if not machine.terminating:
            totals[machine.pool] = add(totals.get(machine.pool, {}), machine.capacity)
    return totals


class Usage:
    """Writes the sums when they change."""

    def __init__(self, kube: Kube, journal: Journal) -> None:
        self._kube = kube
        self._journal = journal

    async def refresh(self) -> None:
        """Bring every pool's status up to date."""
        records = self._journal.records
        machines = [decode_record(MACHINES, body) for body in list(records[MACHINES].values())]
        totals = usage_by_pool(machines)
        for body in list(records[NODE_POOLS].values()):
            pool: NodePool = decode_record(NODE_POOLS, body)
            total = totals.get(pool.name, {})
            if total != {name: amount for name, amount in pool.usage.items() if amount}:
                await self._write(pool, total)

    async def _write(self, pool: NodePool, total: dict[str, int]) -> None:
        # A merge patch only adds keys, so a resource that is no longer there is set to zero.
        shown = format_resources({**dict.fromkeys(pool.usage, 0), **total})
        try:
            await self._kube.patch(
                PROVISIONERS, pool.name, {"status": {"resources": shown}}, subresource="status"
            )
        except NotFound:
            return
