"""Running machines with their nodes, and the picture that disruption looks at."""

from __future__ import annotations

from typing import Any, NamedTuple

from shared.disruption.budgets import allowed_now
from shared.disruption.candidates import offering_prices, survey
from shared.disruption.keeping import keeping
from shared.disruption.records import Candidate, Rejection, World
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import (
    CONSOLIDATABLE,
    INITIALIZED,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner, Pod
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import (
    ZONES,
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_node_class,
    make_pool,
    make_snapshot,
)

NOW = 1_000_000.0
DEPLOYMENT = Owner("ReplicaSet", "web", "uid-web")


class Running(NamedTuple):
    """A machine and its node."""

    machine: Machine
    node: Node


def conditions(*names: str, since: float = NOW - 3600) -> dict[str, Condition]:
    """True, each for an hour."""
    return {name: Condition("True", name, "", since) for name in names}


def make_running(
    name: str = "n1",
    kind: str = "m5.x004",
    zone: str = ZONES[0],
    capacity_type: str = "on-demand",
    pool: NodePool | None = None,
    extra: tuple[str, ...] = (CONSOLIDATABLE,),
    **changes: Any,
) -> Running:
    """An initialised, ready node of one type. ``changes`` are the machine's; ``extra`` conditions are True as well."""
    pool = pool or make_pool()
    cpu = int(kind.rpartition("x")[2])
    labels = {
        pool.label_key: pool.name,
        keys.INSTANCE_TYPE: kind,
        keys.ZONE: zone,
        keys.CAPACITY_TYPE: capacity_type,
        keys.ARCH: "amd64",
        keys.OS: "linux",
        keys.REGISTERED: "true",
        keys.INITIALIZED: "true",
    }
    provider_id = f"aws:///{zone}/i-{name}"
    node = make_node(
        name, str(cpu), f"{cpu * 4}Gi", labels=labels, provider_id=provider_id,
        annotations=changes.pop("node_annotations", {}),
    )  # fmt: skip
    fields: dict[str, Any] = {
        "generation_api": pool.generation_api,
        "node_name": name,
        "provider_id": provider_id,
        "created_at": NOW - 7200,
        "labels": labels,
        "conditions": conditions(LAUNCHED, REGISTERED, INITIALIZED, *extra),
        "capacity": node.capacity,
        "allocatable": node.allocatable,
        "requests": {},
    }
    return Running(make_machine(f"machine-{name}", pool.name, **{**fields, **changes}), node)


def pods_on(node: str, count: int, cpu: str = "500m", **changes: Any) -> tuple[Pod, ...]:
    """Pods of one deployment that run on a node."""
    return tuple(
        make_bound_pod(f"{node}-pod-{i}", node, cpu=cpu, owner=DEPLOYMENT, **changes)
        for i in range(count)
    )


def make_cluster(
    running: list[Running], *pods: Pod, pools: tuple[NodePool, ...] = (), **changes: Any
) -> Snapshot:
    """A snapshot of running machines and pods."""
    return make_snapshot(
        *pods,
        machines=tuple(one.machine for one in running),
        nodes=tuple(one.node for one in running),
        pools=pools or (make_pool(),),
        node_classes=(make_node_class(), make_node_class(generation_api=V1)),
        **changes,
    )


def look(
    snapshot: Snapshot,
    *,
    nominated: frozenset[str] = frozenset(),
    busy: frozenset[str] = frozenset(),
) -> tuple[tuple[Candidate, ...], tuple[Rejection, ...]]:
    """Candidates and rejections of a snapshot, now."""
    prices = offering_prices(snapshot.catalogue)
    return tuple(survey(snapshot, prices, nominated=nominated, busy=busy, now=NOW))  # type: ignore[return-value]


def make_world(snapshot: Snapshot, **changes: Any) -> World:
    """What a method looks at, with the budgets as they are."""
    candidates, _ = look(snapshot)
    nodes = {node.name: node for node in snapshot.nodes}
    allowed = allowed_now(snapshot.pools, snapshot.machines, nodes, frozenset(), now=NOW)
    fields: dict[str, Any] = {
        "now": NOW,
        "gates": FeatureGates(),
        "solver": SolverSettings(),
        "keeping": keeping(snapshot, frozenset(), now=NOW),
    }
    return World(snapshot, candidates, allowed, **{**fields, **changes})


__all__ = [
    "NOW", "V1", "V1ALPHA5", "Running", "conditions", "look", "make_catalogue", "make_cluster", "make_running",
    "make_world", "pods_on",
]  # fmt: skip
