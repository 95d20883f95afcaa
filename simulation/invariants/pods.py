"""Pods: whatever plainly fits runs in the end.

Whether a pod fits is judged without the planner, by a rule simple enough to be seen to be right: a zone that its rules
about other pods leave open, a pool with room in its limits, and a type of EC2's catalogue that satisfies both, is for
sale, and is clearly large enough. Pods with rules that ``topology`` does not judge, with volumes or host ports are left
out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import msgspec

from local.aws.seeding import SUBNET_CIDRS
from shared.domain import labels
from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES
from shared.domain.workloads.pods import Pod
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES
from simulation.invariants.delivery import prefix_of
from simulation.invariants.launches import alive, pool_of
from simulation.invariants.picture import Picture
from simulation.invariants.topology import open_zones

if TYPE_CHECKING:
    from simulation.world import World

PATIENCE_SECONDS = 60.0
"""A pod younger than this may still be on its way."""
USABLE_SHARE = 0.7
"""Of a machine's CPU and memory a pod may use, after what the system keeps for itself."""
SYSTEM_CPU_MILLI = 300
SYSTEM_MEMORY_BYTES = 700 * 1024**2
MEBIBYTE = 1024**2
NO_ROOM: Mapping[str, float] = MappingProxyType({"cpu": 0.0, "memory": 0.0})
JUDGED = frozenset({labels.ZONE, labels.ARCH, labels.CAPACITY_TYPE})
"""Node labels that a pod may ask for and still be judged."""
Labels = Mapping[str, str]


@dataclass
class PodsRun:
    """I5, LCH-64: at the end every pod that plainly fits a pool runs, and none waits on a node that cannot start it."""

    picture: Picture
    name: str = "pods that fit somewhere run"

    def check(self, world: World) -> list[str]:
        """Pods that wait although a pool could run them."""
        self.picture.refresh(world)
        now, found = world.clock.now(), []
        waiting = [pod for pod in self.picture.pods() if waits(pod, now)]
        pools = (
            [pool for pool in self.picture.pools() if self._is_usable(pool, world)]
            if waiting
            else []
        )
        for pod in waiting:
            zones = open_zones(pod, _zones_of(pod, world), self.picture)
            pool = next((one for one in pools if zones and fits(pod, one, zones, world)), None)
            if pool is not None:
                found.append(f"pod {pod.key} waits although {pool.key} could run it")
        return found

    def _is_usable(self, pool: NodePool, world: World) -> bool:
        if pool.terminating or pool.is_static or self._backs_off(pool, world):
            return False
        return has_usable_class(pool, self.picture)

    def _backs_off(self, pool: NodePool, world: World) -> bool:
        """Whether its machines failed to register, so that it waits for up to half an hour (F25)."""
        key = f"{prefix_of(world)}launch-backoff:{pool.key}"
        body = world.redis.get(key)
        until = float(msgspec.json.decode(body).get("until") or 0.0) if body else 0.0
        return until > world.clock.now()


def has_usable_class(pool: NodePool, picture: Picture) -> bool:
    """Whether the class of the pool is Ready and stays."""
    kinds = {resource.kind: resource for resource in (EC2_NODE_CLASSES, AWS_NODE_TEMPLATES)}
    kind, _, name = pool.node_class_key.partition("/")
    for raw in picture.raw(kinds[kind]):
        if raw["metadata"]["name"] == name:
            gone = raw["metadata"].get("deletionTimestamp")
            return not gone and _is_true(raw, "Ready")
    return False


def waits(pod: Pod, now: float) -> bool:
    """Whether the pod is one that must get a node, if there is any for it, and its rules are judged here."""
    if pod.node_name or pod.terminating or pod.is_terminal or pod.is_daemon or pod.is_mirror:
        return False
    if pod.faults or pod.required_terms or pod.host_ports or pod.claims_devices or pod.gang:
        return False
    return pod.node_selector.keys() <= JUDGED and now - pod.created_at > PATIENCE_SECONDS


def _zones_of(pod: Pod, world: World) -> set[str]:
    """The zones of the cluster that the pod's volumes are in; none where a claim is missing, which is not judged."""
    found = _zones(world)
    for name in pod.volume_claims:
        claim = world.store.find("persistentvolumeclaims", name, namespace=pod.namespace)
        if claim is None:
            return set()
        volume = world.store.find("persistentvolumes", claim["spec"].get("volumeName") or "")
        if volume is not None:
            found &= _zones_of_volume(volume)
    return found


def _zones_of_volume(volume: Mapping[str, Any]) -> set[str]:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    expressions = (one for term in terms for one in term["matchExpressions"])
    return {zone for one in expressions if one["key"] == labels.ZONE for zone in one["values"]}


def _zones(world: World) -> set[str]:
    """Zones with types for sale and a subnet of the cluster."""
    emulator, region = world.emulator, world.emulator.settings.region
    offered = {zone for _, zone in emulator.catalogue.offered(region)}
    return offered & {f"{region}{suffix}" for suffix in SUBNET_CIDRS}


def fits(pod: Pod, pool: NodePool, zones: Set[str], world: World) -> bool:
    """Whether a new machine of this pool in one of these zones could run the pod."""
    if not all(
        any(toleration.tolerates(taint) for toleration in pod.tolerations)
        for taint in pool.taints
        if taint.effect != "PreferNoSchedule"
    ):
        return False
    emulator = world.emulator
    room = _room(pool, world)
    for name, zone in emulator.catalogue.offered(emulator.settings.region):
        facts = emulator.catalogue.types[name]
        if zone not in zones or not _is_large_enough(facts, pod) or not _is_within(facts, room):
            continue
        for market in (labels.SPOT, labels.ON_DEMAND):
            if market == labels.SPOT and not facts.supports_spot:
                continue
            known = labels_of(facts, zone, market)
            asked = all(known.get(key) == value for key, value in pod.node_selector.items())
            if asked and admits(pool, known) and emulator.capacity.left((name, zone, market)) > 0:
                return True
    return False


def _room(pool: NodePool, world: World) -> Mapping[str, float]:
    """CPUs (thousandths) and bytes of memory that the pool may still buy; none without room for one more node, or with
    limits that are not judged."""
    mine = [one for one in alive(world) if pool_of(one) == pool.key]
    if pool.limits.keys() - {"cpu", "memory", NODES} or len(mine) >= pool.limits.get(NODES, inf):
        return NO_ROOM
    cpu = sum(one.facts.vcpus * 1000 for one in mine)
    memory = sum(one.facts.memory_mib * MEBIBYTE for one in mine)
    return {
        "cpu": pool.limits.get("cpu", inf) - cpu,
        "memory": pool.limits.get("memory", inf) - memory,
    }


def _is_within(facts: Any, room: Mapping[str, float]) -> bool:
    memory = facts.memory_mib * MEBIBYTE
    return bool(facts.vcpus * 1000 <= room["cpu"] and memory <= room["memory"])


def _is_large_enough(facts: Any, pod: Pod) -> bool:
    cpu = facts.vcpus * 1000 * USABLE_SHARE - SYSTEM_CPU_MILLI
    memory = facts.memory_mib * MEBIBYTE * USABLE_SHARE - SYSTEM_MEMORY_BYTES
    if pod.requests.keys() - {"cpu", "memory", "pods"}:
        return False
    return bool(pod.requests.get("cpu", 0) <= cpu and pod.requests.get("memory", 0) <= memory)


def labels_of(facts: Any, zone: str, market: str) -> Labels:
    """The labels of a machine of this type that are judged."""
    shape = re.fullmatch(r"([a-z]+)(\d+)[a-z0-9-]*\.(.+)", facts.name)
    family, generation = (shape[1], shape[2]) if shape else ("", "")
    return {
        labels.INSTANCE_TYPE: facts.name,
        labels.ZONE: zone,
        labels.CAPACITY_TYPE: market,
        labels.ARCH: "arm64" if facts.architecture == "arm64" else "amd64",
        labels.OS: "linux",
        f"{labels.AWS_PREFIX}instance-category": family,
        f"{labels.AWS_PREFIX}instance-generation": generation,
        f"{labels.AWS_PREFIX}instance-cpu": str(facts.vcpus),
    }


def admits(pool: NodePool, known: Labels) -> bool:
    """Whether the pool's requirements admit a machine with these labels; a requirement that is not judged does not."""
    return all(_admits(one, known.get(one.key)) for one in pool.requirements)


def _admits(expression: Expression, value: str | None) -> bool:
    if value is None or expression.min_values:
        return False
    values = expression.values
    match expression.operator:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return True
        case "Gt":
            return value.isdigit() and int(value) > int(values[0])
        case "Lt":
            return value.isdigit() and int(value) < int(values[0])
        case _:
            return False


def _is_true(raw: Mapping[str, Any], name: str) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or []
    return any(one.get("type") == name and one.get("status") == "True" for one in conditions)
