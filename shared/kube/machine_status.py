"""Writes conditions of a Machine so that two services never overwrite each other's.

A merge patch replaces the whole list of conditions, so each write reads the list first and is a compare-and-set (R3).
"""

from __future__ import annotations

from typing import Any

from shared.api.machines import condition_objects, parse_machine, with_readiness
from shared.domain.machines import Condition, Machine
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.resources import MACHINES

TRIES = 5
"""Others write a Machine's status a few times in its life; losing five times in a row is no accident."""


async def write_condition(
    kube: Kube,
    machine: Machine,
    name: str,
    condition: Condition,
    status: dict[str, Any] | None = None,
) -> bool:
    """Write one condition, and ``status`` fields with it. False when the Machine is gone or replaced.

    A condition that says already what it should is not written again. Raises Conflict after ``TRIES``.
    """
    for attempt in range(TRIES):
        try:
            raw = await kube.get(MACHINES, machine.name)
        except NotFound:
            return False
        if raw["metadata"]["uid"] != machine.uid:
            return False
        old = parse_machine(raw).conditions
        known = old.get(name)
        told = known and (known.status, known.message) == (condition.status, condition.message)
        if told and not status:
            return True
        conditions = condition_objects(with_readiness(old, name, condition))
        body = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": {**(status or {}), "conditions": conditions},
        }
        try:
            await kube.patch(MACHINES, machine.name, body, subresource="status")
        except NotFound:
            return False
        except Conflict:
            if attempt == TRIES - 1:
                raise
            continue
        return True
    return False
