"""Where a pod's volumes let it go, and how many volumes a node still attaches.

A claim that is bound goes where its volume is reached; a claim that waits for its first pod goes where its storage
class may make a volume; whatever else a claim is in, the pod waits for a person or a controller and leaves the round
with a verdict that names the claim (POD-06).

The places are alternatives over all volumes of the pod (SCH-93). They are no part of the pod's own affinity, so
relaxing the pod never drops them and they do not change which domains count for its spread (SCH-95).

Pods that share a claim without a volume are held together elsewhere: see ``shared_claims``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.requirements import IN, Requirement, Requirements
from shared.domain.snapshot import Snapshot
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

MOST_ALTERNATIVES = 64
"""More combinations than this are refused in words: each one may cost a whole search."""

UNSUPPORTED_PROVISIONERS = frozenset({"ebs.csi.eks.amazonaws.com"})
"""Drivers that run on nodes of EKS Auto Mode only."""

_ANYWHERE: tuple[Requirements, ...] = (Requirements(),)
_SHOWN = 3

Attachment = tuple[str, str]
"""(CSI driver, ``namespace/name`` of the claim)."""


@dataclass(frozen=True, eq=False)
class PodVolumes:
    """The volumes of one pod. ``alternatives`` holds at least one; an empty one means everywhere."""

    alternatives: tuple[Requirements, ...] = _ANYWHERE
    attached: tuple[Attachment, ...] = ()
    """Distinct claims of drivers that some node limits (SCH-91)."""
    shared: bool = False
    """Does another pod use one of these claims? Then a full node may still have it attached."""

    @property
    def identity(self) -> object:
        """What two pods must have in common for the planner not to tell them apart."""
        drivers = tuple(sorted(Counter(driver for driver, _ in self.attached).items()))
        return self.alternatives, drivers, self.shared

    def explanation(self) -> str:
        """An addition to a verdict whose zone the pod itself never asked for; empty when it goes anywhere."""
        if self.alternatives == _ANYWHERE:
            return ""
        shown = [f"({one})" for one in self.alternatives[:_SHOWN]]
        more = len(self.alternatives) - len(shown)
        return f"; its volumes need {' or '.join(shown)}" + (f" or {more} others" if more else "")


@dataclass
class Attachments:
    """SCH-91: volumes on one node. A driver that ``limits`` does not name has no limit."""

    limits: Mapping[str, int] = field(default_factory=dict)
    held: dict[str, set[str]] = field(default_factory=dict)

    def excess(self, wanted: Iterable[Attachment]) -> str:
        """Why these claims cannot be attached as well (SCH-55); empty when they can."""
        coming: dict[str, set[str]] = {}
        for driver, claim in wanted:
            if driver in self.limits and claim not in self.held.get(driver, ()):
                coming.setdefault(driver, set()).add(claim)
        for driver, claims in coming.items():
            count, limit = len(self.held.get(driver, ())) + len(claims), self.limits[driver]
            if count > limit:
                return (
                    f"checking volume usage, {count} volumes of {driver} exceed the limit {limit}"
                )
        return ""

    def add(self, wanted: Iterable[Attachment]) -> None:
        """These claims are on the node now."""
        for driver, claim in wanted:
            self.held.setdefault(driver, set()).add(claim)


class Volumes:
    """What a snapshot knows of claims and volumes; indexed only when some pod has a claim."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.resolved: dict[str, PodVolumes] = {}
        """By pod UID; pods without claims are not here."""
        self._snapshot = snapshot
        self._read: dict[Alternatives, tuple[Requirements, ...]] = {}

    @cached_property
    def _claims(self) -> dict[str, VolumeClaim]:
        return {claim.key: claim for claim in self._snapshot.claims}

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
        """How many pods use each claim."""
        return Counter(key for pod in self._snapshot.pods for key in _claim_keys(pod))

    @cached_property
    def _topology_keys(self) -> frozenset[str]:
        """Labels that a new node can have."""
        pools = self._snapshot.pools
        written = {keys.normalise(e.key) for pool in pools for e in pool.requirements}
        names = {pool.label_key for pool in pools}
        return keys.WELL_KNOWN.union(written, names, *(pool.labels for pool in pools))

    def resolve(self, pod: Pod) -> None:
        """SCH-93. Raises InvalidObject that names a claim and what to do about it (POD-06)."""
        if not pod.volume_claims:
            return
        found, attached = _ANYWHERE, self._attached(pod)
        for key in _claim_keys(pod):
            claim = self._claims.get(key)
            if claim is None:
                raise _problem(key, "it does not exist or cannot be read; create it")
            found = _combined(key, found, self._alternatives(claim))
        shared = any(self._users[key] > 1 for _, key in attached)
        self.resolved[pod.uid] = PodVolumes(found, attached, shared)

    def explanation(self, uid: str) -> str:
        """An addition to a verdict whose zone the pod itself never asked for."""
        volumes = self.resolved.get(uid)
        return volumes.explanation() if volumes else ""

    def _alternatives(self, claim: VolumeClaim) -> tuple[Requirements, ...]:
        if claim.terminating:
            raise _problem(claim.key, "it is being deleted; create it again once it is gone")
        if claim.phase == LOST:
            text = f'its volume "{claim.volume_name}" is lost; create the claim again'
            raise _problem(claim.key, text)
        places = (
            self._bound_to(claim).alternatives
            if claim.volume_name
            else self._made_by(claim).allowed_topologies
        )
        try:
            return self._requirements(places)
        except InvalidObject as error:
            raise _problem(claim.key, str(error)) from error

    def _bound_to(self, claim: VolumeClaim) -> Volume:
        name = claim.volume_name
        volume = self._volumes.get(name)
        if volume is None:
            raise _problem(
                claim.key, f'its volume "{name}" does not exist or cannot be read; restore it'
            )
        if volume.terminating:
            raise _problem(
                claim.key, f'its volume "{name}" is being deleted; create the claim again'
            )
        if not claim.bound_completed:
            raise _problem(
                claim.key,
                f'it is not bound to its volume "{name}" yet (no annotation'
                " pv.kubernetes.io/bind-completed); see that the volume's claimRef names it",
            )
        _check_driver(claim, volume.driver)
        return volume

    def _made_by(self, claim: VolumeClaim) -> StorageClass:
        name = claim.storage_class
        if not name:
            raise _problem(
                claim.key,
                "it has neither a volume nor a storage class;"
                " set storageClassName, or create a volume for it",
            )
        found = self._classes.get(name)
        if found is None:
            raise _problem(
                claim.key, f'storage class "{name}" does not exist or cannot be read; create it'
            )
        if found.binding_mode != WAIT_FOR_FIRST_CONSUMER:
            raise _problem(
                claim.key,
                f'storage class "{name}" makes volumes at once and this one is not there yet;'
                f" look at its provisioner, or use volumeBindingMode {WAIT_FOR_FIRST_CONSUMER}",
            )
        _check_driver(claim, found.provisioner)
        self._check_topologies(claim, found)
        return found

    def _check_topologies(self, claim: VolumeClaim, found: StorageClass) -> None:
        for key in sorted({e.key for term in found.allowed_topologies for e in term}):
            if key not in self._topology_keys:
                raise _problem(
                    claim.key,
                    f'storage class "{found.name}" wants nodes with the label {key}, which no pool'
                    f" gives them; use {keys.ZONE} in its allowedTopologies",
                )

    def _requirements(self, alternatives: Alternatives) -> tuple[Requirements, ...]:
        if not alternatives:
            return _ANYWHERE
        known = self._read.get(alternatives)
        if known is None:
            known = _united(Requirements.of(term) for term in alternatives)
            self._read[alternatives] = known
        return known

    def attachments(self, node_name: str, pods: Iterable[Pod]) -> Attachments:
        """SCH-91: what these pods, which are on the node, have attached to it."""
        found = Attachments(self._limits.get(node_name, {}))
        if found.limits:
            for pod in pods:
                found.add(self._attached(pod))
        return found

    def _attached(self, pod: Pod) -> tuple[Attachment, ...]:
        if not pod.volume_claims or not self._limited:
            return ()
        known = (self._claims[key] for key in _claim_keys(pod) if key in self._claims)
        found = ((self._driver(claim), claim.key) for claim in known)
        return tuple((driver, key) for driver, key in found if driver in self._limited)

    def _driver(self, claim: VolumeClaim) -> str:
        if claim.volume_name:
            volume = self._volumes.get(claim.volume_name)
            return volume.driver if volume else ""
        maker = self._classes.get(claim.storage_class or "")
        return maker.provisioner if maker else ""


def _problem(key: str, text: str) -> InvalidObject:
    return InvalidObject(text, field=f'persistent volume claim "{key}"')


def _claim_keys(pod: Pod) -> list[str]:
    """Each claim once, in the order of the pod's volumes."""
    return [f"{pod.namespace}/{name}" for name in dict.fromkeys(pod.volume_claims)]


def _check_driver(claim: VolumeClaim, driver: str) -> None:
    if driver in UNSUPPORTED_PROVISIONERS:
        raise _problem(
            claim.key,
            f"its driver {driver} serves nodes of EKS Auto Mode only; use ebs.csi.aws.com",
        )


def _combined(
    key: str, found: tuple[Requirements, ...], more: tuple[Requirements, ...]
) -> tuple[Requirements, ...]:
    """Cross product, without what contradicts itself."""
    if more == _ANYWHERE:
        return found
    if found == _ANYWHERE:
        both = more
    else:
        pairs = [(one, other) for one in found for other in more[: MOST_ALTERNATIVES + 1]]
        both = _united(one.intersect(other) for one, other in pairs if _meet(one, other))
    if max(len(both), len(more)) > MOST_ALTERNATIVES:
        raise _problem(
            key,
            f"the pod's volumes leave more than {MOST_ALTERNATIVES} combinations of places;"
            " give them fewer topology terms",
        )
    if not both:
        raise _problem(
            key,
            f"it needs a node with {_either(more)}, the pod's other volumes one with"
            f" {_either(found)}; no node is both, so move one of them",
        )
    return both


def _either(alternatives: tuple[Requirements, ...]) -> str:
    return " or ".join(f"({one})" for one in alternatives[:_SHOWN])


def _meet(left: Requirements, right: Requirements) -> bool:
    """Can a node have the labels that both ask for?"""
    return left.compatible(right, allow_undefined=frozenset(wanted.key for wanted in right))


def _united(alternatives: Iterable[Requirements]) -> tuple[Requirements, ...]:
    """The same places in fewer alternatives, so that most pods have exactly one: zone a or zone b
    is one requirement with two values."""
    found = list(dict.fromkeys(alternatives))
    if any(len(one) == 0 for one in found):
        return _ANYWHERE
    for key in sorted({wanted.key for one in found for wanted in one}):
        found = _united_by(key, found)
    return tuple(found)


def _united_by(key: str, alternatives: list[Requirements]) -> list[Requirements]:
    """Those that differ in the listed values of ``key`` only become one."""
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


def one_by_one(
    alternatives: tuple[Requirements, ...], topology_keys: Iterable[str]
) -> tuple[Requirements, ...]:
    """With one value of these keys in each alternative, as far as they stay below ``MOST_ALTERNATIVES``.

    For pods that exclude others by these keys: a machine that may still get several values closes all of them.
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
    """``pod`` without the node-affinity terms that no place of its volumes can meet.

    Raises InvalidObject when its selector or all of its required terms are elsewhere (SCH-49).
    """

    def holds(term: tuple[Expression, ...]) -> bool:
        wanted = Requirements.of(term, pod.node_selector)
        return any(_meet(wanted, place) for place in alternatives)

    required = tuple(term for term in pod.required_terms if holds(term))
    if not (required or (not pod.required_terms and holds(()))):
        raise InvalidObject(
            f"incompatible volume requirements, its volumes need a node with {_either(alternatives)},"
            " which its node selector and affinity exclude; change these or move the volumes",
            field="spec.volumes",
        )
    preferred = tuple(term for term in pod.preferred_terms if holds(term.expressions))
    return replace(pod, required_terms=required, preferred_terms=preferred)


def choices(pod: Pod, alternatives: tuple[Requirements, ...]) -> list[Requirements]:
    """What to ask of a node, one per alternative, at least one. ``pod`` is ``reachable``.

    A preference that no alternative can meet together with the strict requirements is left out.
    """
    wanted = pod_requirements(pod)
    places = [place for place in alternatives if _meet(wanted, place)]
    if not places:
        wanted = strict_requirements(pod)
        places = [place for place in alternatives if _meet(wanted, place)]
    return [wanted.intersect(place) for place in places]
