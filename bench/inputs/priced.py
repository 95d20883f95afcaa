"""Workloads of 300 pods and more for which plans are compared with the configuration bound, drawn from seeds."""

from __future__ import annotations

import random
from typing import Any

from bench.inputs import workloads
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType
from shared.domain.nodes import DaemonSet
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import AffinityTerm, Pod, SpreadConstraint

_CPU_MILLI = (100, 150, 200, 250, 500, 750, 1000, 1500, 2000, 3000, 4000, 8000)
_CPU_WEIGHTS = (8, 6, 8, 14, 18, 6, 14, 6, 8, 4, 3, 1)
_GIB_PER_CORE = (0.5, 1, 1.5, 2, 3, 4, 6, 8)
_SIZES = (300, 400, 500, 600, 800, 1000)
_DEPLOYMENTS = (3, 6, 10, 15, 25, 40, 60)


def realistic(seed: int, types: tuple[InstanceType, ...]) -> Snapshot:
    """300 to 1,000 pods of 3 to 60 deployments with Zipf sizes: some for one architecture or zone, spread over zones,
    apart or spread over hosts; up to three daemon sets; on-demand machines, of general families in most seeds."""
    draw = random.Random(seed)
    total, number = draw.choice(_SIZES), draw.choice(_DEPLOYMENTS)
    power = draw.choice((0.5, 0.8, 1.05))
    weights = [1 / rank**power for rank in range(1, number + 1)]
    counts = [max(1, round(total * weight / sum(weights))) for weight in weights]
    counts[0] += max(0, total - sum(counts))
    pods: list[Pod] = []
    for i, count in enumerate(counts):
        cpu = draw.choices(_CPU_MILLI, _CPU_WEIGHTS)[0]
        memory = max(64, min(round(cpu / 1000 * draw.choice(_GIB_PER_CORE) * 1024), 60 * 1024))
        labels = {"app": f"d{i}"}
        rules = _rules(draw, labels, count)
        pods += workloads.replicas(
            count, f"deployment-{i:03d}", cpu, memory, labels=labels, **rules
        )
    daemons = tuple(_daemon(i, draw) for i in range(draw.randint(0, 3)))
    pool = workloads.pool(requirements=_families(draw))
    return workloads.snapshot(pods, types, pools=(pool,), daemon_sets=daemons)


def _rules(draw: random.Random, own: dict[str, str], count: int) -> dict[str, Any]:
    selector = {keys.ARCH: draw.choice(("amd64", "amd64", "arm64"))} if draw.random() < 0.5 else {}
    chance = draw.random()
    if chance < 0.25:
        spread = (SpreadConstraint(1, keys.ZONE, match_labels=own),)
        return {"node_selector": selector, "spread": spread}
    if chance < 0.31 and count <= 30:
        return {
            "node_selector": selector,
            "anti_affinity": (AffinityTerm(keys.HOSTNAME, match_labels=own),),
        }
    if chance < 0.37 and count <= 60:
        spread = (SpreadConstraint(draw.choice((2, 5)), keys.HOSTNAME, match_labels=own),)
        return {"node_selector": selector, "spread": spread}
    if chance < 0.42:
        selector = {**selector, keys.ZONE: draw.choice(workloads.ZONES)}
    return {"node_selector": selector}


def _families(draw: random.Random) -> tuple[Expression, ...]:
    generations = (Expression("karpenter.k8s.aws/instance-generation", "Gt", ("4",)),)
    kinds = (Expression(keys.CAPACITY_TYPE, "In", (keys.ON_DEMAND,)),)
    if draw.random() < 0.2:
        return kinds
    families = Expression("karpenter.k8s.aws/instance-category", "In", ("c", "m", "r"))
    return (*kinds, *generations, families)


def _daemon(i: int, draw: random.Random) -> DaemonSet:
    requests = {"cpu": draw.choice((50, 100, 200)), "memory": draw.choice((64, 128, 256)) * 2**20}
    return DaemonSet(f"uid-daemon-{i}", "kube-system", f"daemon-{i}", requests=requests)
