"""Records of nodes, machines and pods as the watcher writes them, for stories on the console's page."""

from __future__ import annotations

import time
from typing import Any

from shared.domain import labels as keys
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition, Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1
from shared.domain.workloads.pods import Owner, Pod
from tests.support.planning.builders import ZONES, amounts, make_machine, make_node, make_pod

SIZE = amounts(cpu="3920m", memory="15Gi", pods="58")
"""Allocatable of an m5.xlarge."""


def true(*names: str, at: float) -> dict[str, Condition]:
    """These conditions, True since ``at``."""
    return {name: Condition("True", since=at) for name in names}


def labels_of(pool: str, type_: str, zone: str, capacity: str) -> dict[str, str]:
    """The labels that say where a machine is and what it is."""
    return {
        keys.NODE_POOL: pool,
        keys.INSTANCE_TYPE: type_,
        keys.ZONE: zone,
        keys.CAPACITY_TYPE: capacity,
    }


def pair(
    name: str,
    pool: str = "default",
    type_: str = "m5.xlarge",
    zone: str = ZONES[0],
    capacity: str = "spot",
    price: int = 192_000,
    size: dict[str, int] = SIZE,
    age: float = 600.0,
) -> tuple[Machine, Node]:
    """A ready NodeClaim and its node ``ip-<name>``. ``price``: micro-USD an hour; ``age``: seconds."""
    born, labels = time.time() - age, labels_of(pool, type_, zone, capacity)
    machine = make_machine(
        name,
        pool,
        generation_api=V1,
        created_at=born,
        labels=labels,
        annotations={keys.PRICE_ANNOTATION: str(price)},
        node_name=f"ip-{name}",
        allocatable=size,
        capacity=size,
        conditions=true(LAUNCHED, REGISTERED, INITIALIZED, at=born + 40),
    )
    return machine, node_of(machine)


def node_of(machine: Machine, **changes: Any) -> Node:
    """The ready node of a machine."""
    fields: dict[str, Any] = {
        "created_at": machine.created_at + 30,
        "labels": machine.labels,
        "allocatable": machine.allocatable,
        "capacity": machine.capacity,
    }
    return make_node(machine.node_name, **{**fields, **changes})


def launching(
    name: str, pool: str = "default", type_: str = "m5.xlarge", **changes: Any
) -> Machine:
    """A NodeClaim whose instance is not there yet."""
    fields: dict[str, Any] = {
        "generation_api": V1,
        "created_at": time.time() - 5,
        "labels": labels_of(pool, type_, ZONES[0], "spot"),
        "annotations": {keys.PRICE_ANNOTATION: "192000"},
        "allocatable": SIZE,
        "capacity": SIZE,
    }
    return make_machine(name, pool, **{**fields, **changes})


def running(name: str, node: str, **changes: Any) -> Pod:
    """A pod of a ReplicaSet that runs on a node."""
    fields: dict[str, Any] = {
        "node_name": node,
        "unschedulable": False,
        "phase": "Running",
        "started_at": time.time() - 300,
        "owner": Owner("ReplicaSet", name.rpartition("-")[0] or name, f"owner-{name}"),
    }
    return make_pod(name, **{**fields, **changes})


def pending(name: str, **changes: Any) -> Pod:
    """A pod for which no node has room."""
    return make_pod(name, **{"created_at": time.time() - 20, **changes})
