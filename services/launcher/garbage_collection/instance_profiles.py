"""Deletes instance profiles that were made for a role and serve nobody any more (EC-21).

A class whose role changes gets a new profile, and its older machines keep theirs: a profile goes when no class names it
and no instance has had it for an hour. What a deleted class had goes with the class (``node_class.finalizer``); what
was missed there goes here.

What may go wrong: EC2 lists too little. While a machine's instance is missing in the list, nothing is deleted: an
instance whose profile is gone loses its credentials.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from services.launcher.garbage_collection.inventory import our_instances
from services.launcher.node_class.instance_profiles import InstanceProfiles
from services.launcher.ports import Ports
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.cloud.ec2.records import Instance
from shared.domain.machines.machine import Machine
from shared.domain.nodes import provider_instance_id
from shared.errors import Unauthorized
from shared.kube.machines import Machines
from shared.kube.reading import list_if_served
from shared.kube.resources import EC2_NODE_CLASSES
from shared.log import get_logger

log = get_logger(__name__)

PERIOD_SECONDS = 1800.0
PROTECTED_SECONDS = 3600.0
"""How long a profile must be unused before it is deleted (LCH-90)."""


@dataclass
class UnusedInstanceProfiles:
    """Sweeps through the profiles of the cluster, again and again."""

    ports: Ports
    machines: Machines
    profiles: InstanceProfiles
    _unused_since: dict[str, float] = field(default_factory=dict)
    """Name -> monotonic time of the first sweep that found no use."""

    async def sweep(self) -> None:
        """Delete what nobody used for an hour. Where IAM cannot be reached there is nothing to do."""
        if self.ports.settings.isolated_vpc:
            return
        try:
            made = await self.profiles.made()
        except Unauthorized as error:
            log.info("cannot look for unused instance profiles", error=error.message)
            return
        if not made:
            self._unused_since.clear()
            return
        names, unreadable = await self._wanted()
        instances = await our_instances(self.ports.cloud.ec2, self.ports.settings.cluster_name)
        if not _is_complete(instances, await self.machines.list()):
            log.info("not looking for unused instance profiles: EC2 lists too few instances")
            return
        used = names | {one.profile for one in instances.values()}
        idle = {
            one.name: one
            for one in made
            if one.name not in used and not any(f"/{uid}/" in one.path for uid in unreadable)
        }
        now = self.ports.clock.monotonic()
        self._unused_since = {name: self._unused_since.get(name, now) for name in idle}
        for name, since in list(self._unused_since.items()):
            if now - since >= PROTECTED_SECONDS:
                await self.profiles.delete(idle[name])
                del self._unused_since[name]

    async def _wanted(self) -> tuple[set[str], set[str]]:
        """Names that classes have now, and the UIDs of classes that cannot be read."""
        names: set[str] = set()
        unreadable: set[str] = set()
        for raw in await list_if_served(self.ports.kube, EC2_NODE_CLASSES):
            node_class = parse_ec2_node_class(raw).record
            if node_class is None:
                unreadable.add(str(raw["metadata"]["uid"]))
            else:
                names.add(self.profiles.name_of(node_class))
        return names, unreadable


def _is_complete(instances: dict[str, Instance], machines: Iterable[Machine]) -> bool:
    """Does EC2 list the instance of every machine?"""
    launched = {provider_instance_id(one.provider_id) for one in machines if not one.terminating}
    return (launched - {""}) <= instances.keys()
