"""Which nodes are ill for too long, and whether so many are that the cause lies elsewhere: pure (TRM-20, TRM-21).

A network that fails makes every node look ill at once. To replace them all would make a bad hour worse, so nothing is
repaired where more than a fifth of a pool is ill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shared.api.shapes import entries, mapping
from shared.clock import parse_rfc3339
from shared.domain.nodes import Node
from shared.errors import InvalidObject

Json = Mapping[str, Any]
MINUTE = 60.0
PATIENCE = {
    ("Ready", "False"): 30 * MINUTE,
    ("Ready", "Unknown"): 30 * MINUTE,
    ("AcceleratedHardwareReady", "False"): 10 * MINUTE,
    ("StorageReady", "False"): 30 * MINUTE,
    ("NetworkingReady", "False"): 30 * MINUTE,
    ("KernelReady", "False"): 30 * MINUTE,
    ("ContainerRuntimeReady", "False"): 30 * MINUTE,
}
"""TRM-20: condition and status -> how long that is tolerated, in seconds."""
MOST_ILL_PERCENT = 20
"""TRM-21, rounded up to whole nodes."""


class Illness(msgspec.Struct, frozen=True):
    """What is wrong with a node. ``due``: when it is no longer tolerated, in seconds since the epoch."""

    condition: str
    status: str
    due: float


class Patient(msgspec.Struct, frozen=True):
    """A node and what is wrong with it, if anything is."""

    node: Node
    illness: Illness | None


def illness_of(raw: Json) -> Illness | None:
    """The illness of a node object that is due first. A condition that cannot be read is none."""
    try:
        conditions = entries(mapping(raw.get("status"), "status").get("conditions"), "conditions")
    except InvalidObject:
        return None
    found = [illness for one in conditions if (illness := _illness(one))]
    return min(found, key=lambda illness: illness.due, default=None)


def _illness(condition: Json) -> Illness | None:
    kind, status = str(condition.get("type")), str(condition.get("status"))
    patience = PATIENCE.get((kind, status))
    if patience is None:
        return None
    try:
        since = parse_rfc3339(str(condition.get("lastTransitionTime")))
    except ValueError:
        return None
    return Illness(kind, status, since + patience)


def is_epidemic(patients: Sequence[Patient]) -> bool:
    """TRM-21: are more of these ill than one may repair? Those that are tolerated still count as well."""
    ill = sum(patient.illness is not None for patient in patients)
    return ill > -(-len(patients) * MOST_ILL_PERCENT // 100)


def due(patients: Iterable[Patient], *, now: float) -> list[Patient]:
    """Those whose illness is no longer tolerated, and that do not go already."""
    return [
        patient
        for patient in patients
        if patient.illness is not None
        and patient.illness.due <= now
        and not patient.node.terminating
    ]


def wards(patients: Iterable[Patient]) -> dict[str, list[Patient]]:
    """By key of the pool. Under the empty key, for machines without a pool, the whole cluster (TRM-21)."""
    everybody = list(patients)
    found: dict[str, list[Patient]] = {"": everybody}
    for patient in everybody:
        if patient.node.pool_key:
            found.setdefault(patient.node.pool_key, []).append(patient)
    return found
