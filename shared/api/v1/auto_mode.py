"""Objects of EKS Auto Mode and of other autoscalers that speak Karpenter's API in the same cluster.

They keep NodePools and NodeClaims as we do, whose classes are of another group. To us they do not exist: nothing may be
launched for them, written to them or ended with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from shared.api.shapes import below
from shared.domain.pools.generations import CLASS_GROUP, GENERATIONS, V1

Json = Mapping[str, Any]
AUTO_MODE_GROUP = "eks.amazonaws.com"
"""API group of the node classes of EKS Auto Mode."""
_OURS = GENERATIONS[V1]


def is_of_others(kind: str, raw: Json) -> bool:
    """Whether another autoscaler keeps this stored object of ``kind``, such as NodeClaim. Its spec must be present."""
    judge = _JUDGES.get(kind)
    return judge is not None and judge(raw)


def _pool(raw: Json) -> bool:
    """A class of a group that is neither ours nor Auto Mode's is a fault, which the pool's status says (NP-23)."""
    template = below(below(below(raw, "spec"), "template"), "spec")
    return below(template, "nodeClassRef").get("group") == AUTO_MODE_GROUP


def _claim(raw: Json) -> bool:
    """A claim without group or kind was stored by an older version and is ours."""
    reference = below(below(raw, "spec"), "nodeClassRef")
    ours = (("group", CLASS_GROUP), ("kind", _OURS.class_kind))
    return any(
        isinstance(reference.get(name), str) and reference[name] not in ("", only)
        for name, only in ours
    )


_JUDGES: Mapping[str, Callable[[Json], bool]] = {
    _OURS.pool_kind: _pool,
    _OURS.machine_kind: _claim,
}
KINDS_OF_OTHERS = frozenset(_JUDGES)
"""Kinds of which another autoscaler may have objects. Only the spec shows whose an object is, not the metadata."""
