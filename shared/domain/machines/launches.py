"""Open launches, by their LaunchRecords (F1). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.domain.machines.machine import Machine


def is_wanted(
    record: Mapping[str, Any], machines: Iterable[Machine], unreadable_uids: Iterable[str] = ()
) -> bool:
    """Whether a machine of this stored record still waits for its instance. An unreadable machine counts as waiting."""
    waiting = {m.uid for m in machines if not m.terminating and not m.provider_id}
    waiting.update(unreadable_uids)
    return any(subject["uid"] in waiting for subject in record["spec"]["machines"])
