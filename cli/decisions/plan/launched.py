"""The machine and the node that a planned machine becomes: launched as its cheapest offering. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.domain import labels as keys
from shared.domain.instance_types.types import InstanceType
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.solver.plan import PlannedMachine

READY = (LAUNCHED, REGISTERED, INITIALIZED)


def launched(
    planned: PlannedMachine,
    pool: NodePool,
    node_class: NodeClass | None,
    kind: InstanceType | None,
    now: float,
) -> Machine:
    """The machine once EC2 has launched it; its node has not joined yet. ``now``: seconds since the epoch."""
    given = {k: v[0] for k, v in kind.labels.items() if len(v) == 1} if kind else {}
    labels = given | planned.labels
    labels |= {
        keys.ZONE: planned.offering.zone,
        keys.CAPACITY_TYPE: planned.offering.capacity_type,
        keys.INSTANCE_TYPE: planned.instance_type,
        pool.label_key: pool.name,
    }
    hashes = pool_hash_annotations(pool.kind, pool.hash)
    if node_class is not None and node_class.hash:
        hashes |= class_hash_annotations(node_class.kind, node_class.hash)
    return Machine(
        uid=f"planned:{planned.name}",
        name=planned.name,
        pool=pool.name,
        generation_api=pool.generation_api,
        created_at=now,
        labels=labels,
        annotations={**pool.annotations, **hashes},
        requirements=planned.requirements,
        requests=planned.requests,
        taints=planned.taints,
        startup_taints=planned.startup_taints,
        node_class=planned.node_class,
        expire_seconds=pool.expire_seconds,
        termination_grace_seconds=pool.termination_grace_seconds,
        provider_id=f"planned:///{planned.offering.zone}/{planned.name}",
        capacity=kind.capacity if kind else {},
        allocatable=kind.allocatable() if kind else {},
        conditions={LAUNCHED: Condition("True", LAUNCHED, "", now)},
    )


def joined(machine: Machine, now: float) -> tuple[Machine, Node]:
    """The machine and its node, ready at ``now``."""
    labels = {
        **machine.labels,
        keys.HOSTNAME: machine.name,
        keys.REGISTERED: "true",
        keys.INITIALIZED: "true",
    }
    conditions: Mapping[str, Condition] = {name: Condition("True", name, "", now) for name in READY}
    ready = replace(
        machine,
        node_name=machine.name,
        labels=labels,
        conditions={**machine.conditions, **conditions},
    )
    node = Node(
        uid=f"planned:node/{machine.name}",
        name=machine.name,
        provider_id=machine.provider_id,
        created_at=now,
        labels=labels,
        taints=machine.taints,
        ready=True,
        capacity=machine.capacity,
        allocatable=machine.allocatable,
    )
    return ready, node
