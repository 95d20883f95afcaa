"""What metrics show of a pod and its node: pure. Only an object without metadata makes it raise.

The labels are Karpenter's. An owner is written as the path of its object, as Karpenter does: the first owner counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from sys import intern
from typing import Any, NamedTuple

from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.domain.nodes import Node
from shared.metrics.cluster import NOBODYS
from shared.metrics.exposition.text import labelled
from shared.metrics.pods import PLACE, STATE

Json = Mapping[str, Any]
PENDING, OVER = "Pending", ("Succeeded", "Failed")
_OWN = STATE.labels[: -len(PLACE)]


class PodSeries(NamedTuple):
    """One pod. Times are seconds since the epoch; None: not yet."""

    name: str
    namespace: str
    owner: str
    node: str
    phase: str
    created_at: float | None
    bound_at: float | None
    """Since when its condition PodScheduled is True."""
    ready_at: float | None
    """Since when its condition Ready is True."""
    started: bool = False
    """It was ready once, or is over."""

    @property
    def is_over(self) -> bool:
        return self.phase in OVER


def series_of(raw: Json) -> PodSeries:
    meta, spec, status = raw["metadata"], _mapping(raw, "spec"), _mapping(raw, "status")
    since = dict(_true_since(status))
    namespace = str(meta.get("namespace") or "")
    return PodSeries(
        name=str(meta["name"]),
        namespace=intern(namespace),
        owner=intern(_owner(meta, namespace)),
        node=intern(str(spec.get("nodeName") or "")),
        phase=intern(str(status.get("phase") or PENDING)),
        created_at=_time(meta.get("creationTimestamp")),
        bound_at=since.get("PodScheduled"),
        ready_at=since.get("Ready"),
    )


def state_text(pod: PodSeries, place: str) -> str:
    """The labels of a pod's series; ``place``: those of its node, see ``place_text``."""
    scheduled, ready = _truth(bool(pod.node)), _truth(pod.ready_at is not None)
    own = (pod.name, pod.namespace, pod.owner, pod.node, pod.phase, scheduled, ready)
    return f"{labelled(_OWN, own)},{place}"


def place_text(node: Node | None) -> str:
    """The labels that a node gives its pods; of None: those of pods without a node."""
    labels = node.labels if node is not None else {}
    managed = node is not None and node.is_managed
    values = (
        (node.pool if node is not None else "") or NOBODYS,
        labels.get(keys.PROVISIONER_NAME) or NOBODYS,
        labels.get(keys.ZONE, ""),
        labels.get(keys.ARCH, ""),
        labels.get(keys.CAPACITY_TYPE, ""),
        labels.get(keys.INSTANCE_TYPE, ""),
        _truth(managed),
    )
    return intern(labelled(PLACE, values))


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _true_since(status: Json) -> Iterator[tuple[str, float]]:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, Mapping) and condition.get("status") == "True":
            at = _time(condition.get("lastTransitionTime"))
            if at is not None:
                yield str(condition.get("type")), at


def _owner(meta: Json, namespace: str) -> str:
    owners = meta.get("ownerReferences")
    first = owners[0] if isinstance(owners, list) and owners else None
    if not isinstance(first, Mapping):
        return ""
    kind = str(first.get("kind") or "").lower()
    return f"/apis/{first.get('apiVersion')}/namespaces/{namespace}/{kind}s/{first.get('name')}"


def _mapping(raw: Json, key: str) -> Json:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _time(value: object) -> float | None:
    try:
        return parse_rfc3339(str(value)) if value else None
    except ValueError:
        return None
