"""The smallest change that places a pending pod: found by planning again with each proposed change.

Karpenter's verdict lists for each pool one cause, the first that was met; a pod that three rules keep away shows one.
Here every proposal was planned, so it is enough as it stands, and no part of it can be left out.

Pure: the same snapshot gives the same answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Literal

from msgspec.structs import replace

from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import NodePool, by_preference
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable, why_not_provisionable
from shared.errors import NotFound
from shared.simulation.changes.edits import Edit, applied, of_pod
from shared.simulation.changes.measuring import largest_request, least_limit
from shared.simulation.changes.pod_edits import pod_edits, smaller
from shared.simulation.changes.pool_edits import higher_limit, pool_edits
from shared.simulation.pool_report import TOO_SHORT
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve

MOST_PLANS = 600
"""Bound of one search. A plan for one pod takes some milliseconds, and some tens in a cluster of a thousand nodes."""
MOST_CROWDED_PLANS = 100
"""Of these for one pool with all pods that wait: such a plan may take seconds."""
OTHER_POOL = "dovetail.sh/other-pool"
"""A label within the search: of machines that the pod may not get while it is asked what one pool can do."""
NO_CAPACITY = (
    "EC2 had no capacity a short time ago for what would do; it is tried again after some minutes"
)
"""Before the verdict of a pod that waits for nothing else."""
State = Literal["bound", "placeable", "pending"]


@dataclass(frozen=True)
class PoolChange:
    """What one pool lacks for the pod. ``edits`` is empty when no known change of pod and pool is enough."""

    pool: str
    lacks: str
    """The verdict with this pool alone."""
    edits: tuple[Edit, ...]


@dataclass(frozen=True)
class PodExplanation:
    """``verdict``: of a placeable pod why its new machine is in vain. ``pools``: the nearest miss first.
    ``unexamined``: pools for which no plan was left (MOST_PLANS)."""

    pod: Pod
    state: State
    verdict: str = ""
    pools: tuple[PoolChange, ...] = ()
    unexamined: tuple[str, ...] = ()

    @property
    def smallest(self) -> tuple[Edit, ...]:
        """The lightest edits of all pools."""
        return next((one.edits for one in self.pools if one.edits), ())


class _Spent(Exception):
    """The bound of plans is reached."""


@dataclass
class _Planning:
    """Plans for one pod, counted."""

    uid: str
    settings: SolverSettings
    left: int
    pool: str = ""
    """The only pool whose new machines the pod may get; empty: all."""

    def plan(self, snapshot: Snapshot) -> Plan:
        if self.left <= 0:
            raise _Spent
        self.left -= 1
        # Whether the pod is placed is all that counts: neither a bound nor a long search for the price is needed.
        return solve(snapshot, now=0.0, settings=self.settings, bounded=False)

    def places(self, snapshot: Snapshot) -> bool:
        return self.uid not in self.plan(self._narrowed(snapshot)).unschedulable

    def proves(self, snapshot: Snapshot, edits: tuple[Edit, ...]) -> bool:
        """Whether the pod is placed after the edits: by the pool, and where all pools are free to place it."""
        edited = applied(snapshot, edits)
        return self.places(edited) and self.uid not in self.plan(edited).unschedulable

    def share(self, most: int, pool: str) -> _Planning:
        """Planning for one pool with at most so many of the plans that are left, which count as used."""
        plans = min(self.left, most)
        self.left -= plans
        return _Planning(self.uid, self.settings, plans, pool)

    def _narrowed(self, snapshot: Snapshot) -> Snapshot:
        return only_from(self.pool, self.uid, snapshot) if self.pool else snapshot


def explain_pod(
    snapshot: Snapshot,
    uid: str,
    settings: SolverSettings,
    most_plans: int = MOST_PLANS,
    obstacles: Mapping[str, str] = MappingProxyType({}),
) -> PodExplanation:
    """Why the pod is pending, and what would place it. ``obstacles``: pool key -> why its machines are not made.
    Raises NotFound for an unknown UID."""
    pod = next((one for one in snapshot.pods if one.uid == uid), None)
    if pod is None:
        raise NotFound(f"no pod has the UID {uid!r}")
    if not is_provisionable(pod):
        return PodExplanation(pod, "bound", "" if pod.node_name else why_not_provisionable(pod))
    planning = _Planning(uid, settings, most_plans)
    world = snapshot
    plan = planning.plan(world)
    verdict = plan.unschedulable.get(uid)
    if verdict is None:
        pool = _pool_of(plan, snapshot, uid)
        if pool is not None and pool.key in obstacles:
            text = f"{pool.key} would place it, but {obstacles[pool.key]}"
            return PodExplanation(pod, "pending", text)
        in_vain = f"{pool.key}: {TOO_SHORT}" if pool is not None and pool.lives_too_short else ""
        return PodExplanation(pod, "placeable", in_vain)
    if snapshot.unavailable and planning.places(replace(snapshot, unavailable=frozenset())):
        verdict = f"{NO_CAPACITY}; {verdict}"
    alone = without_other_pending(snapshot, uid)
    if not planning.places(alone):
        world = alone
    found, unexamined = _examine(snapshot, world, pod, planning)
    return PodExplanation(pod, "pending", verdict, found, unexamined)


def _pool_of(plan: Plan, snapshot: Snapshot, uid: str) -> NodePool | None:
    """The pool of the machine that is planned for the pod; None for a pod that gets no new one."""
    machine = next((one for one in plan.machines if uid in one.pods), None)
    return next((one for one in snapshot.pools if machine and one.key == machine.pool_key), None)


def without_other_pending(snapshot: Snapshot, uid: str) -> Snapshot:
    """The snapshot without the other pods that wait for capacity: planning is faster without them."""
    return replace(
        snapshot,
        pods=tuple(one for one in snapshot.pods if one.uid == uid or not is_provisionable(one)),
    )


def _examine(
    whole: Snapshot, world: Snapshot, pod: Pod, planning: _Planning
) -> tuple[tuple[PoolChange, ...], tuple[str, ...]]:
    """``whole``: the cluster as it is; ``world``: the same, or without the other pods that wait."""
    pools = [pool for pool in by_preference(list(world.pools)) if not pool.is_static]
    found: list[PoolChange] = []
    for number, pool in enumerate(pools):
        try:
            found.append(_proven(whole, world, pool, pod, planning))
        except _Spent:
            return _nearest(found), tuple(one.key for one in pools[number:])
    return _nearest(found), ()


def _proven(
    whole: Snapshot, world: Snapshot, pool: NodePool, pod: Pod, planning: _Planning
) -> PoolChange:
    """The change for one pool alone, if this pool places the pod in the whole cluster too; otherwise what does: other
    pods that wait may take what the change makes room for. Raises _Spent when that needs too many plans."""
    change = _change_for(replace(world, pools=(pool,)), pool, pod, planning)
    if not change.edits:
        return change
    crowded = planning.share(MOST_CROWDED_PLANS, pool.key)
    if not crowded.proves(whole, change.edits):
        change = dataclasses.replace(change, edits=_change_for(whole, pool, pod, crowded).edits)
        if not crowded.proves(whole, change.edits):
            change = dataclasses.replace(change, edits=())
    planning.left += crowded.left
    return change


def only_from(pool: str, uid: str, snapshot: Snapshot) -> Snapshot:
    """The snapshot in which the pod may get a new machine of this pool alone; its nodes, and the other pods, are as
    they are."""
    absent = Expression(OTHER_POOL, "DoesNotExist")
    pools = tuple(
        one if one.key == pool else replace(one, labels={**one.labels, OTHER_POOL: "true"})
        for one in snapshot.pools
    )
    return of_pod(uid, partial(_requiring, absent))(replace(snapshot, pools=pools))


def _requiring(expression: Expression, pod: Pod) -> Pod:
    terms = pod.required_terms or ((),)
    return replace(pod, required_terms=tuple((*term, expression) for term in terms))


def _nearest(found: list[PoolChange]) -> tuple[PoolChange, ...]:
    return tuple(sorted(found, key=lambda one: (not one.edits, *_size(one.edits), one.pool)))


def _size(edits: Iterable[Edit]) -> tuple[int, int]:
    weights = [edit.weight for edit in edits]
    return sum(weights), len(weights)


def _change_for(world: Snapshot, pool: NodePool, pod: Pod, planning: _Planning) -> PoolChange:
    lacks = planning.plan(world).unschedulable.get(pod.uid, "")
    edits = sorted([*pod_edits(pod, (pool,)), *pool_edits(pool, pod)], key=_lightness)
    return PoolChange(pool.key, lacks, _smallest(world, edits, pool, pod, planning))


def _lightness(edit: Edit) -> tuple[int, str, str, str]:
    return edit.weight, edit.object, edit.field, edit.text


def _smallest(
    world: Snapshot, edits: list[Edit], pool: NodePool, pod: Pod, planning: _Planning
) -> tuple[Edit, ...]:
    def places(chosen: Iterable[Edit]) -> bool:
        return planning.places(applied(world, tuple(chosen)))

    if not places(edits):
        return ()
    single = next((edit for edit in edits if places((edit,))), None)
    needed = [single] if single else _minimal(edits, places)
    return _measured(world, needed, pool, pod, planning)


def _minimal(edits: list[Edit], places: Callable[[list[Edit]], bool]) -> list[Edit]:
    """The edits without those that are not needed, the heaviest of them first. All together place the pod."""
    needed = list(edits)
    for edit in reversed(edits):
        fewer = [one for one in needed if one is not edit]
        if places(fewer):
            needed = fewer
    return needed


def _measured(
    world: Snapshot, needed: list[Edit], pool: NodePool, pod: Pod, planning: _Planning
) -> tuple[Edit, ...]:
    """Removed limits and requests become the tightest ones with which the pod is still placed."""
    for place, edit in enumerate(needed):
        others = (*needed[:place], *needed[place + 1 :])
        needed[place] = _tighter(applied(world, others), edit, pool, pod, planning)
    return tuple(needed)


def _tighter(world: Snapshot, edit: Edit, pool: NodePool, pod: Pod, planning: _Planning) -> Edit:
    resource = edit.resource
    if not resource:
        return edit
    if edit.object.startswith("Pod "):
        fits = _placing(lambda amount: smaller(pod, resource, amount), world, planning)
        return smaller(pod, resource, largest_request(resource, pod.requests[resource], fits))
    allows = _placing(lambda amount: higher_limit(pool, resource, amount), world, planning)
    limit = least_limit(resource, pool.limits[resource], allows)
    return edit if limit is None else higher_limit(pool, resource, limit)


def _placing(
    proposed: Callable[[int], Edit], world: Snapshot, planning: _Planning
) -> Callable[[int], bool]:
    return lambda amount: planning.places(proposed(amount).apply(world))
