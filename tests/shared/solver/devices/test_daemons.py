"""Devices that daemon sets take on new machines are not planned for other pods."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.records import PodClaim
from shared.domain.nodes import DaemonSet
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Owner
from shared.solver.plan import Plan
from tests.support.planning.builders import (
    make_bound_pod,
    make_catalogue,
    make_daemon_set,
    make_node,
    make_pod,
    make_snapshot,
    make_type,
)
from tests.support.planning.devices import (
    GPU_CLASS,
    allocated,
    claiming_pod,
    gpu_type,
    gpus,
    make_claim_template,
    make_resource_claim,
    make_slice,
    plan_devices,
    product_is,
    spec_of,
    want,
)

L4 = gpu_type("g6.12xlarge", "l4", 4, 22888, price=4_600_000)
PLAIN = make_type("m5.large", 2, 8, 96_000)


def agent(*claims: PodClaim, **changes: Any) -> DaemonSet:
    """A daemon set whose pods have these claims."""
    return make_daemon_set(device_claims=claims, **changes)


def cluster(*pods: Any, daemon: DaemonSet, catalogue: Any = None, **templates: Any) -> Snapshot:
    named = {"gpus": spec_of(want()), **templates}
    return make_snapshot(
        *pods,
        catalogue=make_catalogue(catalogue or (L4,)),
        device_classes=(GPU_CLASS,),
        claim_templates=tuple(
            make_claim_template(spec, name, namespace="kube-system" if name == "own" else "default")
            for name, spec in named.items()
        ),
        daemon_sets=(daemon,),
    )


def pods(count: int) -> list[Any]:
    return [claiming_pod(f"pod-{at}") for at in range(count)]


def loads(plan: Plan) -> list[int]:
    """Pods of each machine."""
    return sorted(len(one.pods) for one in plan.machines)


OWN = PodClaim("devices", template="own")


def test_a_machine_has_fewer_devices_by_what_its_daemon_pods_take() -> None:
    """DRA-08: four GPUs, of which the agent takes one."""
    assert loads(plan_devices(cluster(*pods(4), daemon=agent()))) == [4]
    assert loads(plan_devices(cluster(*pods(4), daemon=agent(OWN), own=spec_of(want())))) == [1, 3]


def test_a_daemon_pod_that_asks_for_other_devices_leaves_these_alone() -> None:
    """DRA-08: it runs on no such machine, and so does not take its CPU either."""
    spec = spec_of(want(1, product_is("H100")))
    whole = agent(OWN, cpu="96")
    assert loads(plan_devices(cluster(*pods(4), daemon=whole, own=spec))) == [4]


def test_only_types_with_the_devices_run_it() -> None:
    """DRA-08: a pod without claims fits a machine whose whole CPU the agent would take."""
    snapshot = cluster(
        *pods(1),
        make_pod("plain", cpu="1900m"),
        daemon=agent(OWN, cpu="1500m"),
        catalogue=(L4, PLAIN),
        own=spec_of(want()),
    )
    assert not plan_devices(snapshot).unschedulable
    alone = cluster(
        claiming_pod("pod", cpu="95"), daemon=agent(OWN, cpu="1500m"), own=spec_of(want())
    )
    assert plan_devices(alone).unschedulable


def test_the_first_alternative_that_a_type_can_meet_counts() -> None:
    """DRA-08: no H100, so two L4."""
    spec = spec_of(want(1, product_is("H100"), name="large"), want(2, name="small"))
    assert loads(plan_devices(cluster(*pods(4), daemon=agent(OWN), own=spec))) == [2, 2]


def test_a_claim_that_is_not_understood_or_has_a_name_counts_nowhere() -> None:
    """DRA-08: a claim with a name is for one node, not for each."""
    for claim in (PodClaim("devices", claim="one"), PodClaim("devices", template="missing")):
        assert loads(plan_devices(cluster(*pods(4), daemon=agent(claim)))) == [4]


def test_a_node_without_a_pod_of_the_daemon_set_yet_has_its_devices_kept() -> None:
    """DRA-08: a node that has joined and published its devices, of which the agent will take one. Once the agent's pod
    is there its claim holds one, and nothing is taken twice."""
    node = make_node(
        "new", cpu="48", memory="192Gi",
        labels={keys.NODE_POOL: "default", keys.INSTANCE_TYPE: "g6.12xlarge", keys.INITIALIZED: "true"},
    )  # fmt: skip
    slices = (make_slice("new", gpus(4)),)
    daemon = agent(OWN)
    snapshot = replace(
        cluster(*pods(4), daemon=daemon, own=spec_of(want())), nodes=(node,), resource_slices=slices
    )
    plan = plan_devices(snapshot)
    assert len(plan.existing["new"]) == 3
    own = make_bound_pod(
        "agent", "new", namespace="kube-system", owner=Owner("DaemonSet", daemon.name, daemon.uid)
    )
    claim = make_resource_claim(spec_of(want()), "held", **allocated("new", "gpu-0"))
    served = replace(snapshot, pods=(*snapshot.pods, own), resource_claims=(claim,))
    assert len(plan_devices(served).existing["new"]) == 3
