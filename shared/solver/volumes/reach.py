"""The places that a pod's PersistentVolumeClaims allow, and how many volumes a node can still attach.

A bound claim allows the places from which its volume can be reached. A claim that waits for its first pod allows the
places in which its storage class creates volumes. With a claim in any other state the pod is not planned; its verdict
names the claim (POD-06).

The places are alternatives over all volumes of the pod (SCH-93). They are not part of the pod's own affinity, so
relaxation never drops them, and they do not change which domains count for its spread (SCH-95).

Pods that share a claim without a volume: see ``shared_claims``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.devices.counting import PREFIX
from shared.domain.expressions import Expression
from shared.domain.requirements import IN, Requirement, Requirements
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.kept import Recent
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.volumes import (
    LOST,
    WAIT_FOR_FIRST_CONSUMER,
    Alternatives,
    StorageClass,
    Volume,
    VolumeClaim,
)
from shared.errors import InvalidObject
from shared.solver.placement.relaxation import pod_requirements, strict_requirements
from shared.solver.volumes.attachments import Attachment, Attachments

MOST_ALTERNATIVES = 64
"""A pod with more combinations gets a verdict, since the planner may have to try each of them."""

UNSUPPORTED_PROVISIONERS = frozenset({"ebs.csi.eks.amazonaws.com"})
"""CSI drivers that run on nodes of EKS Auto Mode only."""

_ANYWHERE: tuple[Requirements, ...] = (Requirements(),)
_MAX_SHOWN = 3

COLUMN = f"{PREFIX}volumes-of-"
"""Begins the names of the columns for volumes (see ``attachable``); the name of the driver follows."""


@dataclass(frozen=True, eq=False)
class PodVolumes:
    """The volumes of one pod. ``alternatives`` has at least one member; empty requirements allow every node."""

    alternatives: tuple[Requirements, ...] = _ANYWHERE
    attached: tuple[Attachment, ...] = ()
    """Distinct claims of drivers whose number of volumes some node limits (SCH-91)."""
    counted: tuple[tuple[str, int], ...] = ()
    """Driver -> volumes, where instance types limit them (see ``attachable``)."""
    shared: bool = False
    """True when another pod uses one of these claims: a full node may have its volume attached already."""

    @property
    def identity(self) -> object:
        """Equal for pods whose volumes are equivalent for the planner."""
        drivers = tuple(sorted(Counter(driver for driver, _ in self.attached).items()))
        return self.alternatives, drivers, self.shared

    def explanation(self) -> str:
        """An addition to a verdict that names the number and the places of the volumes; empty when nothing limits
        either."""
        attaches = "".join(
            f"; it attaches {count} volumes of {driver}" for driver, count in self.counted
        )
        if self.alternatives == _ANYWHERE:
            return attaches
        shown = [f"({one})" for one in self.alternatives[:_MAX_SHOWN]]
        more = len(self.alternatives) - len(shown)
        return f"{attaches}; its volumes need {' or '.join(shown)}" + (
            f" or {more} others" if more else ""
        )


class Volumes:
    """The claims and volumes of a snapshot, indexed when the first pod with a claim is resolved."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.resolved: dict[str, PodVolumes] = {}
        """Pod UID -> its volumes, for pods with claims."""
        self._snapshot = snapshot
        self._read: dict[Alternatives, tuple[Requirements, ...]] = {}

    @cached_property
    def _claims(self) -> dict[str, VolumeClaim]:
        return _by_key(self._snapshot.claims)

    @cached_property
    def _volumes(self) -> dict[str, Volume]:
        return {volume.name: volume for volume in self._snapshot.volumes}

    @cached_property
    def _classes(self) -> dict[str, StorageClass]:
        return {found.name: found for found in self._snapshot.storage_classes}

    @cached_property
    def _limits(self) -> dict[str, dict[str, int]]:
        return {node.name: node.limits for node in self._snapshot.csi_nodes if node.limits}

    @cached_property
    def _limited(self) -> frozenset[str]:
        return frozenset(driver for limits in self._limits.values() for driver in limits)

    @cached_property
    def _users(self) -> Counter[str]:
        """Claim -> number of pods that use it."""
        return Counter(key for pod in self._snapshot.pods for key in claim_keys(pod))

    @cached_property
    def _topology_keys(self) -> frozenset[str]:
        """Keys of the labels that a new node can have."""
        pools = self._snapshot.pools
        written = {keys.normalise(e.key) for pool in pools for e in pool.requirements}
        names = {pool.label_key for pool in pools}
        return keys.WELL_KNOWN.union(written, names, *(pool.labels for pool in pools))

    def resolve(self, pod: Pod) -> None:
        """Finds the places of a pod's volumes (SCH-93). Raises InvalidObject with the claim and the fix (POD-06)."""
        if not pod.volume_claims:
            return
        found, attached = _ANYWHERE, self._attached(pod)
        for key in claim_keys(pod):
            claim = self._claims.get(key)
            if claim is None:
                raise _invalid_claim(key, "it does not exist or cannot be read; create it")
            found = _intersected(key, found, self._alternatives(claim))
        shared = any(self._users[key] > 1 for _, key in attached)
        counted = tuple(
            (name.removeprefix(COLUMN), count)
            for name, count in pod.requests.items()
            if name.startswith(COLUMN)
        )
        self.resolved[pod.uid] = PodVolumes(found, attached, counted, shared)

    def explanation(self, uid: str) -> str:
        """An addition to the pod's verdict that names the places of its volumes; empty when there is none."""
        volumes = self.resolved.get(uid)
        return volumes.explanation() if volumes else ""

    def _alternatives(self, claim: VolumeClaim) -> tuple[Requirements, ...]:
        if claim.terminating:
            raise _invalid_claim(claim.key, "it is being deleted; create it again once it is gone")
        if claim.phase == LOST:
            text = f'its volume "{claim.volume_name}" is lost; create the claim again'
            raise _invalid_claim(claim.key, text)
        places = (
            self._bound_volume(claim).alternatives
            if claim.volume_name
            else self._storage_class(claim).allowed_topologies
        )
        try:
            return self._requirements(places)
        except InvalidObject as error:
            raise _invalid_claim(claim.key, str(error)) from error

    def _bound_volume(self, claim: VolumeClaim) -> Volume:
        name = claim.volume_name
        volume = self._volumes.get(name)
        if volume is None:
            problem = f'its volume "{name}" does not exist or cannot be read; restore it'
        elif volume.terminating:
            problem = f'its volume "{name}" is being deleted; create the claim again'
        elif not claim.bound_completed:
            problem = (
                f'it is not bound to its volume "{name}" yet (no annotation'
                " pv.kubernetes.io/bind-completed); see that the volume's claimRef names it"
            )
        else:
            _check_driver(claim, volume.driver)
            return volume
        raise _invalid_claim(claim.key, problem)

    def _storage_class(self, claim: VolumeClaim) -> StorageClass:
        name = claim.storage_class
        if not name:
            raise _invalid_claim(
                claim.key,
                "it has neither a volume nor a storage class;"
                " set storageClassName, or create a volume for it",
            )
        found = self._classes.get(name)
        if found is None:
            problem = "does not exist or cannot be read; create it"
        elif found.binding_mode != WAIT_FOR_FIRST_CONSUMER:
            problem = (
                "makes volumes at once and this one is not there yet;"
                f" look at its provisioner, or use volumeBindingMode {WAIT_FOR_FIRST_CONSUMER}"
            )
        else:
            _check_driver(claim, found.provisioner)
            asked = {e.key for term in found.allowed_topologies for e in term}
            if not (unknown := sorted(asked - self._topology_keys)):
                return found
            problem = (
                f"wants nodes with the label {unknown[0]}, which no pool"
                f" gives them; use {keys.ZONE} in its allowedTopologies"
            )
        raise _invalid_claim(claim.key, f'storage class "{name}" {problem}')

    def _requirements(self, alternatives: Alternatives) -> tuple[Requirements, ...]:
        if not alternatives:
            return _ANYWHERE
        known = self._read.get(alternatives)
        if known is None:
            known = _merged(Requirements.of(term) for term in alternatives)
            self._read[alternatives] = known
        return known

    def attachments(self, node_name: str, pods: Iterable[Pod]) -> Attachments:
        """The volumes that these pods have attached to their node (SCH-91)."""
        found = Attachments(self._limits.get(node_name, {}))
        if found.limits:
            for pod in pods:
                found.add(self._attached(pod))
        return found

    def of(self, pod: Pod) -> list[Attachment]:
        """The pod's claims that exist, with the driver of each; the driver is empty where none is known."""
        known = (self._claims[key] for key in claim_keys(pod) if key in self._claims)
        return [(self._driver(claim), claim.key) for claim in known]

    def _attached(self, pod: Pod) -> tuple[Attachment, ...]:
        if not pod.volume_claims or not self._limited:
            return ()
        return tuple((driver, key) for driver, key in self.of(pod) if driver in self._limited)

    def _driver(self, claim: VolumeClaim) -> str:
        if claim.volume_name:
            volume = self._volumes.get(claim.volume_name)
            return volume.driver if volume else ""
        storage_class = self._classes.get(claim.storage_class or "")
        return storage_class.provisioner if storage_class else ""


_last_claims = Recent[tuple[tuple[VolumeClaim, ...], dict[str, VolumeClaim]]]()
"""Those of the last snapshot: plans of one pass have the same ones."""


def _by_key(claims: tuple[VolumeClaim, ...]) -> dict[str, VolumeClaim]:
    for of, known in _last_claims:
        if of is claims:
            return known
    return _last_claims.add((claims, {claim.key: claim for claim in claims}))[1]


def _invalid_claim(key: str, text: str) -> InvalidObject:
    return InvalidObject(text, field=f'persistent volume claim "{key}"')


def claim_keys(pod: Pod) -> list[str]:
    """The keys of the pod's claims, each once, in the order of its volumes."""
    return [f"{pod.namespace}/{name}" for name in dict.fromkeys(pod.volume_claims)]


def _check_driver(claim: VolumeClaim, driver: str) -> None:
    if driver in UNSUPPORTED_PROVISIONERS:
        raise _invalid_claim(
            claim.key,
            f"its driver {driver} serves nodes of EKS Auto Mode only; use ebs.csi.aws.com",
        )


def _intersected(
    key: str, found: tuple[Requirements, ...], more: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """The compatible pairs of two sets of alternatives. Raises InvalidObject for none and for too many."""
    if more == _ANYWHERE:
        return found
    if found == _ANYWHERE:
        both = more
    else:
        pairs = [(one, other) for one in found for other in more[: MOST_ALTERNATIVES + 1]]
        both = _merged(one.intersect(other) for one, other in pairs if _are_compatible(one, other))
    if max(len(both), len(more)) > MOST_ALTERNATIVES:
        raise _invalid_claim(
            key,
            f"the pod's volumes leave more than {MOST_ALTERNATIVES} combinations of places;"
            " give them fewer topology terms",
        )
    if not both:
        raise _invalid_claim(
            key,
            f"it needs a node with {_either(more)}, the pod's other volumes one with"
            f" {_either(found)}; no node is both, so move one of them",
        )
    return both


def _either(alternatives: tuple[Requirements, ...]) -> str:
    return " or ".join(f"({one})" for one in alternatives[:_MAX_SHOWN])


def _are_compatible(left: Requirements, right: Requirements) -> bool:
    """Can one node have the labels that both require?"""
    return left.compatible(right, allow_undefined=frozenset(wanted.key for wanted in right))


def _merged(alternatives: Iterable[Requirements]) -> tuple[Requirements, ...]:
    """The same places in fewer alternatives: zone a or zone b becomes one requirement with two values."""
    found = list(dict.fromkeys(alternatives))
    if any(len(one) == 0 for one in found):
        return _ANYWHERE
    for key in sorted({wanted.key for one in found for wanted in one}):
        found = _merged_by_key(key, found)
    return tuple(found)


def _merged_by_key(key: str, alternatives: list[Requirements]) -> list[Requirements]:
    """Joins alternatives that differ only in the listed values of ``key``."""
    values: dict[Requirements, frozenset[str]] = {}
    kept = []
    for one in alternatives:
        wanted = one.get(key)
        if wanted is None or wanted.operator != IN:
            kept.append(one)
            continue
        rest = one.without(key)
        values[rest] = values.get(rest, frozenset()) | wanted.values
    return [*(rest.add(Requirement(key, False, v)) for rest, v in values.items()), *kept]


def with_single_values(
    alternatives: tuple[Requirements, ...], topology_keys: Iterable[str]
) -> tuple[Requirements, ...]:
    """Alternatives with a single value of these keys each, unless there would be more than ``MOST_ALTERNATIVES``.

    For pods that exclude others by these keys: a machine that may still get several values counts in all of them.
    """
    for key in topology_keys:
        divided = tuple(part for one in alternatives for part in _divided(one, key))
        if len(divided) <= MOST_ALTERNATIVES:
            alternatives = divided
    return alternatives


def _divided(one: Requirements, key: str) -> list[Requirements]:
    wanted = one.get(key)
    if wanted is None or wanted.operator != IN:
        return [one]
    return [one.add(Requirement(key, False, frozenset({value}))) for value in sorted(wanted.values)]


def reachable(pod: Pod, alternatives: tuple[Requirements, ...]) -> Pod:
    """The pod without the node-affinity terms that no place of its volumes can meet.

    Raises InvalidObject when its selector or all of its required terms exclude these places (SCH-49).
    """

    def holds(term: tuple[Expression, ...]) -> bool:
        wanted = Requirements.of(term, pod.node_selector)
        return any(_are_compatible(wanted, place) for place in alternatives)

    required = tuple(term for term in pod.required_terms if holds(term))
    if not (required or (not pod.required_terms and holds(()))):
        raise InvalidObject(
            f"incompatible volume requirements, its volumes need a node with {_either(alternatives)},"
            " which its node selector and affinity exclude; change these or move the volumes",
            field="spec.volumes",
        )
    preferred = tuple(term for term in pod.preferred_terms if holds(term.expressions))
    return replace(pod.narrowed_to(required), preferred_terms=preferred)


def requirements_by_place(pod: Pod, alternatives: tuple[Requirements, ...]) -> list[Requirements]:
    """The pod's requirements within each alternative, at least one. ``pod`` comes from ``reachable``.

    A preference that no alternative can meet together with the strict requirements is dropped.
    """
    wanted = pod_requirements(pod)
    places = [place for place in alternatives if _are_compatible(wanted, place)]
    if not places:
        wanted = strict_requirements(pod)
        places = [place for place in alternatives if _are_compatible(wanted, place)]
    return [wanted.intersect(place) for place in places]
