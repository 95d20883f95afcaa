"""Pods that share a PersistentVolumeClaim without a volume are planned into one zone, where the volume will be.

The claim's first pod decides the zone of the volume, so the plan must not place its other pods in another zone. The
pods get a common label, a required pod affinity to it by zone, and the zones that all of them allow; topology does the
rest (SCH-80). A pod whose zones exclude those of the others gets a verdict.

What may go wrong: second claims with a volume in another zone, and several required node-affinity terms, are not
considered here. Pods that cannot follow the first one stay pending, with a verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.requirements import Requirement
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import AffinityTerm, Pod
from shared.domain.workloads.volumes import StorageClass
from shared.errors import InvalidObject
from shared.solver.placement.relaxation import strict_requirements

_ZONAL_PROVISIONERS = frozenset({"ebs.csi.aws.com"})
_LABEL = "dovetail.sh/shared-claim"
_MAX_SHOWN = 3


def with_shared_claims(snapshot: Snapshot) -> tuple[Snapshot, dict[str, str]]:
    """The snapshot with these rules added to its pods, and pod UID -> an addition to its verdict.

    The same snapshot when no claim is shared.
    """
    users = _users(snapshot)
    if not users:
        return snapshot, {}
    together = _claim_groups(users)
    changed: dict[str, Pod] = {}
    for claims in sorted(set(together.values())):
        members = [pod for pod in snapshot.pods if together.get(pod.uid) == claims]
        changed.update((pod.uid, pod) for pod in _bound_together(members, claims))
    additions = {
        uid: f"; with other pods it shares {_named(claims)}, made in one zone"
        for uid, claims in together.items()
    }
    pods = tuple(changed.get(pod.uid, pod) for pod in snapshot.pods)
    return replace(snapshot, pods=pods), additions


def _users(snapshot: Snapshot) -> dict[str, list[str]]:
    """Claim -> UIDs of its pods, for claims of several pods whose zonal volume does not exist yet."""
    zonal = {one.name for one in snapshot.storage_classes if _is_zonal(one)}
    waiting = {
        claim.key
        for claim in snapshot.claims
        if not claim.volume_name and claim.storage_class in zonal
    }
    found: dict[str, list[str]] = defaultdict(list)
    for pod in snapshot.pods if waiting else ():
        for key in sorted({f"{pod.namespace}/{name}" for name in pod.volume_claims} & waiting):
            found[key].append(pod.uid)
    return {key: uids for key, uids in found.items() if len(uids) > 1}


def _is_zonal(found: StorageClass) -> bool:
    """Is a volume of this class reachable from one zone only? Network file systems are reachable from every zone."""
    wanted = (expression.key for term in found.allowed_topologies for expression in term)
    return found.provisioner in _ZONAL_PROVISIONERS or keys.ZONE in map(keys.normalise, wanted)


def _claim_groups(users: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Pod UID -> its shared claims and, transitively, those of the pods that it shares one with, sorted."""
    found: dict[str, set[str]] = {}
    for key in sorted(users):
        claims = {key}.union(*(found.get(uid, ()) for uid in users[key]))
        members = {uid for one in claims for uid in users[one]}
        found.update(dict.fromkeys(members, claims))
    return {uid: tuple(sorted(claims)) for uid, claims in found.items()}


def _bound_together(members: list[Pod], claims: tuple[str, ...]) -> list[Pod]:
    zones = Requirement(keys.ZONE, complement=True)
    found = []
    for pod in members:
        left = zones.intersect(_zones_of(pod))
        if left.is_empty:
            text = f"other pods that share {_named(claims)} go to zones that this one excludes"
            pod = replace(pod, faults=(*pod.faults, f"spec.volumes: {text}; let them agree"))
        else:
            zones = left
        found.append(pod)
    label = {_LABEL: claims[0]}
    term = AffinityTerm(keys.ZONE, match_labels=label, namespaces=())
    narrowed = () if zones.complement else zones.expressions()
    return [
        replace(
            pod.narrowed_to(_narrowed(pod, narrowed)),
            labels={**pod.labels, **label},
            affinity=(*pod.affinity, term),
        )
        for pod in found
    ]


def _narrowed(pod: Pod, zones: tuple[Expression, ...]) -> tuple[tuple[Expression, ...], ...]:
    return tuple((*t, *zones) for t in pod.required_terms or ((),)) if zones else pod.required_terms


def _zones_of(pod: Pod) -> Requirement:
    """The zones that the pod's own requirements allow; any zone when it is bound or has several required terms."""
    anywhere = Requirement(keys.ZONE, complement=True)
    if pod.node_name or len(pod.required_terms) > 1:
        return anywhere
    try:
        return strict_requirements(pod).get(keys.ZONE) or anywhere
    except InvalidObject:
        return anywhere


def _named(claims: Iterable[str]) -> str:
    listed = [f'"{one}"' for one in claims]
    more = len(listed) - _MAX_SHOWN
    shown = ", ".join(listed[:_MAX_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return (
        f"volumes of the persistent volume claims {shown}"
        if len(listed) > 1
        else (f"the volume of the persistent volume claim {shown}")
    )
