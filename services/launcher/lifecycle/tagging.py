"""Names the instance after its node and NodeClaim, once they are known (LCH-56).

One CreateTags a second at most: with hundreds of new nodes the API calls are needed for launches. A tag that is on the
instance already stays: the user's own Name wins. A crash between the tag and the annotation repeats the tag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from shared.cloud.client.session import Cloud
from shared.cloud.ec2.ownership import NAME_TAG
from shared.cloud.ec2.records import Instance
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import REGISTERED, Machine
from shared.domain.nodes import provider_instance_id, provider_zone
from shared.errors import Conflict, NotFound
from shared.kube.machines import Machines
from shared.kube.transport.pacing import TokenBucket
from shared.log import get_logger
from shared.redis.mirror.catalogue.shifted_zones import ShiftedZones

log = get_logger(__name__)

PERIOD_SECONDS = 15.0
CALLS_PER_SECOND = 1.0
MOST_PER_ROUND = 15


def needs_tags(machine: Machine) -> bool:
    """Pure: a registered NodeClaim that was not tagged yet. v1alpha5 Machines have all their tags from the launch."""
    return (
        machine.api.own_tags
        and machine.has(REGISTERED)
        and not machine.terminating
        and bool(machine.node_name)
        and bool(provider_instance_id(machine.provider_id))
        and machine.annotations.get(keys.TAGGED_ANNOTATION) != "true"
    )


def tags_due(machine: Machine, instance: Instance) -> dict[str, str]:
    """Pure: what the instance still lacks."""
    desired = {NAME_TAG: machine.node_name, keys.NODE_CLAIM_TAG: machine.name}
    return {key: value for key, value in desired.items() if key not in instance.tags}


@dataclass
class Tagging:
    """Works through the NodeClaims that wait for their tags, oldest first."""

    machines: Machines
    listed: Callable[[], Sequence[Machine]]
    """The machines as they were listed last."""
    cloud: Cloud
    clock: Clock
    shifted: ShiftedZones
    bucket: TokenBucket = field(init=False)
    _tagged: set[str] = field(default_factory=set)
    """UIDs of machines that were tagged since they were listed."""

    def __post_init__(self) -> None:
        self.bucket = TokenBucket(CALLS_PER_SECOND, 1, self.clock)

    async def tag_some(self) -> None:
        """Tag the instances of the NodeClaims that wait longest, at most MOST_PER_ROUND."""
        shifted = await self.shifted.current()
        untagged = [machine for machine in self.listed() if needs_tags(machine)]
        self._tagged &= {machine.uid for machine in untagged}
        waiting = [
            machine
            for machine in untagged
            if machine.uid not in self._tagged and provider_zone(machine.provider_id) not in shifted
        ]
        waiting.sort(key=lambda machine: (machine.created_at, machine.name))
        due = {provider_instance_id(m.provider_id): m for m in waiting[:MOST_PER_ROUND]}
        if not due:
            return
        for instance in await self.cloud.ec2.instances(ids=due):
            await self._tag(due[instance.id], instance)

    async def _tag(self, machine: Machine, instance: Instance) -> None:
        tags = tags_due(machine, instance)
        try:
            if tags:
                await self.bucket.acquire()
                await self.cloud.ec2.tag([instance.id], tags)
            await self.machines.patch(machine, {"annotations": {keys.TAGGED_ANNOTATION: "true"}})
        except (NotFound, Conflict) as error:
            log.debug("not tagged yet", machine=machine.name, error=error.message)
            return
        self._tagged.add(machine.uid)
        log.debug("tagged instance", machine=machine.name, id=instance.id, tags=tags)
