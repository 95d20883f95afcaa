"""Seeded workloads and catalogues for the planner's benchmarks and for tests: equal arguments give equal pods.

``karpenter_*`` follow the scheduling benchmark of Karpenter's repository: five equal parts of pods (generic, spread
over zones, spread over hosts, affinity by zone, anti-affinity by host) on generated types with linear prices. The
others are typical for this project: bursts of equal pods, heterogeneous fleets, and clusters where few deployments have
most of the pods.
"""

from __future__ import annotations

import random
from typing import Any

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint, Toleration
from shared.domain.instance_types.types import Catalogue, InstanceType, Offering
from shared.domain.nodes import DaemonSet, Node
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import NodeClass, NodePool, SubnetRef
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint

MIB, GIB = 1024**2, 1024**3
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
LETTERS = "abcdefg"
CPU_MILLI = (100, 250, 500, 1000, 1500)
MEMORY_MIB = (100, 256, 512, 1024, 2048, 4096)
DEPLOYMENT_CPU_MILLI = (25, 50, 100, 200, 250, 300, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000)
DEPLOYMENT_CPU_WEIGHTS = (4, 8, 14, 8, 12, 5, 14, 5, 12, 4, 7, 2, 4, 1)
AMD64 = Expression(keys.ARCH, "In", ("amd64",))
ARM64 = Expression(keys.ARCH, "In", ("arm64",))
GPU = "nvidia.com/gpu"
GPU_TAINT = Taint(GPU, "NoSchedule")


def pod(name: str, cpu_milli: int, memory_mib: int, **changes: Any) -> Pod:
    """A pod that waits for capacity."""
    requests = {"cpu": cpu_milli, "memory": memory_mib * MIB, "pods": 1}
    requests.update(changes.pop("extended", {}))
    fields: dict[str, Any] = {"uid": f"uid-{name}", "namespace": "default", "name": name}
    return Pod(**fields, requests=requests, unschedulable=True, **changes)


def replicas(count: int, name: str, cpu_milli: int, memory_mib: int, **changes: Any) -> list[Pod]:
    """A deployment's pods."""
    one = pod(name, cpu_milli, memory_mib, **changes)
    return [replace(one, uid=f"uid-{name}-{i}", name=f"{name}-{i}") for i in range(count)]


def snapshot(pods: list[Pod], types: tuple[InstanceType, ...], **changes: Any) -> Snapshot:
    """A snapshot with these pending pods, one pool without requirements, and no nodes."""
    node_class = NodeClass(
        uid="class",
        name="default",
        generation_api=V1,
        subnets=tuple(SubnetRef(f"subnet-{zone}", zone) for zone in ZONES),
        ready=True,
    )
    empty = Snapshot(
        generation=1,
        pods=tuple(pods),
        nodes=(),
        machines=(),
        pools=(pool(),),
        node_classes=(node_class,),
        daemon_sets=(),
        catalogue=Catalogue("us-east-1", "bench", types),
    )
    return replace(empty, **changes)


def pool(name: str = "default", **changes: Any) -> NodePool:
    """A NodePool that takes every type."""
    fields: dict[str, Any] = {"generation_api": V1, "node_class": "default"}
    return NodePool(uid=f"pool-{name}", name=name, **{**fields, **changes})


def karpenter_types(count: int = 400) -> tuple[InstanceType, ...]:
    """Type i has i vCPU, 2i GiB and 10i pods; 0.1 $/h per vCPU and per 10**9 bytes; spot in two of three zones."""
    return tuple(_karpenter_type(i) for i in range(1, count + 1))


def _karpenter_type(i: int) -> InstanceType:
    name = f"fake-it-{i - 1:03d}"
    price = 100_000 * i + 100_000 * (2 * i * GIB) // 10**9
    spot = [Offering(zone, keys.SPOT, price) for zone in ZONES[:2]]
    return InstanceType(
        name=name,
        labels={
            keys.INSTANCE_TYPE: (name,),
            keys.ARCH: ("amd64",),
            keys.OS: ("linux",),
            keys.AWS_PREFIX + "instance-cpu": (str(i),),
        },
        capacity={"cpu": 1000 * i, "memory": 2 * i * GIB, "pods": 10 * i},
        overhead={"cpu": 100, "memory": 10 * MIB},
        offerings=(*spot, *(Offering(zone, keys.ON_DEMAND, price) for zone in ZONES)),
    )


def karpenter_mix(count: int, seed: int = 42) -> list[Pod]:
    """Five equal parts; the remainder is generic. Selectors are drawn independently of the pod's own label."""
    draw = random.Random(seed)
    fifth = count // 5
    kinds = ["zone", "host", "together", "apart"]
    parts = [kind for kind in kinds for _ in range(fifth)]
    parts = ["generic"] * (count - len(parts)) + parts
    return [_mixed(draw, kind, i) for i, kind in enumerate(parts)]


def _mixed(draw: random.Random, kind: str, i: int) -> Pod:
    size = draw.choice(CPU_MILLI), draw.choice(MEMORY_MIB)
    labels = {"my-label": draw.choice(LETTERS)}
    other = {"my-label": draw.choice(LETTERS)}
    rules: dict[str, Any] = {}
    match kind:
        case "zone":
            rules = {"spread": (SpreadConstraint(1, keys.ZONE, match_labels=other),)}
        case "host":
            rules = {"spread": (SpreadConstraint(1, keys.HOSTNAME, match_labels=other),)}
        case "together":
            labels = {"my-affinity": draw.choice(LETTERS)}
            rules = {"affinity": (AffinityTerm(keys.ZONE, match_labels=labels),)}
        case "apart":
            labels = {"app": "nginx"}
            rules = {"anti_affinity": (AffinityTerm(keys.HOSTNAME, match_labels=labels),)}
    return pod(f"{kind}-{i:06d}", *size, created_at=float(i), labels=labels, **rules)


def equal_deployments(count: int = 100_000, deployments: int = 200, seed: int = 7) -> list[Pod]:
    """Deployments of equal size, each with its own requests, no rules between pods."""
    draw = random.Random(seed)
    found = []
    for i in range(deployments):
        size = draw.choice(DEPLOYMENT_CPU_MILLI), 64 * draw.randint(1, 64)
        share = count // deployments + (i < count % deployments)
        found += replicas(share, f"deployment-{i:03d}", *size, labels={"app": f"d{i}"})
    return found


def bursts() -> dict[str, list[Pod]]:
    """The three bursts of the comparison with Cluster Autoscaler."""
    return {
        "400 x 0.25 vCPU": replicas(400, "small", 250, 256),
        "100 x 1 vCPU": replicas(100, "medium", 1000, 1024),
        "10 x 10 vCPU": replicas(10, "large", 10_000, 10_240),
    }


def burst_beside_agents(types: tuple[InstanceType, ...]) -> Snapshot:
    """The first burst, with five daemon sets (280 m, 300 MiB together) on every node; types of generation 6 and up,
    including GPU types."""
    agents = tuple(
        DaemonSet(f"agent-{i}", "kube-system", f"agent-{i}", {"cpu": 56, "memory": 60 * MIB})
        for i in range(5)
    )
    wanted = (
        *_on_demand()[:2],
        Expression(keys.AWS_PREFIX + "instance-category", "In", ("c", "m", "r", "g", "p")),
        Expression(keys.AWS_PREFIX + "instance-generation", "Gt", ("5",)),
    )
    (pods, *_) = bursts().values()
    return snapshot(pods, types, pools=(pool(requirements=wanted),), daemon_sets=agents)


_HETEROGENEOUS = (
    # name, replicas, milli-CPU, MiB, GPUs, architecture, spread over zones
    *(("cpu", n, c, m, 0, "amd64", False) for n, c, m in (
        (200, 2000, 1024), (150, 4000, 4096), (250, 1000, 512), (60, 8000, 8192))),
    *(("memory", n, c, m, 0, "amd64", False) for n, c, m in (
        (150, 500, 8192), (100, 1000, 16_384), (60, 2000, 30_720), (20, 4000, 61_440))),
    *(("arm", n, c, m, 0, "arm64", False) for n, c, m in (
        (200, 1000, 2048), (120, 500, 1024), (60, 2000, 8192))),
    *(("any", n, c, m, 0, "", False) for n, c, m in (
        (300, 250, 512), (300, 100, 256), (150, 750, 3072), (90, 1500, 6144))),
    *(("spread", n, c, m, 0, "", True) for n, c, m in ((90, 500, 1024), (60, 1000, 4096))),
    *(("gpu", n, c, m, g, "amd64", False) for n, c, m, g in (
        (24, 4000, 16_384, 1), (6, 24_000, 98_304, 4), (4, 8000, 61_440, 1))),
)  # fmt: skip


def heterogeneous() -> list[Pod]:
    """2,394 pods: CPU-heavy, memory-heavy, arm64, either architecture, spread over zones, and with GPUs."""
    found: list[Pod] = []
    for i, (name, count, cpu, memory, gpus, arch, spread) in enumerate(_HETEROGENEOUS):
        labels = {"app": f"{name}-{i}"}
        rule = SpreadConstraint(1, keys.ZONE, match_labels=labels)
        found += replicas(
            count,
            labels["app"],
            cpu,
            memory,
            labels=labels,
            extended={GPU: gpus} if gpus else {},
            tolerations=(Toleration(GPU, "Exists"),) if gpus else (),
            node_selector={keys.ARCH: arch} if arch else {},
            spread=(rule,) if spread else (),
        )
    return found


def heterogeneous_pools() -> tuple[NodePool, ...]:
    """A general pool, and a GPU pool with a taint, as is usual."""
    has_gpu = keys.AWS_PREFIX + "instance-gpu-count"
    general = pool(
        "general", requirements=(*general_requirements(), Expression(has_gpu, "DoesNotExist"))
    )
    gpu = pool(
        "gpu", requirements=(*_on_demand(), Expression(has_gpu, "Exists")), taints=(GPU_TAINT,)
    )
    return (general, gpu)


def _on_demand() -> tuple[Expression, ...]:
    return (
        Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND,)),
        Expression(keys.OS, "In", ("linux",)),
        Expression(keys.AWS_PREFIX + "instance-hypervisor", "In", ("nitro",)),
    )


def many_types_wanted() -> tuple[Expression, ...]:
    """On-demand, and each node must be possible as any of 300 types: the larger it is, the fewer types remain."""
    return (*_on_demand(), Expression(keys.INSTANCE_TYPE, "Exists", (), 300))


def general_requirements() -> tuple[Expression, ...]:
    """On-demand, current compute, general-purpose and memory types, no bare metal."""
    return (
        *_on_demand(),
        Expression(keys.AWS_PREFIX + "instance-category", "In", ("c", "m", "r")),
        Expression(keys.AWS_PREFIX + "instance-generation", "Gt", ("4",)),
    )


def zipf(total: int, deployments: int = 200, seed: int = 11) -> list[Pod]:
    """Deployments of sizes proportional to 1/rank**1.05. Most have no rules; some have spread constraints, affinity,
    anti-affinity or a node selector."""
    draw = random.Random(seed)
    weights = [1 / rank**1.05 for rank in range(1, deployments + 1)]
    sizes = [max(1, round(total * w / sum(weights))) for w in weights]
    sizes[0] += total - sum(sizes)
    found: list[Pod] = []
    for i, count in enumerate(sizes):
        cpu = draw.choices(DEPLOYMENT_CPU_MILLI, DEPLOYMENT_CPU_WEIGHTS)[0]
        gib_per_core = draw.lognormvariate(0.95, 0.75)
        memory = max(32, min(60 * 1024, round(cpu / 1000 * gib_per_core * 32) * 32))
        rules = _deployment_rules(draw, i, count)
        found += replicas(
            count, f"deployment-{i:03d}", cpu, memory, labels={"app": f"d{i}"}, **rules
        )
    return found


def _deployment_rules(draw: random.Random, i: int, count: int) -> dict[str, Any]:
    own = {"app": f"d{i}"}
    selector = {keys.ARCH: "amd64"} if draw.random() < 0.6 else {}
    chance, skew, zone = draw.random(), draw.choice((1, 2, 5)), draw.choice(ZONES)
    if chance < 0.30:
        return {
            "node_selector": selector,
            "spread": (SpreadConstraint(1, keys.ZONE, match_labels=own),),
        }
    if chance < 0.38 and i >= 20 and count <= 60:
        return {
            "node_selector": selector,
            "anti_affinity": (AffinityTerm(keys.HOSTNAME, match_labels=own),),
        }
    if chance < 0.46 and count <= 300 * skew:
        rule = SpreadConstraint(skew, keys.HOSTNAME, match_labels=own)
        return {"node_selector": selector, "spread": (rule,)}
    if chance < 0.50:
        return {"node_selector": {**selector, keys.ZONE: zone}}
    if chance < 0.52:
        return {"node_selector": selector, "affinity": (AffinityTerm(keys.ZONE, match_labels=own),)}
    return {"node_selector": selector}


def backlog(
    types: tuple[InstanceType, ...],
    pending: int = 2170,
    nodes: int = 1060,
    pools: int = 20,
    hopeless_tenths: int = 3,
) -> Snapshot:
    """A cluster with many pools and only full nodes, in which so many tenths of the pending pods cannot be placed."""
    draw = random.Random(3)
    found = [
        (_stuck if i % 10 < hopeless_tenths else _waiting)(draw, i, pools) for i in range(pending)
    ]
    full = [_full_node(i, pools) for i in range(nodes)]
    running = [
        replace(
            pod(f"running-{i}-{j}", 1000, 2048, labels={"app": f"team-{i % pools}"}),
            node_name=node.name,
            unschedulable=False,
            phase="Running",
        )
        for i, node in enumerate(full)
        for j in range(4)
    ]
    chosen = tuple(_team_pool(i) for i in range(pools))
    return snapshot([*found, *running], types, nodes=tuple(full), pools=chosen)


def _team_pool(i: int) -> NodePool:
    taints = (Taint("team", "NoSchedule", f"team-{i}"),) if i % 2 else ()
    limits = {"cpu": 10_000_000} if i % 3 == 0 else {}
    return pool(
        f"team-{i:02d}", labels={"team": f"team-{i}"}, taints=taints, weight=i, limits=limits
    )


def _full_node(i: int, pools: int) -> Node:
    size = {"cpu": 4000, "memory": 16 * GIB, "pods": 58}
    labels = {
        keys.HOSTNAME: f"node-{i:04d}",
        keys.ZONE: ZONES[i % 3],
        keys.OS: "linux",
        keys.ARCH: "amd64",
        keys.NODE_POOL: f"team-{i % pools:02d}",
        keys.INITIALIZED: "true",
        "team": f"team-{i % pools}",
    }
    name = labels[keys.HOSTNAME]
    return Node(f"node-{i}", name, labels=labels, capacity=size, allocatable=size, ready=True)


def _waiting(draw: random.Random, i: int, pools: int) -> Pod:
    team = f"team-{draw.randrange(pools)}"
    rule = SpreadConstraint(1, keys.ZONE, match_labels={"app": team})
    return pod(
        f"waiting-{i:05d}",
        draw.choice(CPU_MILLI),
        draw.choice(MEMORY_MIB),
        labels={"app": team},
        node_selector={"team": team} if i % 2 else {},
        tolerations=(Toleration("team", "Equal", team),),
        spread=(rule,) if i % 4 == 0 else (),
    )


def _stuck(draw: random.Random, i: int, pools: int) -> Pod:
    """A pod that is too large for every type, or whose label, zone or affinity no pool can satisfy."""
    impossible: tuple[dict[str, Any], ...] = (
        {"cpu_milli": 2_000_000},
        {"node_selector": {"team": f"team-{pools + draw.randrange(9)}"}},
        {"node_selector": {keys.ZONE: "us-east-1f"}},
        {"affinity": (AffinityTerm(keys.ZONE, match_labels={"app": f"none-{i % 7}"}),)},
    )
    changes = {"cpu_milli": draw.choice(CPU_MILLI), **impossible[i // 10 % len(impossible)]}
    return pod(
        f"stuck-{i:05d}", memory_mib=draw.choice(MEMORY_MIB), labels={"app": "stuck"}, **changes
    )


def random_mix(seed: int, types: tuple[InstanceType, ...]) -> Snapshot:
    """A small mix of several pools, weights, limits, taints, spread, anti-affinity and spot."""
    draw = random.Random(seed)
    pods: list[Pod] = []
    for i in range(draw.randint(1, 12)):
        cpu, memory = draw.choice(DEPLOYMENT_CPU_MILLI), 64 * draw.randint(1, 200)
        rules = _deployment_rules(draw, 20 + i, count := draw.randint(1, 40))
        rules["node_selector"] = {
            key: value for key, value in rules["node_selector"].items() if key != keys.ARCH
        }
        if draw.random() < 0.2:
            rules["tolerations"] = (Toleration("team", "Exists"),)
        labels = {"app": f"d{20 + i}"}
        pods += replicas(count, f"deployment-{i:02d}", cpu, memory, labels=labels, **rules)
    return snapshot(pods, types, pools=_random_pools(draw))


def _random_pools(draw: random.Random) -> tuple[NodePool, ...]:
    kinds = ((keys.ON_DEMAND,), (keys.SPOT, keys.ON_DEMAND))
    return tuple(
        pool(
            f"pool-{i}",
            requirements=(Expression(keys.CAPACITY_TYPE, "In", draw.choice(kinds)),),
            weight=draw.choice((0, 0, 10)),
            limits=draw.choice(({}, {}, {"cpu": 1000 * draw.randint(8, 400)})),
            taints=draw.choice(((), (), (Taint("team", "NoSchedule", "x"),))),
        )
        for i in range(draw.randint(1, 3))
    )
