"""Ends instances that no machine owns, on the launcher's order (LCH-81, F24).

The order only names an instance. Whose it is, is read here, from EC2 and the API server, in two looks (R7): a late,
doubled or forged order ends nothing that somebody owns. The launch records are read before the machines: a launch that
ends in between has written down its instance by then.

What may go wrong: a machine cannot be read. It may own any instance, so nothing is ended. The launcher repeats its
order as long as the instance looks lost to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.terminator.batched_lists import Listings
from services.terminator.instances import UNKNOWN, Instances
from shared.clock import Clock
from shared.cloud.ownership import GONE_STATES, TOKEN_TAG, is_ours, machine_of
from shared.cloud.records import Instance
from shared.domain.launches import is_wanted
from shared.domain.nodes import provider_instance_id
from shared.errors import InvalidObject, NotFound
from shared.kube.machines import Machines, provider_id_in
from shared.log import get_logger
from shared.mirror.shifted_zones import ShiftedZones

log = get_logger(__name__)

LOOKS_APART_SECONDS = 5.0
"""Longer than EC2's last word is taken for fresh."""
DONE, AGAIN = True, False


@dataclass
class Strays:
    """One step at a time, by instance id. A restart forgets the first looks, and the next order repeats them."""

    machines: Machines
    listings: Listings
    instances: Instances
    shifted: ShiftedZones
    clock: Clock
    cluster: str
    _first_looks: dict[str, float] = field(default_factory=dict)
    """Instance id -> when it was first seen to be nobody's, monotonic."""

    async def step(self, instance_id: str) -> bool:
        """Look, and end what was nobody's in two looks. DONE when there is nothing left to do. Raises EC2's answers."""
        first = self._first_looks.get(instance_id)
        if first is not None and self.clock.monotonic() - first < LOOKS_APART_SECONDS:
            return AGAIN
        sighting = await self.instances.look(instance_id)
        if sighting.state == UNKNOWN:
            return AGAIN
        if sighting.instance is None or sighting.state in GONE_STATES:
            return self._forget(instance_id)
        if why := await self._why_not(sighting.instance):
            log.warning("not ending the instance", id=instance_id, why=why)
            return self._forget(instance_id)
        if first is None:
            self._first_looks[instance_id] = self.clock.monotonic()
            return AGAIN
        log.warning("terminating instance without a machine", id=instance_id)
        await self.instances.terminate(instance_id)
        return self._forget(instance_id)

    async def _why_not(self, instance: Instance) -> str:
        """Why it may not be ended; empty when nothing speaks for it."""
        if not is_ours(instance, self.cluster):
            return "its tags do not say that this cluster launched it"
        if instance.zone in await self.shifted.current():
            return "the cluster is shifted away from its zone"
        records = await self.listings.launch_records()
        machines, unreadable = await self.listings.all_machines()
        if any(one for one in machines if provider_instance_id(one.provider_id) == instance.id):
            return "a machine owns it"
        named = [provider_instance_id(provider_id_in(raw)) for raw in unreadable]
        if instance.id in named or "" in named:
            return "a machine that cannot be read may own it"
        token = instance.tags.get(TOKEN_TAG)
        uids = [str(raw["metadata"]["uid"]) for raw in unreadable]
        open_ones = (record for record in records if record["metadata"]["name"] == token)
        if any(is_wanted(record, machines, uids) for record in open_ones):
            return "an open launch will adopt it"
        return await self._claim_on(instance)

    async def _claim_on(self, instance: Instance) -> str:
        """The machine that its tags name is asked for by name: the list may have left it out (F23)."""
        key = machine_of(instance)
        if not key:
            return ""
        try:
            machine = await self.machines.get(key)
        except NotFound:
            return ""
        except InvalidObject:
            return f"{key} cannot be read and may own it"
        if provider_instance_id(machine.provider_id) == instance.id:
            return f"{key} owns it, although the list of machines left it out"
        return ""

    def _forget(self, instance_id: str) -> bool:
        self._first_looks.pop(instance_id, None)
        self.instances.forget(instance_id)
        return DONE
