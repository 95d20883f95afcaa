"""What the conditions of a ProvisioningRequest should say: pure (GAT-04). Types and reasons are Cluster Autoscaler's.

A request is answered once: what is Provisioned or Failed stays so. Room is kept for ten minutes, which only the
condition's time says, so a restart forgets nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from services.scheduler.kept_room.buffer_status import LONGEST_MESSAGE, Outcome
from shared.api.conditions import with_condition
from shared.domain.machines.machine import Condition
from shared.domain.workloads.provisioning_requests import (
    ACCEPTED,
    BOOK_PARTIAL,
    BOOKING_EXPIRED,
    BOOKING_SECONDS,
    CAPACITY_REVOKED,
    CHECK_CAPACITY,
    FAILED,
    PROVISIONED,
    ProvisioningRequest,
    Stage,
)

FOUND, NOT_FOUND, PROVIDED = "CapacityIsFound", "CapacityIsNotFound", "CapacityIsProvisioned"
STARTING, NO_TEMPLATE = "CapacityIsStarting", "PodTemplateNotFound"
EXPIRED, INVALID = "Expired", "InvalidRequest"
PARTLY_FOUND, REVOKED = "PartialCapacityIsFound", "CapacityRevoked"
TIME_EXPIRED = "CapacityReservationTimeExpired"


class Answer(msgspec.Struct, frozen=True):
    """What the last plan says about an open request."""

    problem: str = ""
    """Why it cannot be judged."""
    fitting: tuple[int, ...] | None = None
    """Of a check: indices of the pod sets for which there is room. None: not checked yet."""
    outcome: Outcome | None = None
    """Of the others: where their virtual pods are. None: not planned yet."""
    lost: str = ""
    """Of one whose room is kept: why a part of it is gone for good; empty: it is there."""


def desired_conditions(
    request: ProvisioningRequest, answer: Answer, *, now: float
) -> dict[str, Condition]:
    """The conditions as they should be now. ``now``: seconds since the epoch."""
    conditions: Mapping[str, Condition] = request.conditions
    for name, verdict in _verdicts(request, answer, now).items():
        stamped = msgspec.structs.replace(verdict, since=now, generation=request.generation)
        conditions = with_condition(conditions, name, stamped)
    return dict(conditions)


def _verdicts(request: ProvisioningRequest, answer: Answer, now: float) -> dict[str, Condition]:
    stage = request.stage(now=now)
    if stage == Stage.OPEN:
        return _answers(request, answer, now)
    if stage == Stage.BOOKED and answer.lost:
        text = f"room that was kept is gone and cannot be had again: {answer.lost}"
        return {CAPACITY_REVOKED: _condition(True, REVOKED, text)}
    ended = request.has(FAILED) or request.has(BOOKING_EXPIRED)
    if stage == Stage.OVER and request.has(PROVISIONED) and not ended:
        text = f"the room was kept for {BOOKING_SECONDS:.0f} s"
        return {BOOKING_EXPIRED: _condition(True, TIME_EXPIRED, text)}
    return {}


def _answers(request: ProvisioningRequest, answer: Answer, now: float) -> dict[str, Condition]:
    if request.faults:
        return {FAILED: _condition(True, INVALID, "; ".join(request.faults))}
    accepted = {ACCEPTED: _condition(True, ACCEPTED, "capacity is looked for")}
    verdict = _verdict(request, answer)
    given_up = not request.retries and verdict is not None and verdict.reason == NOT_FOUND
    if verdict is not None and verdict.status == "True":
        return {**accepted, PROVISIONED: verdict}
    if given_up and verdict is not None:
        return {**accepted, FAILED: _condition(True, NOT_FOUND, verdict.message)}
    if now >= request.created_at + request.valid_seconds:
        why = verdict.message if verdict is not None else "nothing was found in time"
        text = f"it was valid for {request.valid_seconds:.0f} s: {why}"
        return {**accepted, FAILED: _condition(True, EXPIRED, text)}
    return accepted if verdict is None else {**accepted, PROVISIONED: verdict}


def _verdict(request: ProvisioningRequest, answer: Answer) -> Condition | None:
    """Of the condition Provisioned; None while nothing is known."""
    if answer.problem:
        return _condition(False, NO_TEMPLATE, answer.problem)
    if request.class_name == CHECK_CAPACITY:
        return None if answer.fitting is None else _checked(request, answer.fitting)
    return None if answer.outcome is None else _planned(request, answer.outcome)


def desired_fitting(request: ProvisioningRequest, answer: Answer, *, now: float) -> tuple[str, ...]:
    """Templates of the pod sets for which a check found room, for the status. An answer that was given stays."""
    if request.stage(now=now) != Stage.OPEN or answer.fitting is None:
        return request.fitting
    return tuple(request.pod_sets[index].template for index in answer.fitting)


def _checked(request: ProvisioningRequest, fitting: tuple[int, ...]) -> Condition:
    if len(fitting) == len(request.pod_sets):
        return _condition(True, FOUND, f"nodes that run have room for {request.pods} pods")
    if fitting:
        names = ", ".join(request.pod_sets[index].template for index in fitting)
        text = f"nodes that run have room for {len(fitting)} of {len(request.pod_sets)} pod sets: {names}"
        return _condition(request.partial == BOOK_PARTIAL, PARTLY_FOUND, text)
    return _condition(False, NOT_FOUND, f"nodes that run have no room for {request.pods} pods")


def _planned(request: ProvisioningRequest, outcome: Outcome) -> Condition:
    if outcome.unplaced:
        return _condition(False, NOT_FOUND, outcome.why)
    if outcome.starting:
        text = f"of {request.pods} pods {outcome.ready} have room, {outcome.starting} wait for machines that start"
        return _condition(False, STARTING, text)
    return _condition(True, PROVIDED, f"nodes that run have room for {request.pods} pods")


def _condition(is_true: bool, reason: str, message: str) -> Condition:
    return Condition("True" if is_true else "False", reason, message[:LONGEST_MESSAGE])
