"""Machines of a gang that EC2 served only in part: kept for a few more plans, then given back (SCH-116).

A plan buys for a gang all or nothing, and EC2 may still refuse some of its machines. Their pods are planned again with
what is left, beside the machines that were launched. If they find no place for ``RETRY_SECONDS``, the gang cannot run,
and the machines that were launched for it go before their nodes take pods one by one.

What may go wrong: the scheduler restarts. It then waits for ``RETRY_SECONDS`` again, since it remembers no refusal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.gangs import gang_of
from shared.solver.plan import Plan, PlannedMachine

RETRY_SECONDS = 20.0
"""Two rounds for pods that wait; an instance of EC2 takes about twice as long to become a node."""
MOST_GANGS = 20
"""Of one machine; one that holds pods of more goes as empty nodes do."""


def gangs_of(planned: PlannedMachine, pods: Mapping[str, Pod]) -> str:
    """The annotation of a machine: the gangs of its pods; empty unless all are of gangs. ``pods``: by UID."""
    known = [pods[uid] for uid in planned.pods if uid in pods]
    gangs = {gang_of(pod) for pod in known}
    return "" if "" in gangs or len(gangs) > MOST_GANGS else ",".join(sorted(gangs))


@dataclass
class GangLeftovers:
    """When each gang was first refused, of those that were refused ever since."""

    _since: dict[str, float] = field(default_factory=dict)

    def of(self, plan: Plan, snapshot: Snapshot, *, now: float) -> list[Machine]:
        """The machines to give back after this plan. ``now``: monotonic seconds."""
        bought = {one.name: one for one in snapshot.machines if _bought_for(one)}
        if not bought:
            self._since.clear()
            return []
        refused = _refused(plan, snapshot.pods)
        self._since = {gang: self._since.get(gang, now) for gang in refused}
        lost = {gang for gang, since in self._since.items() if now - since >= RETRY_SECONDS}
        if not lost:
            return []
        used = _used(plan, snapshot, lost)
        return [
            machine
            for machine in bought.values()
            if lost.issuperset(_bought_for(machine))
            and used.isdisjoint({machine.name, machine.node_name, machine.provider_id} - {""})
        ]


def _bought_for(machine: Machine) -> list[str]:
    if machine.terminating:
        return []
    return (
        machine.annotations.get(keys.GANG, "").split(",")
        if keys.GANG in machine.annotations
        else []
    )


def _refused(plan: Plan, pods: Iterable[Pod]) -> set[str]:
    """Gangs with a pod that found no place and none that has a node: what runs already is not taken back."""
    members = [pod for pod in pods if pod.gang and not pod.is_terminal]
    running = {gang_of(pod) for pod in members if _is_bound(pod)}
    waiting = {gang_of(pod) for pod in members if pod.uid in plan.unschedulable}
    return waiting - running


def _is_bound(pod: Pod) -> bool:
    """Has kube-scheduler given it a node? A pod that a plan gave to a machine has the machine's name too, and is still
    called unschedulable (``handover``)."""
    return bool(pod.node_name) and not pod.unschedulable


def _used(plan: Plan, snapshot: Snapshot, lost: set[str]) -> set[str]:
    """Names and provider ids of machines and nodes with pods, or with the promise of a pod of another gang."""
    found = {name for name, uids in plan.existing.items() if uids}
    for pod in snapshot.pods:
        if pod.is_daemon or pod.is_mirror or pod.is_terminal:
            continue
        if _is_bound(pod) or gang_of(pod) not in lost:
            found |= {pod.node_name, pod.nominated_node} - {""}
    return found | {node.provider_id for node in snapshot.nodes if node.name in found}
