"""Pods that share a claim without a volume yet go to one zone: the volume will be in that zone only.

The claim's first pod decides where the volume is made, so a plan must not send its other pods elsewhere. They get a
label of their own and a required pod affinity to it, by zone; how that is met is topology's work (SCH-80).

What may go wrong: the first of the pods goes where it likes, also where another one's node selector or second volume
cannot follow. That one stays pending with a verdict that names the claim.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.pods import AffinityTerm, Pod
from shared.domain.snapshot import Snapshot
from shared.domain.volumes import StorageClass

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
    pods, additions = [], {}
    for pod in snapshot.pods:
        claims = together.get(pod.uid)
        pods.append(_bound_together(pod, claims[0]) if claims else pod)
        if claims:
            additions[pod.uid] = f"; with other pods it shares {_named(claims)}, made in one zone"
    return replace(snapshot, pods=tuple(pods)), additions


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


def _bound_together(pod: Pod, name: str) -> Pod:
    mark = {_LABEL: name}
    term = AffinityTerm(keys.ZONE, match_labels=mark, namespaces=())
    return replace(pod, labels={**pod.labels, **mark}, affinity=(*pod.affinity, term))


def _named(claims: Iterable[str]) -> str:
    listed = [f'"{one}"' for one in claims]
    more = len(listed) - _SHOWN
    shown = ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return (
        f"volumes of the persistent volume claims {shown}"
        if len(listed) > 1
        else (f"the volume of the persistent volume claim {shown}")
    )
