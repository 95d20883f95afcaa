"""Status conditions of our kinds (metav1.Condition) <-> domain records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.shapes import TIMESTAMP_EXAMPLE, entries, text, whole
from shared.concurrency.clock import parse_rfc3339, rfc3339
from shared.domain.machines.machine import Condition
from shared.errors import InvalidObject

READY = "Ready"


def parse_conditions(raw: object) -> dict[str, Condition]:
    """Conditions by type. Raises InvalidObject."""
    field = "status.conditions"
    return {
        text(c.get("type"), f"{field}.type"): Condition(
            status=text(c.get("status"), f"{field}.status") or "Unknown",
            reason=text(c.get("reason"), f"{field}.reason"),
            message=text(c.get("message"), f"{field}.message"),
            since=_since(text(c.get("lastTransitionTime"), f"{field}.lastTransitionTime")),
            generation=whole(c.get("observedGeneration"), f"{field}.observedGeneration") or 0,
        )
        for c in entries(raw, field)
    }


def known_conditions(status: object) -> dict[str, Condition]:
    """Conditions of an unchecked ``status``; {} when they are invalid."""
    if not isinstance(status, Mapping):
        return {}
    try:
        return parse_conditions(status.get("conditions"))
    except InvalidObject:
        return {}


def _since(stamp: str) -> float:
    try:
        return parse_rfc3339(stamp) if stamp else 0.0
    except ValueError as error:
        raise InvalidObject(
            f"must be a timestamp {TIMESTAMP_EXAMPLE}",
            field="status.conditions.lastTransitionTime",
        ) from error


def condition_objects(conditions: Mapping[str, Condition]) -> list[dict[str, Any]]:
    """The inverse of ``parse_conditions``, sorted by type."""
    return [
        {
            "type": kind,
            "status": c.status,
            "reason": c.reason or kind,
            "message": c.message,
            "lastTransitionTime": rfc3339(c.since),
            **({"observedGeneration": c.generation} if c.generation else {}),
        }
        for kind, c in sorted(conditions.items())
    ]


def with_condition(
    conditions: Mapping[str, Condition], kind: str, new: Condition
) -> dict[str, Condition]:
    """``conditions`` with ``new`` as ``kind``; an unchanged status keeps its transition time."""
    old = conditions.get(kind)
    if old is not None and old.status == new.status:
        new = Condition(new.status, new.reason, new.message, old.since, new.generation)
    return {**conditions, kind: new}
