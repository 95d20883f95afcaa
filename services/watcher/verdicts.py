"""Tells users whether their pools and node classes are valid: a condition with every fault, and an event.

``Active`` on a Provisioner, ``Ready`` on an AWSNodeTemplate (only to say no: the launcher says yes once it found
subnets, groups and images). The object is skipped until it is mended; the others go on (F27).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.machines import condition_objects, parse_conditions, with_condition
from shared.api.references import to_object
from shared.clock import Clock
from shared.domain.machines import Condition
from shared.errors import Conflict, NotFound
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import Resource
from shared.log import get_logger

log = get_logger(__name__)

ACTIVE = "Active"
READY = "Ready"
INVALID = "ValidationFailed"
LONGEST_MESSAGE = 1000
Json = Mapping[str, Any]


def verdict(kind: str, faults: tuple[str, ...], *, now: float) -> tuple[str, Condition] | None:
    """(condition type, condition) to show for this object, None for nothing to say."""
    message = "; ".join(faults)[:LONGEST_MESSAGE]
    if kind == "nodepools":
        if faults:
            return ACTIVE, Condition("False", INVALID, message, now)
        return ACTIVE, Condition("True", ACTIVE, "", now)
    if kind == "nodeclasses" and faults:
        return READY, Condition("False", INVALID, message, now)
    return None


class Verdicts:
    """Writes verdicts to the objects."""

    def __init__(self, kube: Kube, recorder: Recorder, clock: Clock) -> None:
        self._kube = kube
        self._recorder = recorder
        self._clock = clock

    async def tell(self, kind: str, resource: Resource, raw: Json, faults: tuple[str, ...]) -> None:
        """Bring the condition of one object up to date. Never raises for a lost race."""
        said = verdict(kind, faults, now=self._clock.now())
        if said is None or raw["metadata"].get("deletionTimestamp"):
            return
        name, condition = said
        if faults:
            await self._recorder.publish(
                to_object(raw), "Warning", INVALID, condition.message, dedupe_seconds=300
            )
        old = parse_conditions((raw.get("status") or {}).get("conditions"))
        shown = old.get(name)
        if shown and (shown.status, shown.message) == (condition.status, condition.message):
            return
        if faults:
            log.warning(
                "invalid object", kind=raw.get("kind"), name=raw["metadata"]["name"], faults=faults
            )
        conditions = condition_objects(with_condition(old, name, condition))
        try:
            await self._kube.patch(
                resource,
                raw["metadata"]["name"],
                {
                    "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
                    "status": {"conditions": conditions},
                },
                subresource="status",
            )
        except (NotFound, Conflict):
            log.debug("verdict overtaken by a change", name=raw["metadata"]["name"])
