"""The log lines of one planning round, with the texts of each generation: operators match on them (BAT-09, BAT-10).

For v1 they are those of Karpenter now; for v1alpha5 those of v0.24 before a machine is written (ACC-14), and those
of v0.29 after it. A round that creates no machine and fills no node logs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from shared.domain.machines.machine import INITIALIZED
from shared.domain.resources import format_resources
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.log import get_logger
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reasons import OUT_OF_TIME, amounts

log = get_logger(__name__)

NAMES_SHOWN = 5


def some(names: Iterable[str]) -> str:
    """``a, b, c, d, e and 3 other(s)`` (BAT-09)."""
    listed = list(names)
    text = ", ".join(listed[:NAMES_SHOWN])
    rest = len(listed) - NAMES_SHOWN
    return f"{text} and {rest} other(s)" if rest > 0 else text


def considering(waiting: Sequence[Pod], moving: frozenset[str]) -> None:
    """Before a plan is computed."""
    log.debug(
        "computing scheduling decision for provisionable pod(s)",
        **{"pending-pods": len(waiting), "deleting-pods": len(moving)},
    )


def decided(
    plan: Plan, wanted: Sequence[PlannedMachine], snapshot: Snapshot, *, seconds: float
) -> None:
    """What a plan wants, before any of it is written. ``seconds``: how long it took."""
    pods = {pod.uid: pod for pod in snapshot.pods}
    if wanted:
        found = [pods[uid].key for uid in _placed(plan) if _is_waiting(pods.get(uid))]
        log.info("found provisionable pod(s)", Pods=some(found), duration=f"{seconds * 1000:.3f}ms")
    late = sum(text == OUT_OF_TIME for text in plan.unschedulable.values())
    if late:
        log.debug("scheduling round ran out of time", pods=late)
    for one in plan.given_up:
        named = {"Pod": pods[one.uid].key, "pods": one.pods, "reason": one.reason}
        log.debug(
            "relaxing soft constraints for pod since it previously failed to schedule", **named
        )
    _computed([one for one in wanted if not one.api.older_names])
    _computed_older([one for one in wanted if one.api.older_names])
    _absorbed(plan, snapshot)


def computed(plan: Plan, *, seconds: float) -> None:
    """The figures of a plan. ``seconds``: how long it took."""
    log.info(
        "computed plan",
        plan=plan.id,
        machines=len(plan.machines),
        placed=sum(len(m.pods) for m in plan.machines),
        existing=sum(len(pods) for pods in plan.existing.values()),
        unschedulable=len(plan.unschedulable),
        cost_micro_usd_per_hour=plan.cost_micro_usd_per_hour,
        lower_bound=plan.lower_bound_micro_usd_per_hour,
        seconds=round(seconds, 3),
    )


def created(machines: Iterable[PlannedMachine]) -> None:
    """The Machines of a plan that were created."""
    for machine in machines:
        details = {
            "requests": format_resources(machine.requests),
            "instance-types": some(machine.instance_types),
            "pods": len(machine.pods),
        }
        if machine.api.older_names:
            log.info("created machine", provisioner=machine.pool, machine=machine.name, **details)
        else:
            named = {"NodePool": {"name": machine.pool}, "NodeClaim": {"name": machine.name}}
            log.info("created nodeclaim", **named, **details)


def _computed(wanted: Sequence[PlannedMachine]) -> None:
    if wanted:
        pods = sum(len(machine.pods) for machine in wanted)
        log.info("computed new nodeclaim(s) to fit pod(s)", nodeclaims=len(wanted), pods=pods)


def _computed_older(wanted: Sequence[PlannedMachine]) -> None:
    for machine in wanted:
        log.info(_launching(machine), provisioner=machine.pool)
    if wanted:
        pods = sum(len(machine.pods) for machine in wanted)
        log.info("computed new node(s) to fit pod(s)", nodes=len(wanted), pods=pods)


def _launching(machine: PlannedMachine) -> str:
    """BAT-10, the line of v0.24: requests include those of the daemons (ACC-13)."""
    return (
        f"launching machine with {len(machine.pods)} pods requesting {amounts(machine.requests)}"
        f" from types {some(machine.instance_types)}"
    )


def _absorbed(plan: Plan, snapshot: Snapshot) -> None:
    """Nodes that are not ready yet and get pods."""
    ready = {
        name
        for machine in snapshot.machines
        if machine.has(INITIALIZED)
        for name in (machine.name, machine.node_name)
    }
    ours = {name for one in snapshot.machines for name in (one.name, one.node_name)}
    unready = {name: uids for name, uids in plan.existing.items() if name in ours - ready}
    if unready:
        log.info(
            "computed unready node(s) will fit pod(s)",
            nodes=len(unready),
            pods=sum(map(len, unready.values())),
        )


def _placed(plan: Plan) -> Iterable[str]:
    yield from (uid for machine in plan.machines for uid in machine.pods)
    yield from (uid for uids in plan.existing.values() for uid in uids)


def _is_waiting(pod: Pod | None) -> bool:
    return pod is not None and is_provisionable(pod)
