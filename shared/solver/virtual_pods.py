"""Where virtual pods are: on nodes that run, on machines that start, or nowhere yet (GAT-02).

Nobody remembers that: it is computed anew from the snapshot, where every process finds the same places. Pods that wait
and pods that must leave their nodes get their places first.
"""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.virtual_pods import virtual_pods
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve


def virtual_pods_of(snapshot: Snapshot) -> list[Pod]:
    """The pods for which the snapshot's objects keep room."""
    return virtual_pods(snapshot.buffers, {one.key: one for one in snapshot.pod_templates})


def with_virtual_pods(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which these pods wait too."""
    found = virtual_pods_of(snapshot)
    return replace(snapshot, pods=(*snapshot.pods, *found)) if found else snapshot


def seated(snapshot: Snapshot, settings: SolverSettings, *, now: float) -> Snapshot:
    """The snapshot with its virtual pods, those bound that fit on nodes that run; the others wait."""
    whole = with_virtual_pods(snapshot)
    if whole is snapshot:
        return snapshot
    plan = solve(
        replace(whole, pools=()), now=now, settings=settings, reschedule=moving_pods(whole)
    )
    running = running_nodes(snapshot)
    homes = {uid: name for name, uids in plan.existing.items() for uid in uids if name in running}
    return replace(whole, pods=tuple(_seated(pod, homes) for pod in whole.pods))


def _seated(pod: Pod, homes: dict[str, str]) -> Pod:
    home = homes.get(pod.uid) if pod.virtual else None
    return pod if home is None else replace(pod, node_name=home, phase="Running")


def running_nodes(snapshot: Snapshot) -> frozenset[str]:
    """Names of the nodes that take pods at once."""
    return frozenset(n.name for n in snapshot.nodes if n.is_initialized or not n.is_managed)


def without_virtual_pods(plan: Plan, snapshot: Snapshot) -> Plan:
    """What the plan means for real pods: its machines, and the places and verdicts of those."""
    virtual = {pod.uid for pod in snapshot.pods if pod.virtual}
    if not virtual:
        return plan
    real = {
        name: tuple(u for u in uids if u not in virtual) for name, uids in plan.existing.items()
    }
    return replace(
        plan,
        existing={name: uids for name, uids in real.items() if uids},
        unschedulable={u: text for u, text in plan.unschedulable.items() if u not in virtual},
    )
