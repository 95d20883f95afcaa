"""Small complete domain objects for tests: name what the test is about, the rest is ordinary."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import files
from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering
from shared.domain.machines.machine import Machine
from shared.domain.nodes import DaemonSet, Node
from shared.domain.pools.nodepools import NodeClass, NodePool, SubnetRef
from shared.domain.resources import parse_resources
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint

REGION = "us-west-2"
ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
DEFAULT_REQUIREMENTS = (
    Expression(keys.OS, "In", ("linux",)),
    Expression(keys.ARCH, "In", ("amd64",)),
    Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND,)),
)
COMPUTE_REQUIREMENTS = (
    *DEFAULT_REQUIREMENTS,
    Expression(keys.AWS_PREFIX + "instance-category", "In", ("c", "m", "r")),
    Expression(keys.AWS_PREFIX + "instance-generation", "Gt", ("2",)),
)
"""P-19: what the v1alpha5 webhook adds to a Provisioner that says nothing."""


def amounts(**quantities: str) -> dict[str, int]:
    """``amounts(cpu="250m", memory="256Mi")`` in planner units; ``_`` in a name becomes ``-``."""
    raw = {name.replace("_", "-"): text for name, text in quantities.items()}
    return parse_resources(raw, field="test")


def make_pod(name: str = "pod", cpu: str = "100m", memory: str = "128Mi", **changes: Any) -> Pod:
    """A pending pod that kube-scheduler called unschedulable."""
    fields: dict[str, Any] = {
        "uid": f"uid-{name}",
        "namespace": "default",
        "name": name,
        "requests": amounts(cpu=cpu, memory=memory, pods="1"),
        "unschedulable": True,
    }
    return Pod(**{**fields, **changes})


def make_pods(count: int, prefix: str = "pod", **changes: Any) -> tuple[Pod, ...]:
    """Replicas."""
    return tuple(make_pod(f"{prefix}-{i:05d}", **changes) for i in range(count))


def make_bound_pod(name: str, node: str, **changes: Any) -> Pod:
    """A pod that runs on a node."""
    running = {"node_name": node, "unschedulable": False, "phase": "Running"}
    return make_pod(name, **{**running, **changes})


def make_spread(
    key: str, max_skew: int = 1, *, hard: bool = True, **changes: Any
) -> SpreadConstraint:
    """A spread constraint over pods with ``app: web``."""
    fields: dict[str, Any] = {
        "when_unsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        "match_labels": {"app": "web"},
    }
    return SpreadConstraint(max_skew, key, **{**fields, **changes})


def make_term(key: str, app: str = "web", **changes: Any) -> AffinityTerm:
    """A pod affinity or anti-affinity term over pods with this ``app`` label."""
    return AffinityTerm(key, **{"match_labels": {"app": app}, **changes})


def make_type(
    name: str = "m5.large",
    cpu: int = 2,
    gib: int = 8,
    price: int = 96_000,
    *,
    zones: tuple[str, ...] = ZONES,
    capacity_types: tuple[str, ...] = (keys.ON_DEMAND,),
    labels: dict[str, tuple[str, ...]] | None = None,
    **extended: int,
) -> InstanceType:
    """An amd64 linux type without overhead; spot costs 30 % of ``price`` (micro-USD per hour)."""
    family, size = name.split(".")
    shares = {keys.ON_DEMAND: 100, keys.SPOT: 30}
    known = {
        keys.INSTANCE_TYPE: (name,),
        keys.ARCH: ("amd64",),
        keys.OS: ("linux",),
        keys.AWS_PREFIX + "instance-family": (family,),
        keys.AWS_PREFIX + "instance-size": (size,),
        keys.AWS_PREFIX + "instance-cpu": (str(cpu),),
    }
    return InstanceType(
        name=name,
        labels={**known, **(labels or {})},
        capacity={"cpu": cpu * 1000, "memory": gib * 1024**3, "pods": 110, **extended},
        overhead={},
        offerings=tuple(
            Offering(zone, kind, price * shares[kind] // 100)
            for zone in zones
            for kind in capacity_types
        ),
    )


def make_types(**changes: Any) -> tuple[InstanceType, ...]:
    """2 to 128 vCPU at a constant price per vCPU."""
    return tuple(
        make_type(f"m5.x{cpu:03d}", cpu, cpu * 4, cpu * 48_000, **changes)
        for cpu in (2, 4, 8, 16, 32, 64, 128)
    )


def make_catalogue(types: tuple[InstanceType, ...] | None = None) -> Catalogue:
    """A region's types, by default ``make_types``."""
    chosen = make_types() if types is None else types
    return Catalogue(REGION, "test", chosen)


def make_pool(name: str = "default", **changes: Any) -> NodePool:
    """A Provisioner for linux, amd64, on demand."""
    fields: dict[str, Any] = {
        "uid": f"pool-{name}",
        "node_class": "default",
        "requirements": DEFAULT_REQUIREMENTS,
    }
    return NodePool(name=name, **{**fields, **changes})


def make_node_class(name: str = "default", **changes: Any) -> NodeClass:
    """Ready, with one subnet per zone."""
    subnets = tuple(SubnetRef(f"subnet-{zone}", zone) for zone in ZONES)
    fields: dict[str, Any] = {"uid": f"class-{name}", "subnets": subnets, "ready": True}
    return NodeClass(name=name, **{**fields, **changes})


def make_node(name: str = "node-1", cpu: str = "4", memory: str = "16Gi", **changes: Any) -> Node:
    """A ready node that is not ours, in the first zone."""
    size = amounts(cpu=cpu, memory=memory, pods="110")
    labels = {
        keys.HOSTNAME: name,
        keys.ZONE: ZONES[0],
        keys.OS: "linux",
        keys.ARCH: "amd64",
        **changes.pop("labels", {}),
    }
    fields: dict[str, Any] = {"capacity": size, "allocatable": size, "ready": True}
    return Node(uid=f"node-{name}", name=name, labels=labels, **{**fields, **changes})


def make_machine(name: str = "default-abc", pool: str = "default", **changes: Any) -> Machine:
    """A machine that is not launched yet and may become m5.x004 or m5.x008."""
    fields: dict[str, Any] = {
        "uid": f"machine-{name}",
        "labels": {keys.PROVISIONER_NAME: pool},
        "requirements": (
            *DEFAULT_REQUIREMENTS,
            Expression(keys.INSTANCE_TYPE, "In", ("m5.x004", "m5.x008")),
        ),
    }
    return Machine(name=name, pool=pool, **{**fields, **changes})


def make_daemon_set(
    name: str = "agent", cpu: str = "100m", memory: str = "64Mi", **changes: Any
) -> DaemonSet:
    """An agent that tolerates nothing special."""
    requests = amounts(cpu=cpu, memory=memory)
    return DaemonSet(
        uid=f"daemon-{name}", namespace="kube-system", name=name, requests=requests, **changes
    )


def make_snapshot(*pods: Pod, **changes: Any) -> Snapshot:
    """One default pool, a small catalogue, no nodes."""
    empty = Snapshot(
        generation=1,
        pods=pods,
        nodes=(),
        machines=(),
        pools=(make_pool(),),
        node_classes=(make_node_class(),),
        daemon_sets=(),
        catalogue=make_catalogue(),
    )
    return replace(empty, **changes)


@cache
def real_catalogue(region: str = "us-east-1") -> Catalogue:
    """All AWS types that the emulator knows, with on-demand prices; spot costs 30 % of them."""
    from shared.cloud.catalogue.building import generation_of, price_offerings
    from shared.cloud.catalogue.instance_model import ModelSettings, build_instance_type
    from shared.cloud.catalogue.reference_data import bundled_prices, network_bandwidth, vpc_limits

    resources = files("moto") / "ec2" / "resources"
    described = json.loads(gzip.decompress((resources / "instance_types.json.gz").read_bytes()))
    offered = resources / "instance_type_offerings" / "availability-zone" / f"{region}.json.gz"
    prices = bundled_prices(region)
    zones: dict[str, set[str]] = {}
    for offer in json.loads(gzip.decompress(offered.read_bytes())):
        zones.setdefault(offer["InstanceType"], set()).add(offer["Location"])
    found = []
    for name, description in sorted(described.items()):
        spot = {(name, zone): prices.get(name, 0) * 3 // 10 for zone in zones.get(name, ())}
        offered_in = zones.get(name, set())
        offers = price_offerings(description, offered_in, on_demand=prices, spot=spot)
        built = offers and build_instance_type(
            description,
            offerings=offers,
            region=region,
            settings=ModelSettings(),
            limits=vpc_limits(),
            bandwidth=network_bandwidth(),
        )
        if built:
            found.append(built)
    return Catalogue(region, generation_of(found), tuple(found))


def real_snapshot(*pods: Pod, **changes: Any) -> Snapshot:
    """All AWS types, and a Provisioner as the v1alpha5 webhook completes it."""
    zones = ("us-east-1a", "us-east-1b", "us-east-1c")
    subnets = tuple(SubnetRef(f"subnet-{zone}", zone) for zone in zones)
    fields: dict[str, Any] = {
        "pools": (make_pool(requirements=COMPUTE_REQUIREMENTS),),
        "node_classes": (make_node_class(subnets=subnets),),
        "catalogue": real_catalogue(),
    }
    return make_snapshot(*pods, **{**fields, **changes})
