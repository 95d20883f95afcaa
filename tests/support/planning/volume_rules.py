"""Volumes of a finished plan, checked from the rules (POD-06, SCH-91..93).

- a pod with a claim that cannot be used (missing, lost, going, half bound, no class, or one that binds at once) has
  no place;
- in every zone where its host may turn out to be, each of its claims is reached, or may be made;
- a node attaches no more volumes of a driver than its CSINode says, whatever was there before;
- on no instance type of a new machine have its pods more volumes of their own than the type is known to attach;
- pods that share a claim whose volume is still to be made in one zone are in one zone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from shared.domain import labels as keys
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.volumes import Alternatives, VolumeClaim
from shared.solver.plan import Plan
from tests.support.cluster.kubernetes_rules import PossibleLabels, always_holds
from tests.support.planning.topology_rules import Host

_ANYWHERE: Alternatives = ((),)
_ZONAL_DRIVERS = ("ebs.csi.aws.com",)


def violations(hosts: list[Host], snapshot: Snapshot) -> list[str]:
    """What is wrong with volumes, in words."""
    rules = _Rules(snapshot)
    return [*rules.places(hosts), *rules.attachments(hosts), *rules.shared(hosts)]


def overfull(plan: Plan, snapshot: Snapshot) -> list[str]:
    """New machines with more volumes than their instance types attach, in words."""
    return list(_Rules(snapshot).new_machines(plan))


class _Rules:
    def __init__(self, snapshot: Snapshot) -> None:
        self._claims = {claim.key: claim for claim in snapshot.claims}
        self._volumes = {volume.name: volume for volume in snapshot.volumes}
        self._classes = {one.name: one for one in snapshot.storage_classes}
        self._limits = {one.name: one.limits for one in snapshot.csi_nodes}
        self._of_types = {kind.name: kind.volume_limits for kind in snapshot.catalogue.types}
        self._pods = {pod.uid: pod for pod in snapshot.pods}
        self._users = Counter(key for pod in snapshot.pods for key in _keys(pod))

    def places(self, hosts: list[Host]) -> Iterator[str]:
        for host in hosts:
            for pod in host.added:
                for key in _keys(pod):
                    wanted = self._alternatives(key)
                    if wanted is None:
                        yield f"{pod.uid} has a place, but its claim {key} cannot be used"
                    elif not _reached(wanted, host.labels):
                        yield f"{pod.uid}: claim {key} is not reached from {host.name}"

    def attachments(self, hosts: list[Host]) -> Iterator[str]:
        for host in hosts:
            for driver, limit in self._limits.get(host.name, {}).items() if host.added else ():
                before, after = set[str](), set[str]()
                for pods, held in ((host.staying, before), ((*host.staying, *host.added), after)):
                    found = (key for pod in pods for key in _keys(pod))
                    held.update(key for key in found if self._driver(key) == driver)
                if len(after) > max(limit, len(before)):
                    yield f"{host.name}: {len(after)} volumes of {driver}, it attaches {limit}"

    def new_machines(self, plan: Plan) -> Iterator[str]:
        for machine in plan.machines:
            known = (self._pods[uid] for uid in machine.pods if uid in self._pods)
            claims = {key for pod in known for key in _keys(pod)}
            own = Counter(self._driver(key) for key in claims if self._users[key] == 1)
            for kind in machine.instance_types:
                for driver, limit in self._of_types.get(kind, {}).items():
                    if own[driver] > limit:
                        yield f"{machine.name} as {kind}: {own[driver]} volumes of {driver}, it attaches {limit}"

    def shared(self, hosts: list[Host]) -> Iterator[str]:
        zones: dict[str, set[frozenset[str]]] = {}
        for host in hosts:
            for pod in (*host.staying, *host.added):
                for key in _keys(pod):
                    if self._made_in_one_zone(key):
                        zones.setdefault(key, set()).add(host.domains(keys.ZONE))
        for key, found in sorted(zones.items()):
            if len(found) > 1:
                listed = sorted(", ".join(sorted(domains)) for domains in found)
                yield f"claim {key} is shared between zones: {' | '.join(listed)}"

    def _alternatives(self, key: str) -> Alternatives | None:
        """Labels of the nodes that reach the volume, or where it may be made; None: the pod has to wait."""
        claim = self._claims.get(key)
        if claim is None or claim.terminating or claim.phase == "Lost":
            return None
        if claim.volume_name:
            volume = self._volumes.get(claim.volume_name)
            usable = volume and not volume.terminating and claim.bound_completed
            return (volume.alternatives or _ANYWHERE) if volume and usable else None
        maker = self._classes.get(claim.storage_class or "")
        waits = maker and maker.binding_mode == "WaitForFirstConsumer"
        return (maker.allowed_topologies or _ANYWHERE) if maker and waits else None

    def _driver(self, key: str) -> str:
        claim = self._claims.get(key)
        if claim is None:
            return ""
        if claim.volume_name:
            volume = self._volumes.get(claim.volume_name)
            return volume.driver if volume else ""
        maker = self._classes.get(claim.storage_class or "")
        return maker.provisioner if maker else ""

    def _made_in_one_zone(self, key: str) -> bool:
        claim: VolumeClaim | None = self._claims.get(key)
        if claim is None or claim.volume_name:
            return False
        maker = self._classes.get(claim.storage_class or "")
        asked = [e.key for term in maker.allowed_topologies for e in term] if maker else []
        return self._driver(key) in _ZONAL_DRIVERS or keys.ZONE in map(keys.normalise, asked)


def _keys(pod: Pod) -> set[str]:
    return {f"{pod.namespace}/{name}" for name in pod.volume_claims}


def _reached(alternatives: Alternatives, labels: PossibleLabels) -> bool:
    """In each zone where the host may be, one alternative holds whatever its other labels are."""
    zones = labels.get(keys.ZONE) or frozenset()
    places = [{**labels, keys.ZONE: frozenset({zone})} for zone in zones] or [dict(labels)]
    return all(
        any(all(always_holds(e, place) for e in term) for term in alternatives) for place in places
    )
