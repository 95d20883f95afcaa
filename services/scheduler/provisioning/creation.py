"""Turns the planned machines of a plan into Machines on the API server, and requests their launch.

Does anybody need a planned machine? That is read from the API server right before the machine is written: the mirror is
as of a moment ago, and the watcher may not have noticed yet that it misses changes. One read of a pod per machine, or
for many machines one list of the names of all pods without a node, proves that the pods still exist. What may go wrong:
the pods that were read are gone and others of the machine still wait; the next round plans for those.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol, TypeVar

from services.scheduler.actions import MachineActions, key_of
from services.scheduler.provisioning.gang_leftovers import gangs_of
from shared.api.core.pods import parse_pod
from shared.concurrency.parallel import in_parallel
from shared.domain import labels as keys
from shared.domain.devices.drivers import RequestedDrivers
from shared.domain.machines.machine import Machine
from shared.domain.resources import exceeded, sum_of
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import by_uid
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.virtual_pods import BUFFER, REQUEST
from shared.errors import AlreadyExists, DovetailError, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import CAPACITY_BUFFERS, PODS, PROVISIONING_REQUESTS
from shared.log import get_logger
from shared.solver.plan import Plan, PlannedMachine

log = get_logger(__name__)

Item = TypeVar("Item")
MOST_READ = 5
"""Pods of one machine, spread over all of them; after the first that needs it none is read."""
MANY_MACHINES = 20
"""From so many on a list is cheaper than a read for each: 500 pods in one answer of metadata."""
KEEPERS = {BUFFER: CAPACITY_BUFFERS, REQUEST: PROVISIONING_REQUESTS}
"""What keeps room for virtual pods."""
WITHOUT_NODE = "spec.nodeName=,status.phase=Pending"
CREATIONS_AT_ONCE = 16
"""Machines that are checked and written at the same time: the API server is shared with all other clients."""


@dataclass
class Need:
    kube: Kube

    async def listed(self, machines: int) -> frozenset[str]:
        """UIDs of all pods that wait for a node, when a list is cheaper for so many machines; else none. Raises as
        ``Kube.pages``."""
        if machines < MANY_MACHINES:
            return frozenset()
        found: set[str] = set()
        pages = self.kube.pages(PODS, field_selector=WITHOUT_NODE, metadata_only=True)
        async with aclosing(pages):
            async for page in pages:
                metadata = [item["metadata"] for item in page.items]
                found |= {one["uid"] for one in metadata if not one.get("deletionTimestamp")}
        return frozenset(found)

    async def is_proven(
        self, uids: Sequence[str], pods: Mapping[str, Pod], listed: Set[str] = frozenset()
    ) -> bool:
        """Whether one of these pods is as it was planned for. ``pods`` by UID, as planned; ``listed``: UIDs that are
        known to wait. Raises TransientError."""
        if not listed.isdisjoint(uids):
            return True
        known = [pods[uid] for uid in uids if uid in pods]
        keepers = {pod.owner.uid: pod for pod in known if pod.virtual and pod.owner}
        real = [pod for pod in known if not pod.virtual]
        for pod in (*spread(real, MOST_READ), *spread([*keepers.values()], MOST_READ)):
            with suppress(NotFound, InvalidObject):
                if await self._is_still_there(pod):
                    return True
        return False

    async def _is_still_there(self, pod: Pod) -> bool:
        """The pod; of a virtual one the object that keeps room for it."""
        if pod.owner is not None and pod.virtual:
            raw = await self.kube.get(KEEPERS[pod.owner.kind], pod.owner.name, pod.namespace)
            meta = raw["metadata"]
            return bool(meta["uid"] == pod.owner.uid and not meta.get("deletionTimestamp"))
        return still_needs(pod, parse_pod(await self.kube.get(PODS, pod.name, pod.namespace)))


def still_needs(planned: Pod, stored: Pod) -> bool:
    """The same pod, in the same place as when it was planned for, and still to run."""
    same = stored.uid == planned.uid and stored.node_name == planned.node_name
    return same and not stored.is_terminal and (planned.terminating or not stored.terminating)


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """At most so many, from all over the sequence."""
    if len(items) <= most:
        return list(items)
    return [items[index * len(items) // most] for index in range(most)]


class Creation(Protocol):
    """Creates planned machines."""

    async def create(
        self, desired: list[PlannedMachine], plan: Plan, snapshot: Snapshot
    ) -> list[PlannedMachine]:
        """Those of ``desired``, which belong to ``plan``, that exist now."""
        ...

    async def give_back(self, machines: Iterable[Machine]) -> None:
        """Delete these machines, which nothing runs on."""
        ...


@dataclass
class MachineCreation:
    """Creates Machines that somebody needs; ``actions`` writes none for a former leader."""

    actions: MachineActions
    need: Need

    async def create(
        self, desired: list[PlannedMachine], plan: Plan, snapshot: Snapshot
    ) -> list[PlannedMachine]:
        """Those of ``desired``, which belong to ``plan``, that exist now. One that fails does not stop the others."""
        pods = by_uid(snapshot.pods)
        waiting = await self._listed(len(desired))
        drivers = RequestedDrivers(snapshot)

        async def create(planned: PlannedMachine) -> bool:
            if not await self._is_needed(planned, pods, waiting):
                return False
            used = ",".join(drivers.of(planned.pods, planned.instance_type))
            known = {keys.GANG: gangs_of(planned, pods), keys.DRA_DRIVERS_ANNOTATION: used}
            noted = {key: value for key, value in known.items() if value}
            return await self._create_one(planned, plan, snapshot, noted)

        done = await in_parallel(map(create, desired), most=CREATIONS_AT_ONCE)
        return [planned for planned, ok in zip(desired, done, strict=True) if ok]

    async def _listed(self, machines: int) -> frozenset[str]:
        try:
            return await self.need.listed(machines)
        except DovetailError as error:
            log.info("pods are read one by one", error=error.message)
            return frozenset()

    async def _is_needed(
        self, planned: PlannedMachine, pods: Mapping[str, Pod], waiting: Set[str]
    ) -> bool:
        """No machine for pods that are gone or placed, whatever the mirror shows (BAT-05)."""
        try:
            needed = await self.need.is_proven(planned.pods, pods, waiting)
        except DovetailError as error:
            log.warning("cannot read pods", machine=planned.name, error=error.message)
            return False
        if not needed:
            log.info("nobody needs this machine any more", machine=planned.name)
        return needed

    async def give_back(self, machines: Iterable[Machine]) -> None:
        """Delete machines that were bought for a gang which cannot run. One that fails is tried again after the next
        plan."""
        for machine in machines:
            gangs = machine.annotations.get(keys.GANG, "")
            try:
                if await self.actions.delete(machine):
                    log.info("giving back the machine of a gang", machine=machine.name, gangs=gangs)
                    await self.actions.request_termination(machine, "gang", machine.uid)
            except DovetailError as error:
                log.warning("cannot give back a machine", machine=machine.name, error=error.message)

    async def _create_one(
        self, planned: PlannedMachine, plan: Plan, snapshot: Snapshot, noted: Mapping[str, str]
    ) -> bool:
        pool = next(pool for pool in snapshot.pools if pool.key == planned.pool_key)
        over = exceeded(sum_of([pool.usage]), pool.limits)
        if over:  # Limits are checked again when a Machine is created (BAT-08).
            log.warning("limit reached", pool=pool.name, resources=over)
            return False
        try:
            await self.actions.create(
                planned, snapshot, plan=plan.id, reason="provisioned", annotations=noted
            )
        except AlreadyExists:
            pass  # the same plan, made before a crash: only the launch request may be missing
        except DovetailError as error:
            log.warning("cannot create machine", machine=planned.name, error=error.message)
            return False
        await self.actions.request_launch(key_of(planned), plan.id)
        return True
