"""Does kube-scheduler realise the plan? Planned against realised cost, with the placement handed over and without.

Run ``python -m bench.realised`` from the repository. Pods without rules are planned, the planned machines become nodes
(all at once, or one after the other in the order of their names), and the local cluster's scheduler places the pods in
random order. Pods that fit nowhere are planned once more beside what runs; what the realised nodes cost together is
compared with the first plan. With the placement handed over, pods of a node are nominated when it joins.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from bench.inputs import workloads
from bench.report import Row, options, progress, save, show
from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.filters import evaluate
from local.cluster.scheduling.scores import choose
from local.cluster.scheduling.shapes import PodShape
from local.cluster.scheduling.state import ClusterState, NodeState
from shared.domain.instance_types.types import Catalogue
from shared.domain.nodes import Node
from shared.domain.workloads.pods import Pod
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve

PODS, QUICK_PODS = 1000, 300
TYPES = 32
"""Up to 32 vCPU: nodes as large as the largest type would make one plan one node."""
POLICIES = ("FewestNodes", "LowestCost")


def demand(count: int) -> list[Pod]:
    """200 deployments without rules."""
    found = workloads.zipf(count)
    return [Pod(p.uid, p.namespace, p.name, requests=p.requests, unschedulable=True) for p in found]


def node_of(machine: PlannedMachine, catalogue: Catalogue) -> Node:
    """The cheapest type that the machine may become."""
    kind = next(t for t in catalogue.types if t.name == machine.instance_type)
    size = {name: amount - kind.overhead.get(name, 0) for name, amount in kind.capacity.items()}
    labels = {"kubernetes.io/hostname": machine.name}
    return Node(machine.name, machine.name, labels=labels, ready=True, allocatable=size)


def kube_node(node: Node) -> Obj:
    return {
        "metadata": {"name": node.name, "labels": node.labels},
        "status": {"allocatable": quantities(node.allocatable)},
    }


def kube_pod(pod: Pod) -> Obj:
    container = {"name": "main", "resources": {"requests": quantities(pod.requests)}}
    return {
        "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "spec": {"containers": [container]},
        "status": {"nominatedNodeName": pod.nominated_node or None},
    }


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    return {
        name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()
    }


def place(state: ClusterState, pods: Iterable[Pod], draw: random.Random) -> list[Pod]:
    """What the local scheduler does with pods in this order; each with the node it got, or none."""
    infos = [(pod, state.info(kube_pod(pod))) for pod in pods]
    for _, info in infos:
        state.nominate(info)
    found, hopeless = [], set()
    for pod, info in infos:
        nominated = [n for n in state.existing() if n.name == pod.nominated_node]
        fitting = evaluate(info, state, nominated, enough=1).feasible
        if not fitting and info.shape not in hopeless:
            nodes = state.existing()
            fitting = evaluate(info, state, nodes, enough=len(nodes)).feasible
        if fitting:
            node = choose(info.shape, fitting, state, "least-allocated", draw)
            state.drop_nomination(info)
            state.place(info, node.name)
            pod = replace(pod, node_name=node.name, unschedulable=False)
        else:
            hopeless.add(info.shape)
        found.append(pod)
    for _, info in infos:
        state.drop_nomination(info)
    return found


class NoVolumes:
    """The claims of pods that have none."""

    def refusal(self, shape: PodShape) -> str:
        return ""

    def checks(self, shape: PodShape) -> list[Callable[[NodeState], str]]:
        return []


def realise(
    pods: list[Pod], plan: Plan, nodes: list[Node], *, at_once: bool, nominate: bool, seed: int
) -> list[Pod]:
    """The pods after all nodes came up."""
    draw, state = random.Random(seed), ClusterState(NoVolumes())
    promised = {uid: m.name for m in plan.machines for uid in m.pods}
    placed, waiting = [], draw.sample(pods, len(pods))
    for group in [nodes] if at_once else [[node] for node in nodes]:
        names = {node.name for node in group}
        for node in group:
            state.set_node(kube_node(node))
        if nominate:
            waiting = [
                replace(p, nominated_node=promised[p.uid]) if promised[p.uid] in names else p
                for p in waiting
            ]
        tried = place(state, waiting, draw)
        placed += [pod for pod in tried if pod.node_name]
        waiting = [pod for pod in tried if not pod.node_name]
    return placed + [replace(pod, nominated_node="") for pod in waiting]


def measure(count: int, policy: str) -> list[Row]:
    """One row per arrival of nodes, with and without the handover."""
    pods, settings = demand(count), SolverSettings(packing_policy=policy)
    snapshot = workloads.snapshot(pods, workloads.karpenter_types(TYPES))
    plan = solve(snapshot, now=0.0, settings=settings)
    nodes = [node_of(machine, snapshot.catalogue) for machine in plan.machines]
    rows: list[Row] = []
    for at_once in (True, False):
        for nominate in (False, True):
            after = realise(pods, plan, nodes, at_once=at_once, nominate=nominate, seed=1)
            again = replace(snapshot, pods=tuple(after), nodes=tuple(nodes))
            more = solve(again, now=0.0, settings=settings).cost_micro_usd_per_hour
            rows.append({
                "policy": policy,
                "nodes come": "all at once" if at_once else "one by one",
                "handed over": "yes" if nominate else "no",
                "pods": count,
                "nodes": len(nodes),
                "left over": sum(not pod.node_name for pod in after),
                "planned $/h": plan.cost_micro_usd_per_hour / 1e6,
                "realised / planned": 1 + more / plan.cost_micro_usd_per_hour,
            })  # fmt: skip
    return rows


def main() -> None:
    """Prints one table."""
    chosen = options(__doc__ or "")
    count = QUICK_PODS if chosen.quick else PODS
    rows = [row for policy in progress(POLICIES, "realised") for row in measure(count, policy)]
    show("Planned against realised cost", rows)
    save(chosen.json, {"realised": rows})


if __name__ == "__main__":
    main()
