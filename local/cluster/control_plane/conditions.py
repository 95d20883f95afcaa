"""Status conditions: lists of ``{type, status, reason, message, lastTransitionTime}`` keyed by type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Condition = dict[str, Any]


def find_condition(obj: Mapping[str, Any], condition_type: str) -> Mapping[str, Any] | None:
    """The object's condition of that type, or None."""
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == condition_type:
            found: Mapping[str, Any] = condition
            return found
    return None


def is_true(obj: Mapping[str, Any], condition_type: str) -> bool:
    """Whether the condition is present with status "True"."""
    condition = find_condition(obj, condition_type)
    return condition is not None and condition.get("status") == "True"


def with_conditions(
    conditions: Iterable[Mapping[str, Any]] | None, new: Iterable[Condition], now: str
) -> list[Condition]:
    """``conditions`` with ``new`` inserted or replaced; lastTransitionTime changes only with the status."""
    merged = {condition["type"]: dict(condition) for condition in conditions or ()}
    for condition in new:
        before = merged.get(condition["type"])
        changed = before is None or before.get("status") != condition["status"]
        since = now if changed or before is None else before.get("lastTransitionTime", now)
        merged[condition["type"]] = {**condition, "lastTransitionTime": since}
    return list(merged.values())
