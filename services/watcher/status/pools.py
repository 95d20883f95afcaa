"""What the status of a pool and of a node class should say: pure (P-13, NP-14..16, NP-24).

A v1 pool has ValidationSucceeded, NodeClassReady and Ready; a Provisioner has Active, which is their conjunction.
NodeRegistrationHealthy shows how the pool's last machines registered; nothing depends on it. A node class is
only ever refused here: that it is ready the launcher says, once it found subnets, groups and images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from services.watcher.mirror.members import Member
from shared.api.class_statuses import REFUSED, refusal_reason
from shared.api.conditions import READY, condition_objects, known_conditions, with_condition
from shared.domain.machines.machine import Condition
from shared.domain.pools.generations import OF_KIND, V1, V1ALPHA5, Generation
from shared.domain.resources import add, format_resources

ACTIVE = "Active"
VALIDATION = "ValidationSucceeded"
CLASS_READY = "NodeClassReady"
REGISTRATION = "NodeRegistrationHealthy"
MOST_FAILED_REGISTRATIONS = 2
"""NP-15: of the last four; with as many the pool is not healthy."""
INVALID = {V1ALPHA5: "ValidationFailed", V1: "NodePoolValidationFailed"}
LONGEST_MESSAGE = 1000
Json = Mapping[str, Any]
NO_RESOURCES: dict[str, int] = {}


class Usage(msgspec.Struct, frozen=True):
    """What a pool has now: summed capacity, and how many machines."""

    resources: dict[str, int]
    nodes: int


def usage_by_pool(machines: Iterable[Member], nodes: Iterable[Member] = ()) -> dict[str, Usage]:
    """Pool key -> its machines that are not going away; nodes without a machine count too (NP-24)."""
    totals: dict[str, Usage] = {}
    known = set()
    for machine in machines:
        known.add(machine.provider_id)
        if machine.pool_key and not machine.terminating:
            _count(totals, machine.pool_key, machine.capacity)
    for node in nodes:
        if node.pool_key and not node.terminating and node.provider_id not in known:
            _count(totals, node.pool_key, node.capacity)
    return totals


def _count(totals: dict[str, Usage], pool: str, capacity: Mapping[str, int]) -> None:
    before = totals.get(pool, Usage({}, 0))
    totals[pool] = Usage(add(before.resources, capacity), before.nodes + 1)


def class_verdict(name: str, node_class: Json | None, *, ours: bool = False) -> Condition:
    """NP-16: may machines be made with this node class, as it is stored now? ``since`` is left open.

    ``ours``: we make it ourselves, so while the watch does not show it yet nothing is wrong (T-13).
    """
    if node_class is None and ours:
        return _unseen(name)
    if node_class is None:
        text = f'node class "{name}" does not exist; apply it, or mend the reference'
        return Condition("False", "NodeClassNotFound", text)
    if node_class["metadata"].get("deletionTimestamp"):
        return Condition("False", "NodeClassTerminating", f'node class "{name}" is being deleted')
    ready = known_conditions(node_class.get("status")).get(READY)
    if ready is None or ready.status == "Unknown":
        return _unseen(name)
    if ready.status != "True":
        text = f'node class "{name}" is not ready: {ready.message}'[:LONGEST_MESSAGE]
        return Condition("False", "NodeClassNotReady", text)
    return Condition("True", CLASS_READY)


def _unseen(name: str) -> Condition:
    text = f'node class "{name}" is not looked at yet'
    return Condition("Unknown", "NodeClassReadinessUnknown", text)


def validation_verdict(faults: tuple[str, ...], reason: str) -> Condition:
    """Every fault at once."""
    if faults:
        return Condition("False", reason, "; ".join(faults)[:LONGEST_MESSAGE])
    return Condition("True", VALIDATION)


def registrations_are_old(raw: Json, class_generation: int) -> bool:
    """NP-15: the pool or its class was edited since the outcomes were judged; they say nothing of what it is now."""
    status = raw.get("status")
    held = known_conditions(status).get(REGISTRATION)
    if held is None or held.generation != int(raw["metadata"].get("generation") or 0):
        return True
    seen = status.get("nodeClassObservedGeneration") if isinstance(status, Mapping) else None
    return seen != class_generation


def registration_verdict(outcomes: Sequence[bool]) -> Condition:
    """LCH-77: how the pool's last machines registered, newest first."""
    failed = outcomes.count(False)
    if not outcomes:
        return Condition("Unknown", "AwaitingReconciliation", "no launch yet")
    if failed >= MOST_FAILED_REGISTRATIONS:
        text = f"{failed} of the last {len(outcomes)} machines never registered; see their events"
        return Condition("False", "RegistrationFailed", text)
    return Condition("True", REGISTRATION)


def pool_status(
    raw: Json,
    api: Generation,
    validation: Condition,
    class_ready: Condition,
    class_generation: int,
    usage: Usage,
    *,
    now: float,
    registrations: Sequence[bool] = (),
) -> dict[str, Any]:
    """The fields of ``status`` that are ours. ``now`` becomes the transition time of what changed.

    ``registrations``: outcomes since the last edit. Without any the condition stays, unless it is of before the edit.
    """
    verdicts = (
        _v1_conditions(validation, class_ready)
        if api.detailed_status
        else {ACTIVE: _conjunction(ACTIVE, (validation, class_ready))}
    )
    conditions = known_conditions(raw.get("status"))
    if api.detailed_status and (registrations or registrations_are_old(raw, class_generation)):
        verdicts[REGISTRATION] = registration_verdict(registrations)
    observed = int(raw["metadata"].get("generation") or 0)
    for name, verdict in verdicts.items():
        stamped = Condition(verdict.status, verdict.reason, verdict.message, now, observed)
        conditions = with_condition(conditions, name, stamped)
    status: dict[str, Any] = {
        "resources": _shown(raw, usage.resources),
        "conditions": condition_objects(conditions),
    }
    if api.detailed_status:
        status |= {"nodes": usage.nodes, "nodeClassObservedGeneration": class_generation}
    return status


def _v1_conditions(validation: Condition, class_ready: Condition) -> dict[str, Condition]:
    ready = _conjunction(READY, (validation, class_ready))
    return {VALIDATION: validation, CLASS_READY: class_ready, READY: ready}


def _conjunction(name: str, parts: Iterable[Condition]) -> Condition:
    """The first part that is not True, else True."""
    for part in parts:
        if part.status != "True":
            return Condition(part.status, part.reason, part.message)
    return Condition("True", name)


def _shown(raw: Json, resources: Mapping[str, int]) -> dict[str, str]:
    """A merge patch only adds keys, so a resource that is no longer there is set to zero."""
    status = raw.get("status")
    shown = status.get("resources") if isinstance(status, Mapping) else None
    old = dict.fromkeys(shown, 0) if isinstance(shown, Mapping) else {}
    return format_resources({**old, **resources})


def class_refusal(raw: Json, faults: tuple[str, ...], *, now: float) -> dict[str, Any]:
    """The status of a node class with faults: not validated, hence not ready."""
    conditions = known_conditions(raw.get("status"))
    detailed = OF_KIND[raw["kind"]].detailed_status
    verdict = validation_verdict(faults, refusal_reason(faults) if detailed else REFUSED)
    observed = int(raw["metadata"].get("generation") or 0)
    stamped = Condition(verdict.status, verdict.reason, verdict.message, now, observed)
    names = (VALIDATION, READY) if detailed else (READY,)
    for name in names:
        conditions = with_condition(conditions, name, stamped)
    return {"conditions": condition_objects(conditions)}


def differs(raw: Json, desired: Mapping[str, Any]) -> bool:
    """Would writing ``desired`` to this object's status change it?"""
    status = raw.get("status")
    held = status if isinstance(status, Mapping) else {}
    return any(held.get(name) != value for name, value in desired.items())
