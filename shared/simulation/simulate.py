"""The entry point: documents in, one answer out (docs/spec/design.md).

Deterministic except for ``stats.seconds``: the same documents and options give the same answer, byte for byte; with
schedules on pools, within the same window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from shared.api.core.nodes import taint_objects
from shared.api.schema.requirements import requirement_objects
from shared.concurrency.clock import Clock
from shared.domain.instance_types.types import Catalogue
from shared.domain.pools import hours
from shared.domain.pools.nodepools import PackingPolicy
from shared.domain.resources import format_resources
from shared.domain.snapshot import Snapshot, moving_pods
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.scale_down import with_expendable
from shared.errors import InvalidObject
from shared.simulation.inputs import read_inputs
from shared.simulation.kept import Kept, kept_after
from shared.simulation.objects import ObjectFault
from shared.simulation.policies import plan_by
from shared.simulation.regions import region_mismatch
from shared.simulation.workloads import MOST_PODS
from shared.solver.encode import ResourceAxis
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.pod_classes import ClassRegistry
from shared.solver.pools.packing_policy import is_packed, policy_of
from shared.solver.solve import SolverSettings, solve_in_order
from shared.solver.topology.selectors import label_keys
from shared.solver.virtual_pods import with_virtual_pods

MOST_COMPARED = 300
"""Pods up to which the other packing policy is planned too, unless asked for."""


@dataclass(frozen=True)
class Simulation:
    """``answer``: the JSON document. ``usable``: False when the plan uses no object of the inputs."""

    answer: dict[str, Any]
    usable: bool
    ignored: Counter[str]
    """Kind -> number of objects that planning does not use."""
    static: tuple[str, ...] = ()
    """Static pools, whose machines are not for pods, and not planned."""


def simulate(
    documents: Iterable[object],
    *,
    catalogue: Callable[[], Catalogue],
    settings: SolverSettings,
    clock: Clock,
    most_pods: int = MOST_PODS,
    compare: bool | None = None,
) -> Simulation:
    """Plans for these objects.

    ``catalogue``: called when the documents have no InstanceType. ``most_pods``: bound of all pods, given and made
    from controllers. ``compare``: with what another packing policy would cost; None: for at most MOST_COMPARED pods,
    as it may take several times as long as the plan. Raises what ``catalogue`` raises.
    """
    given = list(documents)
    inputs = read_inputs(given, catalogue, most_pods)
    now = clock.now()
    opened = hours.at(inputs.snapshot, now=now)
    settings = counting_devices(opened, settings)
    wanted = with_expendable(opened, settings.priority_cutoff)
    snapshot = with_virtual_pods(wanted, settings, now=0.0)
    problem = region_mismatch(snapshot.catalogue.region, given)
    faults = [*inputs.faults, *([ObjectFault("", "", "region", problem)] if problem else [])]
    started = clock.monotonic()
    plan = solve_in_order(snapshot, now=0.0, settings=settings, reschedule=moving_pods(snapshot))
    seconds = clock.monotonic() - started
    answer = answer_of(plan, snapshot, settings, seconds)
    if kept := kept_after(plan, snapshot, settings, now):
        answer["kept"] = [_kept(one) for one in kept]
    if unchanged := as_fewest_nodes(plan, snapshot, settings):
        answer["asFewestNodes"] = unchanged
    asked, other = compare is not None, None
    if compare or (not asked and len(snapshot.pods) <= MOST_COMPARED):
        other = other_policy(plan, snapshot, settings, thorough=asked)
    answer["cost"]["otherPolicy"] = other
    static = tuple(sorted(pool.key for pool in inputs.snapshot.pools if pool.is_static))
    whole = {**answer, "faults": faults_of(faults)}
    return Simulation(whole, inputs.usable > 0, inputs.ignored, static)


def counting_devices(snapshot: Snapshot, settings: SolverSettings) -> SolverSettings:
    """The settings with which a file's objects are planned: device claims count where it has a DeviceClass (POD-08)."""
    if not snapshot.device_classes:
        return settings
    return msgspec.structs.replace(settings, ignore_device_claims=False)


def as_fewest_nodes(plan: Plan, snapshot: Snapshot, settings: SolverSettings) -> dict[str, str]:
    """Pool -> its packing policy, for pools whose new machines are those of FewestNodes because the policy found no
    cheaper ones."""
    bought = {machine.pool_key for machine in plan.machines} - plan.policies.keys()
    default = settings.packing_policy
    found = [pool for pool in snapshot.pools if pool.key in bought and is_packed(pool, default)]
    return {pool.key: policy_of(pool, default) for pool in found}


def _kept(one: Kept) -> dict[str, Any]:
    return {
        "nodePool": one.pool.name,
        "short": str(one.short),
        "machines": [_machine(machine, {}) for machine in one.machines],
        "reason": one.why,
    }


MICRO = 1_000_000


def other_policy(
    plan: Plan, snapshot: Snapshot, settings: SolverSettings, *, thorough: bool
) -> dict[str, Any]:
    """What the same pods would cost by another packing policy in all pools: the cheapest, or FewestNodes beside that.
    ``saves``: against ``plan``; null when it leaves other pods without a place. ``thorough``: with all the work of a
    plan by that policy, which is some 10 s for pods of many kinds; else some 2 s."""
    is_cheapest = settings.packing_policy == PackingPolicy.LOWEST_COST
    name = PackingPolicy.FEWEST_NODES if is_cheapest else PackingPolicy.LOWEST_COST
    moving = moving_pods(snapshot)
    other = plan_by(name, snapshot, settings, moving=moving, bounded=thorough)
    same = other.unschedulable.keys() == plan.unschedulable.keys()
    difference = plan.cost_micro_usd_per_hour - other.cost_micro_usd_per_hour
    return {
        "policy": name.value,
        "hourly": _usd(other.cost_micro_usd_per_hour),
        "machines": len(other.machines),
        "saves": _usd(difference) if same else None,
    }


def answer_of(
    plan: Plan, snapshot: Snapshot, settings: SolverSettings, seconds: float
) -> dict[str, Any]:
    """The document without the faults. ``seconds``: how long the planner took."""
    pods = {pod.uid: pod for pod in snapshot.pods}
    planned = [uid for machine in plan.machines for uid in machine.pods]
    planned += [uid for uids in plan.existing.values() for uid in uids]
    planned += list(plan.unschedulable)
    verdicts = ((pods[uid].key, reason) for uid, reason in plan.unschedulable.items())
    return {
        "machines": [_machine(one, pods) for one in plan.machines],
        "existing": [
            {"node": name, "pods": [pods[uid].key for uid in uids]}
            for name, uids in plan.existing.items()
            if uids
        ],
        "unschedulable": [{"pod": pod, "reason": reason} for pod, reason in sorted(verdicts)],
        "cost": {
            "hourly": _usd(plan.cost_micro_usd_per_hour),
            "lowerBound": _usd(plan.lower_bound_micro_usd_per_hour),
            "bound": plan.bound_kind,
        },
        "policy": settings.packing_policy,
        "stats": {
            "pods": len(planned),
            "classes": count_classes([pods[uid] for uid in planned]),
            "seconds": round(seconds, 6),
        },
    }


def _machine(planned: PlannedMachine, pods: dict[str, Pod]) -> dict[str, Any]:
    return {
        "name": planned.name,
        "nodePool": planned.pool,
        "pods": [pods[uid].key for uid in planned.pods],
        "instanceTypes": list(planned.instance_types),
        "requirements": requirement_objects(planned.requirements),
        "requests": format_resources(planned.requests),
        "taints": taint_objects(planned.taints),
        "offering": {
            "instanceType": planned.instance_type,
            "zone": planned.offering.zone,
            "capacityType": planned.offering.capacity_type,
            "price": _usd(planned.offering.price_micro_usd_per_hour),
        },
    }


def _usd(micro: int | None) -> float | None:
    return None if micro is None else micro / MICRO


def count_classes(pods: list[Pod]) -> int:
    """The number of pod classes among these pods."""
    selected = label_keys(pods)
    registry = ClassRegistry(ResourceAxis(pod.requests for pod in pods), selected)
    for pod in pods:
        try:
            registry.intern(pod)
        except InvalidObject:
            continue  # an invalid pod has a verdict and no class
    return len(list(registry))


def faults_of(faults: Iterable[ObjectFault]) -> list[dict[str, str]]:
    """The faults as JSON objects, in the order in which they were found."""
    return [one._asdict() for one in faults]
