"""What the status of a CapacityBuffer should say: pure (GAT-02). Names and reasons are Karpenter's.

Of the last plan it needs where the buffer's virtual pods came to be. A pod whose machine still starts has no room yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from shared.api.conditions import with_condition
from shared.api.core.autoscaling.capacity_buffers import GENERATION, REPLICAS, STRATEGY, TEMPLATE
from shared.api.schema.autoscaling.capacity_buffer import ACTIVE_CAPACITY
from shared.domain.machines.machine import Condition
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.by_node import any_virtual
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE
from shared.domain.workloads.virtual_pods import Resolution
from shared.solver.plan import Plan
from shared.solver.virtual_pods import running_nodes

READY, PROVISIONING = "ReadyForProvisioning", "Provisioning"
FITS, NEEDS_MORE = "FitsExistingCapacity", "RequiresNewCapacity"
NOT_READY, NOTHING = "NotReadyForProvisioning", "BufferEmpty"
LONGEST_MESSAGE = 1000


class Outcome(msgspec.Struct, frozen=True):
    """How many virtual pods of one object have room, wait for machines, and found no place in the last plan."""

    ready: int = 0
    starting: int = 0
    unplaced: int = 0
    why: str = ""
    """The verdict of one that found no place."""


def outcomes_of(plan: Plan, snapshot: Snapshot) -> dict[str, Outcome]:
    """UID of the object that keeps room -> outcome. ``snapshot``: with the virtual pods that were planned."""
    if not any_virtual(snapshot.pods):
        return {}
    owners = {pod.uid: pod.owner.uid for pod in snapshot.pods if pod.virtual and pod.owner}
    running = running_nodes(snapshot)
    ready, starting, unplaced = Counter[str](), Counter[str](), Counter[str]()
    for name, uids in plan.existing.items():
        (ready if name in running else starting).update(_owners(uids, owners))
    for machine in plan.machines:
        starting.update(_owners(machine.pods, owners))
    why = {owners[uid]: text for uid, text in plan.unschedulable.items() if uid in owners}
    unplaced.update(_owners(plan.unschedulable, owners))
    return {
        uid: Outcome(ready[uid], starting[uid], unplaced[uid], why.get(uid, ""))
        for uid in sorted(set(owners.values()))
    }


def _owners(uids: Iterable[str], owners: Mapping[str, str]) -> Iterable[str]:
    return (owners[uid] for uid in uids if uid in owners)


def desired_status(
    found: Resolution, outcome: Outcome | None, *, now: float
) -> tuple[dict[str, str | int], dict[str, Condition]]:
    """(fields, conditions) of the status. ``outcome`` None: no plan counted the buffer yet."""
    buffer, template = found.buffer, found.template
    shown: dict[str, str | int] = {STRATEGY: ACTIVE_CAPACITY}
    if found.is_ready:
        shown[REPLICAS] = found.replicas
    if template is not None and template.kind == POD_TEMPLATE:
        shown |= {TEMPLATE: template.name, GENERATION: template.generation}
    verdicts = {READY: _condition(found.is_ready, found.reason, found.message)}
    provisioning = _provisioning(found, outcome)
    if provisioning is not None:
        verdicts[PROVISIONING] = provisioning
    conditions = dict(buffer.conditions)
    for name, verdict in verdicts.items():
        stamped = msgspec.structs.replace(verdict, since=now, generation=buffer.generation)
        conditions = with_condition(conditions, name, stamped)
    return shown, conditions


def _provisioning(found: Resolution, outcome: Outcome | None) -> Condition | None:
    if not found.is_ready:
        return _condition(False, NOT_READY, "the buffer is not ReadyForProvisioning")
    if not found.replicas:
        return _condition(False, NOTHING, "no room is asked for: it comes to 0 replicas")
    if outcome is None:
        return None
    if outcome.starting or outcome.unplaced:
        text = f"of {found.replicas} pods {outcome.ready} have room, {outcome.starting} wait for machines that start"
        none = f", {outcome.unplaced} find no place: {outcome.why}" if outcome.unplaced else ""
        return _condition(False, NEEDS_MORE, text + none)
    return _condition(True, FITS, f"there is room for all {found.replicas} pods")


def _condition(is_true: bool, reason: str, message: str) -> Condition:
    return Condition("True" if is_true else "False", reason, message[:LONGEST_MESSAGE])
