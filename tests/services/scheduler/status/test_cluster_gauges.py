"""The cluster as gauges (MET-03, MET-05, MET-08, MET-10, provisioner_* of MET-12)."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from services.scheduler.status.cluster_gauges import (
    MOST_DRIVERS,
    cluster_text,
    device_text,
    labelled_nodes,
    lifetime_text,
    namespace_text,
    node_text,
    pool_text,
    requests_of,
    sync_text,
    type_text,
)
from shared.domain import labels as keys
from shared.domain.instance_types.types import Offering
from shared.domain.nodes import Node
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.workloads.pods import Owner
from tests.support.metrics.pages import Scraped
from tests.support.planning.builders import (
    amounts,
    make_bound_pod,
    make_catalogue,
    make_machine,
    make_node,
    make_pod,
    make_pool,
    make_type,
)
from tests.support.planning.devices import (
    GPU,
    allocated,
    gpus,
    make_resource_claim,
    make_slice,
    spec_of,
    want,
)

DAEMON = Owner("DaemonSet", "agent", "u")
PLACE = {
    keys.REGION: "us-west-2",
    keys.CAPACITY_TYPE: "spot",
    keys.INSTANCE_TYPE: "m5.x004",
    "karpenter.k8s.aws/instance-family": "m5",
    "karpenter.k8s.aws/instance-cpu": "4",
}


def node(name: str = "a", pool_key: str = keys.NODE_POOL, **changes: Any) -> Node:
    size = {
        "capacity": amounts(cpu="4", memory="16Gi", pods="58", **{"hugepages-2Mi": "0"}),
        "allocatable": amounts(cpu="3900m", memory="15Gi", pods="58"),
    }
    labels = {pool_key: "web", **PLACE}
    fields: dict[str, Any] = {"labels": labels, "created_at": 100.0, **size, **changes}
    return make_node(name, **fields)


def labels_of(name: str = "a", provisioner: str = "N/A") -> dict[str, str]:
    return {
        "node_name": name,
        "phase": "",
        "managed": "true",
        "nodepool": "web",
        "provisioner": provisioner,
        "zone": "us-west-2a",
        "region": "us-west-2",
        "arch": "amd64",
        "os": "linux",
        "capacity_type": "spot",
        "instance_type": "m5.x004",
        "instance_family": "m5",
        "instance_cpu": "4",
    }


def test_a_node_tells_what_it_has_and_what_is_asked_of_it() -> None:
    """MET-03: cores, bytes and units; resources that it has none of are left out."""
    pods = [
        make_bound_pod("web", "a", cpu="500m", memory="1Gi"),
        make_bound_pod("agent", "a", cpu="100m", memory="1Gi", owner=DAEMON),
        make_bound_pod("elsewhere", "b", cpu="1"),
        make_pod("waits", cpu="1"),
    ]
    everything, daemons = requests_of(pods)
    scraped = Scraped(node_text(labelled_nodes([node()]), everything, daemons))

    def of(name: str) -> dict[str, float | None]:
        where = labels_of()
        return {
            resource: scraped.value(f"karpenter_nodes_{name}", resource_type=resource, **where)
            for resource in ("cpu", "memory", "pods", "hugepages-2Mi")
        }

    gibi = 2**30
    none = {"hugepages-2Mi": None}
    assert of("allocatable") == {"cpu": 3.9, "memory": 15 * gibi, "pods": 58, **none}
    assert of("total_pod_requests") == {"cpu": 0.6, "memory": 2 * gibi, "pods": 2, **none}
    assert of("total_daemon_requests") == {"cpu": 0.1, "memory": gibi, "pods": 1, **none}
    assert of("system_overhead") == {"cpu": 0.1, "memory": gibi, "pods": 0, **none}


def test_a_provisioners_node_says_so() -> None:
    """MET-12: both generations' labels."""
    nodes = labelled_nodes([node(pool_key=keys.PROVISIONER_NAME)])
    scraped = Scraped(node_text(nodes, {}, {}))
    where = labels_of(provisioner="web")
    assert scraped.value("karpenter_nodes_allocatable", resource_type="cpu", **where) == 3.9


def test_a_nodes_age_is_reported() -> None:
    """MET-03; a clock that went back makes nobody younger than new."""
    nodes = labelled_nodes([node()])
    for now, age in ((160.0, 60), (90.0, 0)):
        scraped = Scraped(lifetime_text(nodes, now=now))
        assert scraped.value("karpenter_nodes_current_lifetime_seconds", **labels_of()) == age


def test_nodes_that_are_not_ours_are_told_as_nobodys() -> None:
    """MET-03: metrics of nodes; MET-08: metrics of the cluster's state."""
    nodes = (node(), make_node("foreign", cpu="4"))
    everything, daemons = requests_of([make_bound_pod("p", "foreign", cpu="1580m")])
    text = node_text(labelled_nodes(nodes), everything, daemons)
    scraped = Scraped(text + cluster_text(nodes, everything))
    requested = "karpenter_nodes_total_pod_requests"
    assert scraped.of(requested, "nodepool").keys() == {"web", "N/A"}
    assert scraped.of(requested, "managed").keys() == {"true", "false"}
    assert scraped.value("karpenter_cluster_state_node_count") == 2
    used = scraped.of("karpenter_cluster_utilization_percent", "resource_type")
    assert used["cpu"] == 20
    assert used["pods"] == round(100 / 168, 2)


def test_resources_are_spelled_as_karpenter_spells_them() -> None:
    disk = {"ephemeral-storage": 2**30}
    counted = node(capacity=disk, allocatable=disk)
    pool = make_pool(usage=disk, limits=disk)
    scraped = Scraped(
        node_text(labelled_nodes([counted]), {}, {})
        + pool_text([pool], [], {})
        + cluster_text((counted,), {})
    )
    for name in ("nodes_allocatable", "nodepools_usage", "nodepools_limit", "provisioner_usage"):
        assert scraped.of(f"karpenter_{name}", "resource_type").keys() == {"ephemeral_storage"}
    used = scraped.of("karpenter_cluster_utilization_percent", "resource_type")
    assert used.keys() == {"ephemeral_storage"}


def test_an_empty_cluster_is_told_too() -> None:
    scraped = Scraped(cluster_text((), {}) + node_text([], {}, {}) + pool_text((), (), {}))
    assert scraped.value("karpenter_cluster_state_node_count") == 0
    assert scraped.of("karpenter_cluster_utilization_percent", "resource_type") == {}


def test_pools_tell_usage_limits_and_cost() -> None:
    """MET-05: machines without an instance cost nothing yet, those of unknown price are left out."""
    pool = make_pool(
        generation_api=V1,
        usage=amounts(cpu="8", memory="32Gi"),
        limits=amounts(cpu="100", nodes="9"),
    )
    bought = {
        keys.INSTANCE_TYPE: "m5.x004",
        keys.ZONE: "us-west-2a",
        keys.CAPACITY_TYPE: "spot",
    }
    machines = [
        make_machine("a", labels=bought, provider_id="aws:///us-west-2a/i-1"),
        make_machine("b", labels=bought, provider_id="aws:///us-west-2a/i-2"),
        make_machine("waits", labels=bought),
        make_machine("unknown", provider_id="aws:///us-west-2a/i-3"),
        make_machine("nobodys", pool="gone", labels=bought, provider_id="aws:///us-west-2a/i-4"),
    ]
    prices = {("m5.x004", "us-west-2a", "spot"): 50_000}
    scraped = Scraped(pool_text([pool], machines, prices))
    assert scraped.of("karpenter_nodepools_usage", "resource_type") == {
        "cpu": 8,
        "memory": 32 * 2**30,
    }
    assert scraped.of("karpenter_nodepools_limit", "resource_type") == {"cpu": 100, "nodes": 9}
    assert scraped.of("karpenter_nodepools_cost_total", "nodepool") == {"default": 0.1}
    assert scraped.of("karpenter_provisioner_usage", "provisioner") == {}


def test_a_provisioner_counts_under_both_names_and_with_its_namesake() -> None:
    """MET-12: names of v0.31."""
    usage, limits = amounts(cpu="5"), amounts(cpu="20", memory="0")
    pools = [
        make_pool(generation_api=V1ALPHA5, usage=usage, limits=limits),
        make_pool(generation_api=V1, usage=usage),
    ]
    scraped = Scraped(pool_text(pools, [], {}))
    cpu = {"resource_type": "cpu"}
    assert scraped.value("karpenter_nodepools_usage", nodepool="default", **cpu) == 10
    old = {"provisioner": "default"}
    assert scraped.value("karpenter_provisioner_usage", **old, **cpu) == 5
    assert scraped.value("karpenter_provisioner_limit", **old, **cpu) == 20
    assert scraped.value("karpenter_provisioner_usage_pct", **old, **cpu) == 25
    memory = {"resource_type": "memory"}
    assert scraped.value("karpenter_provisioner_usage_pct", **old, **memory) == 100


def test_types_tell_size_price_and_shortage() -> None:
    """MET-10; several reservations of one offering are reported once, as the cheapest."""
    offerings = (
        Offering("us-west-2a", "spot", 40_000),
        Offering("us-west-2b", "spot", 45_000),
        Offering("us-west-2a", "reserved", 9_000, reservation_id="cr-1"),
        Offering("us-west-2a", "reserved", 7_000, reservation_id="cr-2"),
    )
    kind = replace(make_type("m5.x004"), offerings=offerings)
    short = frozenset({("spot", "m5.x004", "us-west-2b")})
    scraped = Scraped(type_text(make_catalogue((kind,)), short, old=True))
    name, of = "karpenter_cloudprovider_instance_type", {"instance_type": "m5.x004"}
    assert scraped.value(f"{name}_cpu_cores", **of) == kind.capacity["cpu"] / 1000
    assert scraped.value(f"{name}_memory_bytes", **of) == kind.capacity["memory"]
    counted = {
        ("spot", "us-west-2a"): (0.04, 1),
        ("spot", "us-west-2b"): (0.045, 0),
        ("reserved", "us-west-2a"): (0.007, 1),
    }
    for (capacity_type, zone), (price, there) in counted.items():
        where = {"capacity_type": capacity_type, "zone": zone, **of}
        assert scraped.value(f"{name}_offering_price_estimate", **where) == price
        assert scraped.value(f"{name}_price_estimate", **where) == price
        assert scraped.value(f"{name}_offering_available", **where) == there
    scraped = Scraped(type_text(make_catalogue((kind,)), short, old=False))
    assert scraped.of(f"{name}_price_estimate", "zone") == {}


def test_a_picture_that_may_not_be_acted_on_says_for_how_long() -> None:
    """OPS-13: nothing is decided by an incomplete mirror; MET-08: metrics of the cluster's state."""
    for synced, seconds in ((True, 0), (False, 12.5)):
        scraped = Scraped(sync_text(synced=synced, seconds=12.5))
        assert scraped.value("karpenter_cluster_state_synced") == synced
        assert scraped.value("karpenter_cluster_state_unsynced_time_seconds") == seconds


def test_of_many_namespaces_the_dearest_are_named_and_the_others_summed_up() -> None:
    costs = {f"n{number:03d}": 1000 - number for number in range(202)}
    page = Scraped(namespace_text(costs))
    name = "dovetail_namespace_cost_dollars_per_hour"
    assert page.value(name, namespace="n000") == 0.001
    assert page.value(name, namespace="(others)") == (800 + 799) / 1e6


def test_devices_are_counted_by_driver_as_claims_hold_them() -> None:
    """DRA-09: of complete pools; a claim without devices waits."""
    held = make_resource_claim(spec_of(want()), "one", **allocated("a", "gpu-0"))
    waiting = make_resource_claim(spec_of(want()), "two")
    slices = [
        make_slice("a", gpus(4)),
        make_slice("b", gpus(2), pool_slices=2),
        make_slice("a", gpus(1), driver="dra.net"),
    ]
    page = Scraped(device_text(slices, [held, waiting]))
    assert [
        page.value("dovetail_devices", driver=driver, state=state)
        for driver in (GPU, "dra.net")
        for state in ("held", "free")
    ] == [1, 3, 0, 1]
    assert page.of("dovetail_resource_claims", "state") == {"allocated": 1, "waiting": 1}
    assert Scraped(device_text([], [])).of("dovetail_devices", "driver") == {}


def test_of_many_drivers_the_others_are_summed_up() -> None:
    slices = [make_slice("a", gpus(1), driver=f"d{at:02d}") for at in range(MOST_DRIVERS + 2)]
    page = Scraped(device_text(slices, []))
    assert page.value("dovetail_devices", driver="(others)", state="free") == 2
