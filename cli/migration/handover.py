"""The steps by which Dovetail takes over from Karpenter, and gives back.

The order matters. Going there: pools are halted before Karpenter stops, so that Dovetail replaces nothing at first.
Karpenter is stopped before Dovetail acts: Dovetail waits for its Lease. Coming back: Dovetail has given up the Lease
before anything is written that only Karpenter may read, and Karpenter is started last. Every step can be repeated, so a
command that breaks off is simply given again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cli.migration.inventory import CLAIMS, CLASSES, DEPLOYMENTS, POOLS, Inventory, read_cluster
from cli.migration.report import HASHES, leftover_taints, missing_tags, pool_of
from shared.api.registry import title_of
from shared.cloud.client.session import Cloud
from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.nodes import provider_instance_id
from shared.errors import ConfigurationError, Conflict, NotFound, Unavailable
from shared.kube.client import Kube
from shared.kube.lease import Record, read_record
from shared.kube.resources import LEASES, NODES, Resource
from shared.runtime.karpenter_lease import GIVE_BACK, HOLDER, QUIET_SECONDS

Json = Mapping[str, Any]
HALTED, HALTED_BEFORE = "halted", "halted-before"
"""``halted-before``: somebody else had halted the pool, and it stays halted."""
REPLICAS = "dovetail.sh/replicas-before"
"""On Karpenter's Deployment: its replicas before it was stopped."""
OFF = "off"
WAIT_SECONDS = 180.0
PAUSE_SECONDS = 0.5


@dataclass
class Handover:
    """Takes the steps on one cluster. ``say`` reports each step when it begins."""

    kube: Kube
    clock: Clock
    say: Callable[[str], None]
    cloud: Cloud | None = None
    wait_seconds: float = WAIT_SECONDS

    async def take_over(self, inventory: Inventory, cluster: str) -> None:
        """Halt all pools, stop Karpenter, wait until Dovetail leads, then mend what Karpenter left half done."""
        for pool in inventory.pools:
            await self._halt(pool)
        await self._annotate_lease(inventory, None)
        for deployment in inventory.deployments:
            await self._stop(deployment)
        place = "/".join(inventory.lease_place)
        self.say(f"waiting until Dovetail holds the Lease {place}")
        hint = (
            f"{place} is not held by {HOLDER}, so Karpenter was started again: give Dovetail's services "
            f"KARPENTER_LEASE={place} and the right to this Lease, then repeat the command"
        )
        try:
            await self._until(lambda: self._led(inventory), hint)
        except Unavailable:
            # A cluster must not stay without any controller.
            for deployment in (await read_cluster(self.kube)).deployments:
                await self._start(deployment)
            raise
        fresh = await read_cluster(self.kube)
        fresh.instances = inventory.instances
        await self._remove_taints(fresh)
        await self._tag(fresh, cluster)

    async def release_pool(self, inventory: Inventory, pool: Json) -> None:
        """Let Dovetail disrupt the machines of one pool. Raises ConfigurationError while it does not lead."""
        if not await self._led(inventory):
            raise ConfigurationError(
                "Dovetail does not lead yet; first give: dovetail migrate karpenter --apply"
            )
        title = title_of(pool)
        hint = f"the machines of {title} have no hashes of Dovetail yet; look at the log of the watcher"
        self.say(f"waiting until the machines of {title} are adopted")
        await self._until(lambda: self._adopted(title), hint)
        await self._annotate(POOLS, pool, _released(pool))
        self.say(f"{title}: Dovetail may consolidate, replace and expire its machines")

    async def halt_pool(self, pool: Json) -> None:
        """The opposite of ``release_pool``."""
        await self._halt(pool)

    async def give_back(self, inventory: Inventory) -> None:
        """Halt all pools, make Dovetail give up the Lease, take its hashes off, and start Karpenter."""
        for pool in inventory.pools:
            await self._halt(pool)
        self.say("waiting until commands that Dovetail began are over")
        await self._until(
            self._no_commands, "a machine still has the annotation dovetail.sh/command"
        )
        await self._annotate_lease(inventory, "true")
        self.say("waiting until every service of Dovetail has given up the Lease")
        await self._until(Quiet(self, inventory).freed, f"the Lease is still held by {HOLDER}")
        fresh = await read_cluster(self.kube)
        for kinds, objects in (
            (POOLS, fresh.pools),
            (CLASSES, fresh.classes),
            (CLAIMS, fresh.claims),
        ):
            for one in objects:
                await self._annotate(kinds, one, without_our_hashes(one))
        for pool in fresh.pools:
            await self._annotate(POOLS, pool, _released(pool))
        for deployment in inventory.deployments:
            await self._start(deployment)

    async def _halt(self, pool: Json) -> None:
        held = pool["metadata"].get("annotations") or {}
        if held.get(keys.MIGRATION_ANNOTATION) and held.get(keys.DISRUPTION_ANNOTATION) == OFF:
            return
        before = held.get(keys.DISRUPTION_ANNOTATION) == OFF
        self.say(f"{title_of(pool)}: no machine is disrupted until it is released")
        changes = {
            keys.DISRUPTION_ANNOTATION: OFF,
            keys.MIGRATION_ANNOTATION: HALTED_BEFORE if before else HALTED,
        }
        await self._annotate(POOLS, pool, changes)

    async def _annotate(
        self, kinds: Mapping[str, Resource], document: Json, changes: Mapping[str, str | None]
    ) -> None:
        """One that is gone needs nothing."""
        if not changes:
            return
        try:
            await self.kube.patch(
                kinds[document["kind"]], document["metadata"]["name"],
                {"metadata": {"annotations": dict(changes)}},
            )  # fmt: skip
        except NotFound:
            return

    async def _annotate_lease(self, inventory: Inventory, value: str | None) -> None:
        namespace, name = inventory.lease_place
        body = {"metadata": {"annotations": {GIVE_BACK: value}}}
        try:
            await self.kube.patch(LEASES, name, body, namespace)
        except NotFound:
            return  # nobody ever led

    async def _stop(self, deployment: Json) -> None:
        replicas = (deployment.get("spec") or {}).get("replicas", 1)
        if not replicas:
            return
        self.say(f"{title_of(deployment)}: from {replicas} replicas to 0")
        await self._scale(deployment, 0, str(replicas))

    async def _start(self, deployment: Json) -> None:
        before = (deployment["metadata"].get("annotations") or {}).get(REPLICAS, "")
        if not before.isdigit():
            self.say(f"{title_of(deployment)}: was not stopped by this command; scale it yourself")
            return
        self.say(f"{title_of(deployment)}: to {before} replicas")
        await self._scale(deployment, int(before), None)

    async def _scale(self, deployment: Json, replicas: int, note: str | None) -> None:
        metadata = deployment["metadata"]
        body = {"metadata": {"annotations": {REPLICAS: note}}, "spec": {"replicas": replicas}}
        await self.kube.patch(DEPLOYMENTS, metadata["name"], body, metadata["namespace"])

    async def _led(self, inventory: Inventory) -> bool:
        return await self._holder(inventory) == HOLDER

    async def _holder(self, inventory: Inventory) -> str:
        record = await self.lease_record(inventory)
        return record.holder if record else ""

    async def lease_record(self, inventory: Inventory) -> Record | None:
        """None where nobody ever led."""
        namespace, name = inventory.lease_place
        try:
            return read_record(await self.kube.get(LEASES, name, namespace))
        except NotFound:
            return None

    async def free_lease(self, inventory: Inventory, record: Record) -> bool:
        """Nobody holds it any more; False when it changed since ``record``."""
        namespace, name = inventory.lease_place
        body = {"metadata": {"resourceVersion": record.version}, "spec": {"holderIdentity": ""}}
        try:
            await self.kube.patch(LEASES, name, body, namespace)
        except Conflict:
            return False
        return True

    async def _adopted(self, pool: str) -> bool:
        """Every machine of the pool has hashes of ours, is drifted already, or is being deleted."""
        claims = (await read_cluster(self.kube)).claims
        return all(is_adopted(one) for one in claims if pool_of(one) == pool)

    async def _no_commands(self) -> bool:
        claims = (await read_cluster(self.kube)).claims
        return not any(
            keys.COMMAND_ANNOTATION in (one["metadata"].get("annotations") or {})
            and not one["metadata"].get("deletionTimestamp")
            for one in claims
        )

    async def _remove_taints(self, inventory: Inventory) -> None:
        """Of claims that are not being deleted; the version makes it a compare-and-set."""
        kept = {
            (one.get("status") or {}).get("providerID")
            for one in inventory.claims
            if not one["metadata"].get("deletionTimestamp")
            and keys.COMMAND_ANNOTATION not in (one["metadata"].get("annotations") or {})
        }
        for node in inventory.nodes:
            leftover = leftover_taints(node)
            if not leftover or node["spec"].get("providerID") not in kept:
                continue
            taints = [one for one in node["spec"]["taints"] if one not in leftover]
            metadata = node["metadata"]
            self.say(f"Node/{metadata['name']}: the taint of an unfinished disruption is removed")
            version = {"resourceVersion": metadata["resourceVersion"]}
            body = {"metadata": version, "spec": {"taints": taints}}
            await self.kube.patch(NODES, metadata["name"], body)

    async def _tag(self, inventory: Inventory, cluster: str) -> None:
        if self.cloud is None or inventory.instances is None:
            return
        for claim in inventory.claims:
            name = provider_instance_id(str((claim.get("status") or {}).get("providerID") or ""))
            instance = inventory.instances.get(name)
            tags = missing_tags(claim, instance, cluster) if instance else {}
            if tags:
                self.say(f"{name}: {len(tags)} tags")
                await self.cloud.ec2.tag([name], tags)

    async def _until(self, reached: Callable[[], Awaitable[bool]], hint: str) -> None:
        """Raises Unavailable with the hint after ``wait_seconds``."""
        deadline = self.clock.monotonic() + self.wait_seconds
        while not await reached():
            if self.clock.monotonic() > deadline:
                raise Unavailable(f"after {self.wait_seconds:.0f} s: {hint}")
            await asyncio.sleep(PAUSE_SECONDS)


@dataclass
class Quiet:
    """Watches for how long no service has renewed the Lease."""

    handover: Handover
    inventory: Inventory
    _version: str = ""
    _since: float = 0.0

    async def freed(self) -> bool:
        """Whether the Lease is not Dovetail's, after freeing it when no service can act by it any more."""
        record = await self.handover.lease_record(self.inventory)
        if record is None or record.holder != HOLDER:
            return True
        now = self.handover.clock.monotonic()
        if record.version != self._version:
            self._version, self._since = record.version, now
        if now - self._since < QUIET_SECONDS:
            return False
        return await self.handover.free_lease(self.inventory, record)


def is_adopted(claim: Json) -> bool:
    """Whether drift of a claim is judged by Dovetail's hashes, or by nothing: pure."""
    metadata = claim["metadata"]
    drifted = any(
        one.get("type", "").endswith("Drifted") and one.get("status") == "True"
        for one in (claim.get("status") or {}).get("conditions") or ()
    )
    held = metadata.get("annotations") or {}
    return keys.HASHED_BY in held or drifted or bool(metadata.get("deletionTimestamp"))


def without_our_hashes(document: Json) -> dict[str, None]:
    """The changes that take Dovetail's hashes off an object: pure.

    Karpenter gives an object without hashes today's, and does not call it drifted; a foreign hash of its own version it
    would call drift, and replace every node.
    """
    held = document["metadata"].get("annotations") or {}
    if keys.HASHED_BY not in held:
        return {}
    return dict.fromkeys([name for name in (*HASHES, keys.HASHED_BY) if name in held])


def _released(pool: Json) -> dict[str, None]:
    """The annotations of the halt; one that somebody else set stays."""
    mark = (pool["metadata"].get("annotations") or {}).get(keys.MIGRATION_ANNOTATION)
    if not mark:
        return {}
    return (
        {keys.MIGRATION_ANNOTATION: None}
        if mark == HALTED_BEFORE
        else {keys.MIGRATION_ANNOTATION: None, keys.DISRUPTION_ANNOTATION: None}
    )
