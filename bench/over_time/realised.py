"""Realised cost compared with planned cost, with and without nominating pods to their planned nodes.

Run ``python -m bench.over_time.realised`` from the repository. Pods without rules are planned, the planned machines
become nodes (all at once, or one after the other by name), and the local cluster's scheduler places the pods in random
order. Pods that fit nowhere are planned again on the running cluster, and the cost of all nodes is compared with the
first plan.
With the handover, the planned pods of a node are nominated to it when it joins.
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
"""Up to 32 vCPU: with larger types a plan would have a single node."""
POLICIES = ("FewestNodes", "LowestCost")


def demand(count: int) -> list[Pod]:
    """Pods of 200 deployments without rules."""
    found = workloads.zipf(count)
    return [Pod(p.uid, p.namespace, p.name, requests=p.requests, unschedulable=True) for p in found]


def node_of(machine: PlannedMachine, catalogue: Catalogue) -> Node:
    """The node of the cheapest type that the machine may become."""
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
    """Places the pods, in this order, with the local scheduler. Returns them with their nodes, if they got one."""
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


class NoClaims:
    """The claims of pods that have none."""

    def refusal(self, shape: PodShape) -> str:
        return ""

    def checks(self, shape: PodShape) -> list[Callable[[NodeState], str]]:
        return []


def realise(
    pods: list[Pod], plan: Plan, nodes: list[Node], *, at_once: bool, nominate: bool, seed: int
) -> list[Pod]:
    """The pods, with their nodes, after all nodes have joined."""
    draw, state = random.Random(seed), ClusterState(NoClaims(), NoClaims())
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
    """One row for each way in which nodes join, with and without the handover."""
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
    """Measures and prints one table."""
    chosen = options(__doc__ or "")
    count = QUICK_PODS if chosen.quick else PODS
    rows = [row for policy in progress(POLICIES, "realised") for row in measure(count, policy)]
    show("Planned against realised cost", rows)
    save(chosen.json, {"realised": rows})


if __name__ == "__main__":
    main()
