"""The machine of a static pool: what the planner would create there for a pod without requests (GAT-01, NP-13)."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.expressions import Toleration
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import PODS
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.solver.plan import PlannedMachine
from shared.solver.solve import SolverSettings, solve

_ANYWHERE = Pod(
    uid="static",
    namespace="default",
    name="static",
    requests={PODS: 1},
    tolerations=(Toleration("", "Exists"),),
    unschedulable=True,
)


def static_machine(
    snapshot: Snapshot, pool: NodePool, settings: SolverSettings
) -> PlannedMachine | str:
    """A machine of this pool without pods, or the reason why there is none. The caller chooses its name and enforces
    the pool's limits."""
    alone = replace(
        snapshot,
        pods=(_ANYWHERE,),
        nodes=(),
        machines=(),
        pools=(replace(pool, replicas=None, limits={}),),
        claims=(),
        volumes=(),
    )
    plan = solve(alone, now=0.0, settings=settings)
    if not plan.machines:
        return plan.unschedulable.get(_ANYWHERE.uid, "no instance type suits the pool")
    return replace(plan.machines[0], pods=(), requests={})
