"""What the cluster's pods would cost on new machines: by each packing policy, and the proven lower bound. Pure.

The console shows it beside the cost of the running cluster. Nothing is done about it: moving pods has a price too.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable, is_reschedulable
from shared.simulation.policies import plans_by_policy
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings

MICRO = 1_000_000


class Repacking(msgspec.Struct, frozen=True):
    """Costs in US dollars an hour. ``bound``: no machines for the same pods cost less; None: not computed."""

    pods: int
    unplaced: int
    costs: dict[str, float]
    """By packing policy."""
    bound: float | None

    def document(self) -> dict[str, Any]:
        """As JSON."""
        builtins: dict[str, Any] = msgspec.to_builtins(self)
        return builtins


def repack(snapshot: Snapshot, settings: SolverSettings) -> Repacking:
    """Plan all pods of managed machines anew, by both policies."""
    emptied = without_machines(snapshot)
    plans = plans_by_policy(emptied, settings)
    usual = plans[PackingPolicy.FEWEST_NODES.value]
    moved = sum(map(is_provisionable, emptied.pods))
    costs = {name: plan.cost_micro_usd_per_hour / MICRO for name, plan in plans.items()}
    return Repacking(moved, len(usual.unschedulable), costs, _bound(list(plans.values())))


def without_machines(snapshot: Snapshot) -> Snapshot:
    """The snapshot as if no machine had been bought: their pods wait. Other nodes keep theirs."""
    managed = {node.name for node in snapshot.nodes if node.is_managed}
    ours = managed | {machine.node_name for machine in snapshot.machines if machine.node_name}
    kept = (pod for pod in snapshot.pods if pod.node_name not in ours or is_reschedulable(pod))
    return replace(
        snapshot,
        pods=tuple(_waiting(pod) if pod.node_name in ours else pod for pod in kept),
        nodes=tuple(node for node in snapshot.nodes if node.name not in ours),
        machines=(),
    )


def _waiting(pod: Pod) -> Pod:
    return replace(pod, node_name="", nominated_node="", phase="Pending", unschedulable=True)


def _bound(plans: Collection[Plan]) -> float | None:
    """The highest bound of plans that place the same pods: each one is a lower bound."""
    if len({frozenset(plan.unschedulable) for plan in plans}) > 1:
        return None
    bounds = [p.lower_bound_micro_usd_per_hour for p in plans if p.lower_bound_micro_usd_per_hour]
    return max(bounds) / MICRO if bounds else None
