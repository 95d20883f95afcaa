"""The log lines of one planning round, with the texts of each generation: operators match on them (BAT-09, BAT-10).

For v1 they are those of Karpenter now; for v1alpha5 those of v0.24 before a machine is written (ACC-14), and those
of v0.29 after it. A round that creates no machine and fills no node logs nothing. Pods whose preferences may keep
machines from being consolidated are logged once an hour each (SCH-28): a preference counts as a requirement until it
cannot be met, so a machine that exists only for it is not given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from shared.domain.machines.machine import INITIALIZED
from shared.domain.resources import format_resources
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import by_uid
from shared.domain.workloads.pods import Pod, is_provisionable
from shared.log import get_logger
from shared.solver.placement.relaxation import SCHEDULE_ANYWAY
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.reasons import OUT_OF_TIME, amounts

log = get_logger(__name__)

NAMES_SHOWN = 5
AGAIN_SECONDS = 3600.0
MOST_LOGGED = 100
"""In one round; pods of one workload are alike."""
MOST_KNOWN = 20_000
ANTI_AFFINITY = "pod has a preferred Anti-Affinity which can prevent consolidation"
SPREAD = "pod has a preferred TopologySpreadConstraint which can prevent consolidation"


def some(names: Iterable[str]) -> str:
    """``a, b, c, d, e and 3 other(s)`` (BAT-09)."""
    listed = list(names)
    text = ", ".join(listed[:NAMES_SHOWN])
    rest = len(listed) - NAMES_SHOWN
    return f"{text} and {rest} other(s)" if rest > 0 else text


def considering(waiting: Sequence[Pod], moving: frozenset[str]) -> None:
    log.debug(
        "computing scheduling decision for provisionable pod(s)",
        **{"pending-pods": len(waiting), "deleting-pods": len(moving)},
    )


def decided(
    plan: Plan, desired: Sequence[PlannedMachine], snapshot: Snapshot, *, seconds: float
) -> None:
    """What a plan wants, before any of it is written. ``seconds``: how long it took."""
    pods = by_uid(snapshot.pods)
    if desired:
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
    _computed([one for one in desired if not one.api.older_names])
    _computed_older([one for one in desired if one.api.older_names])
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
        policies=plan.policies,
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


def _computed(desired: Sequence[PlannedMachine]) -> None:
    if desired:
        pods = sum(len(machine.pods) for machine in desired)
        log.info("computed new nodeclaim(s) to fit pod(s)", nodeclaims=len(desired), pods=pods)


def _computed_older(desired: Sequence[PlannedMachine]) -> None:
    for machine in desired:
        log.info(_launching(machine), provisioner=machine.pool)
    if desired:
        pods = sum(len(machine.pods) for machine in desired)
        log.info("computed new node(s) to fit pod(s)", nodes=len(desired), pods=pods)


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


@dataclass
class PreferenceLog:
    """Remembers which pods it has logged."""

    _logged: dict[str, float] = field(default_factory=dict)
    """Pod UID -> monotonic time."""

    def note(self, pods: Iterable[Pod], *, now: float) -> None:
        """``pods`` that are planned now; ``now`` is monotonic."""
        self._logged = {uid: at for uid, at in self._logged.items() if now - at < AGAIN_SECONDS}
        logged = 0
        for pod in pods:
            texts = list(_preferences(pod))
            if not texts or pod.uid in self._logged:
                continue
            if logged == MOST_LOGGED or len(self._logged) >= MOST_KNOWN:
                return
            logged += 1
            self._logged[pod.uid] = now
            for text in texts:
                log.info(text, pod=pod.key)


def _preferences(pod: Pod) -> Iterable[str]:
    if any(term.weight is not None for term in pod.anti_affinity):
        yield ANTI_AFFINITY
    if any(one.when_unsatisfiable == SCHEDULE_ANYWAY for one in pod.spread):
        yield SPREAD
