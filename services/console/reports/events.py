"""The events of one object, read from the API server when a page needs them. The console never watches."""

from __future__ import annotations

from typing import Any

from shared.concurrency.clock import parse_rfc3339
from shared.errors import DovetailError
from shared.kube.client import Kube
from shared.kube.resources import EVENTS

MOST_EVENTS = 50


async def events_of(
    kube: Kube, name: str, namespace: str | None = None
) -> tuple[list[dict[str, Any]], str]:
    """(events, problem), newest first. ``namespace`` None: the object is in no namespace."""
    try:
        found = await kube.list(EVENTS, namespace, field_selector=f"involvedObject.name={name}")
    except DovetailError as error:
        return [], f"events cannot be read: {error.message}"
    shown = sorted((event_row(one) for one in found.items), key=lambda row: -row["at"])
    return shown[:MOST_EVENTS], ""


def event_row(event: dict[str, Any]) -> dict[str, Any]:
    """One event as the page shows it; ``at`` in seconds since the epoch, 0 when it has no readable time."""
    series = event.get("series") or {}
    times = (
        series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"),
        (event.get("metadata") or {}).get("creationTimestamp"),
    )  # fmt: skip
    return {
        "at": next((at for text in times if (at := _seconds(text))), 0.0),
        "type": str(event.get("type") or ""),
        "reason": str(event.get("reason") or ""),
        "message": str(event.get("message") or event.get("note") or ""),
        "count": series.get("count") or event.get("count") or 1,
    }


def _seconds(text: object) -> float:
    try:
        return parse_rfc3339(text) if isinstance(text, str) else 0.0
    except ValueError:
        return 0.0
