"""The topology of volumes and storage classes, as predicates over a node's labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from local.cluster.control_plane.informers import Obj
from local.cluster.scheduling.quantities import amount
from local.cluster.scheduling.selectors import node_term_predicate

Labels = Mapping[str, str]
ZONE = "topology.kubernetes.io/zone"
ZONE_ALIASES = ("topology.ebs.csi.aws.com/zone", "failure-domain.beta.kubernetes.io/zone")
"""Other zone labels of volumes and classes; the EBS driver, which does not run here, sets the first on nodes."""


def reaches(volume: Obj) -> Callable[[Labels, str], bool]:
    """Whether a node, given by labels and name, reaches the PersistentVolume."""
    affinity = (volume["spec"].get("nodeAffinity") or {}).get("required")
    if affinity is None:
        return lambda _labels, _name: True
    terms = [node_term_predicate(term) for term in affinity.get("nodeSelectorTerms") or ()]
    return lambda labels, name: any(term(_with_aliases(labels), name) for term in terms)


def class_allows(storage_class: Obj, labels: Labels) -> bool:
    """Whether the class may create a volume for a node with these labels."""
    terms = storage_class.get("allowedTopologies") or ()
    whole = _with_aliases(labels)
    return not terms or any(
        all(whole.get(e["key"]) in (e.get("values") or ()) for e in _expressions(term))
        for term in terms
    )


def _expressions(term: dict[str, Any]) -> list[dict[str, Any]]:
    return list(term.get("matchLabelExpressions") or ())


def _with_aliases(labels: Labels) -> Labels:
    zone = labels.get(ZONE)
    return labels if zone is None else {**dict.fromkeys(ZONE_ALIASES, zone), **labels}


def is_free(volume: Obj) -> bool:
    """Whether the volume is bound to no claim."""
    return not volume["spec"].get("claimRef") and not volume["metadata"].get("deletionTimestamp")


def suits(volume: Obj, claim: Obj) -> bool:
    """Whether an existing volume satisfies the claim."""
    spec, request = volume["spec"], claim["spec"]
    if (spec.get("storageClassName") or "") != (request.get("storageClassName") or ""):
        return False
    if not set(request.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return False
    return capacity_of(volume) >= requested(claim)


def capacity_of(volume: Obj) -> int:
    """Bytes of a PersistentVolume."""
    return amount("storage", (volume["spec"].get("capacity") or {}).get("storage") or "0")


def requested(claim: Obj) -> int:
    """Bytes that a claim asks for."""
    requests = (claim["spec"].get("resources") or {}).get("requests") or {}
    return amount("storage", requests.get("storage") or "0")
