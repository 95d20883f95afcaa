"""Pods that share a claim without a volume yet go to one zone: the volume will be in that zone only.

The claim's first pod decides where the volume is made, so a plan must not send its other pods elsewhere. They get a
label of their own and a required pod affinity to it, by zone, and all ask for the zones that each of them may go to;
how that is met is topology's work (SCH-80). One that the others cannot follow gets a verdict instead.

What may go wrong: a second claim whose volume is elsewhere, or several required node-affinity terms, are not looked
at here. The pods that then cannot follow the first one stay pending, with a verdict.
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
_SHOWN = 3


def with_shared_claims(snapshot: Snapshot) -> tuple[Snapshot, dict[str, str]]:
    """The snapshot with these rules in its pods, and an addition to the verdict of each such pod, by UID.

    The snapshot itself when no claim is shared.
    """
    users = _users(snapshot)
    if not users:
        return snapshot, {}
    together = _together(users)
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
    """Claim -> UIDs of its pods, for claims of several pods whose volume is still to be made in one zone."""
    zonal = {one.name for one in snapshot.storage_classes if _is_zonal(one)}
    waiting = {
        claim.key
        for claim in snapshot.claims
        if not claim.volume_name and claim.storage_class in zonal
    }
    found: dict[str, list[str]] = defaultdict(list)
    for pod in snapshot.pods if waiting else ():
        for key in {f"{pod.namespace}/{name}" for name in pod.volume_claims} & waiting:
            found[key].append(pod.uid)
    return {key: uids for key, uids in found.items() if len(uids) > 1}


def _is_zonal(found: StorageClass) -> bool:
    """Are its volumes reached from one zone only? Others, such as network file systems, are reached from each."""
    wanted = (expression.key for term in found.allowed_topologies for expression in term)
    return found.provisioner in _ZONAL_PROVISIONERS or keys.ZONE in map(keys.normalise, wanted)


def _together(users: dict[str, list[str]]) -> dict[str, tuple[str, ...]]:
    """Pod UID -> the claims, sorted, that hold it together with other pods, directly or through a third pod's."""
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
    mark = {_LABEL: claims[0]}
    term = AffinityTerm(keys.ZONE, match_labels=mark, namespaces=())
    narrowed = () if zones.complement else zones.expressions()
    return [
        replace(
            pod,
            labels={**pod.labels, **mark},
            affinity=(*pod.affinity, term),
            required_terms=_narrowed(pod, narrowed),
        )
        for pod in found
    ]


def _narrowed(pod: Pod, zones: tuple[Expression, ...]) -> tuple[tuple[Expression, ...], ...]:
    return tuple((*t, *zones) for t in pod.required_terms or ((),)) if zones else pod.required_terms


def _zones_of(pod: Pod) -> Requirement:
    """Where the pod may go by its own selector; anywhere when that is not one simple answer."""
    anywhere = Requirement(keys.ZONE, complement=True)
    if pod.node_name or len(pod.required_terms) > 1:
        return anywhere
    try:
        return strict_requirements(pod).get(keys.ZONE) or anywhere
    except InvalidObject:
        return anywhere


def _named(claims: Iterable[str]) -> str:
    listed = [f'"{one}"' for one in claims]
    more = len(listed) - _SHOWN
    shown = ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return (
        f"volumes of the persistent volume claims {shown}"
        if len(listed) > 1
        else (f"the volume of the persistent volume claim {shown}")
    )
