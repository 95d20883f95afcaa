"""Ends instances that no Machine owns, on the launcher's order (LCH-81, F24).

The order only names an instance. Whose it is, is read here from EC2 and the API server, twice and five seconds apart
(R7): a late, doubled or forged order ends nothing that has an owner.

An instance that the terminator may not end is left: one without the cluster's tag, which its policy asks for, without a
call, and one whose end EC2 refuses after one call for each order.

What may go wrong: a Machine cannot be read. It may own any instance, so nothing is ended. The launcher repeats its
order as long as it finds the instance orphaned.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from services.terminator.batched_lists import BatchedLists
from services.terminator.instances import UNKNOWN, Instances
from services.terminator.waiting.step import AGAIN, DONE, Step
from shared.cloud.ec2.ownership import (
    GONE_STATES,
    TOKEN_TAG,
    cluster_tag,
    is_ours,
    machine_of,
    may_be_ended,
)
from shared.cloud.ec2.records import Instance
from shared.concurrency.clock import Clock
from shared.domain.machines.launches import is_wanted
from shared.domain.nodes import provider_instance_id
from shared.errors import InvalidObject, Unauthorized
from shared.kube.machines import Machines, provider_id_in
from shared.kube.reading import or_none
from shared.log import get_logger
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones

log = get_logger(__name__)

CONFIRM_AFTER_SECONDS = 5.0
"""Longer than an answer of EC2 is used again."""


@dataclass
class OrphanedInstances:
    """One step at a time, by instance id. A restart forgets what was seen once, and the next order repeats it."""

    machines: Machines
    lists: BatchedLists
    instances: Instances
    shifted: ShiftedZones
    clock: Clock
    cluster: str
    _first_seen: dict[str, float] = field(default_factory=dict)
    """Instance id -> when it was first seen without an owner, monotonic."""

    async def step(self, instance_id: str) -> Step:
        """Read the owner, and end the instance when it had none twice. Raises EC2's errors."""
        first = self._first_seen.get(instance_id)
        if first is not None and self.clock.monotonic() - first < CONFIRM_AFTER_SECONDS:
            return AGAIN
        view = await self.instances.read(instance_id)
        if view.state == UNKNOWN:
            return AGAIN
        if view.instance is None or view.state in GONE_STATES:
            return self._forget(instance_id)
        if why := await self._why_not(view.instance):
            log.warning("not ending the instance", id=instance_id, why=why)
            return self._forget(instance_id)
        if first is None:
            self._first_seen[instance_id] = self.clock.monotonic()
            return AGAIN
        log.warning("terminating instance without a machine", id=instance_id)
        try:
            await self.instances.terminate(instance_id)
        except Unauthorized as error:
            text = "EC2 refuses the end of an instance without a machine; see deploy/iam"
            log.warning(text, id=instance_id, error=error.message)
        return self._forget(instance_id)

    async def _why_not(self, instance: Instance) -> str:
        """Why the instance may not be ended; empty: it may."""
        if not is_ours(instance, self.cluster):
            return "its tags do not say that this cluster launched it"
        if not may_be_ended(instance, self.cluster):
            return f"it lacks the tag {cluster_tag(self.cluster)}=owned; terminate it by hand"
        if instance.zone in await self.shifted.current():
            return "the cluster is shifted away from its zone"
        # Before the Machines: a launch that ends in between has written its instance on a Machine by then.
        records = await self.lists.launch_records()
        machines, unreadable = await self.lists.all_machines()
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
        return await self._owner_in_tags(instance)

    async def _owner_in_tags(self, instance: Instance) -> str:
        """Read the Machine that the tags name, by name: the list may have left it out (F23)."""
        key = machine_of(instance)
        if not key:
            return ""
        try:
            machine = await or_none(self.machines.get(key))
        except InvalidObject:
            return f"{key} cannot be read and may own it"
        if machine is not None and provider_instance_id(machine.provider_id) == instance.id:
            return f"{key} owns it, although the list of machines left it out"
        return ""

    def _forget(self, instance_id: str) -> Step:
        self._first_seen.pop(instance_id, None)
        self.instances.forget(instance_id)
        return DONE
