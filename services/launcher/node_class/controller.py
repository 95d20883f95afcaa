"""Keeps node classes of both generations: resolves them, writes their status, lets deleted ones go (T-12, EC-15..22).

A class is named by its key, such as ``EC2NodeClass/default``. What was found is used for a minute.

What may go wrong: a selector that finds nothing, a missing profile. The class then gets Ready=False and an event
which name the fields; the planner skips its pools; other classes go on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from services.launcher.cluster import ClusterDescription
from services.launcher.node_class.authorization import Authorization
from services.launcher.node_class.capacity_reservations import CapacityReservations
from services.launcher.node_class.discovery import Discovery, turn_seconds
from services.launcher.node_class.finalizer import ClassFinalizer, is_held, with_finalizer
from services.launcher.node_class.images import Images
from services.launcher.node_class.instance_profiles import InstanceProfiles
from services.launcher.node_class.kubelet_expressions import expression_problems
from services.launcher.node_class.placement_groups import PlacementGroups
from services.launcher.node_class.shared_answers import FRESH_SECONDS, SharedAnswers
from services.launcher.node_class.status import (
    Findings,
    Problem,
    found_status,
    invalid_status,
    message_of,
)
from services.launcher.ports import Ports
from services.launcher.resolved_class import BootImages, Resolved
from shared.api.core.references import to_object
from shared.api.faults import Parsed
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.domain import labels as keys
from shared.domain.pools.generations import GENERATIONS, OF_KIND, V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass
from shared.errors import Conflict, DovetailError, InsufficientCapacity, InvalidObject, NotFound
from shared.kube.reading import list_if_served
from shared.kube.resources import AWS_NODE_TEMPLATES, EC2_NODE_CLASSES, Resource
from shared.log import get_logger
from shared.redis.mirror.catalogue.offerings import CatalogueSource
from shared.redis.mirror.catalogue.reservations import ReservationStore

log = get_logger(__name__)

DISCOVERY_FRESH_SECONDS = 60.0
"""How long a discovery is used (LCH-10, LCH-13)."""
MOST_REFRESH_TRIES = 5
"""The watcher writes a class a few times in its first second."""
Json = Mapping[str, Any]
_KINDS: dict[str, tuple[Resource, Callable[[Json], Parsed[NodeClass]]]] = {
    GENERATIONS[V1ALPHA5].class_kind: (AWS_NODE_TEMPLATES, parse_node_template),
    GENERATIONS[V1].class_kind: (EC2_NODE_CLASSES, parse_ec2_node_class),
}


@dataclass
class NodeClasses:
    ports: Ports
    reservation_store: ReservationStore | None = None
    """Where the scheduler reads what classes select; None: nobody does."""
    catalogues: CatalogueSource | None = None
    """The types for which expressions are tried out; None: for none."""
    _known: dict[str, tuple[float, Resolved]] = field(default_factory=dict)
    _leaving: set[str] = field(default_factory=set)
    """Keys of classes that are being deleted and carry our finalizer."""

    def __post_init__(self) -> None:
        cloud, clock = self.ports.cloud, self.ports.clock
        self.cluster = ClusterDescription(self.ports)
        self.profiles = InstanceProfiles(self.ports)
        self._groups = PlacementGroups(cloud, clock)
        turn = turn_seconds(self.ports.settings)
        self._answers = SharedAnswers(clock, min(FRESH_SECONDS, turn / 2))
        images = Images(cloud, clock, self._answers)
        gate = self.ports.settings.feature_gates.reserved_capacity
        self.reservations = CapacityReservations(
            self.ports.cloud, self.ports.clock, gate, self.reservation_store
        )
        self._discovery = Discovery(
            self.ports.cloud,
            images,
            self.profiles,
            self._groups,
            self.reservations,
            clock,
            self.ports.settings,
            self._answers,
        )
        self._authorization = Authorization(self.ports)
        self._finalizer = ClassFinalizer(self.ports, self.profiles)

    async def resolve(self, key: str) -> Resolved:
        """The class with its subnets, groups, images and profile.

        Raises NotFound, InvalidObject for a class that is not ready, and InsufficientCapacity for one that is being
        deleted: a machine that waits for it would hold up its end, and must be planned elsewhere.
        """
        held = self._held(key)
        if held is not None:
            return held
        resource, parse, name = _split(key)
        raw = await self.ports.kube.get(resource, name)
        if raw["metadata"].get("deletionTimestamp"):
            raise InsufficientCapacity(f"{key} is being deleted", node_class=key)
        node_class = parse(raw).require(key)
        findings = await self._discover(node_class)
        if findings.problems:
            raise InvalidObject(message_of(findings.problems), field=key)
        return self._known[key][1]

    async def read(self, key: str) -> NodeClass:
        """The class as it is written, whatever AWS has of it. Raises NotFound and InvalidObject."""
        held = self._held(key)
        if held is not None:
            return held.node_class
        resource, parse, name = _split(key)
        return parse(await self.ports.kube.get(resource, name)).require(key)

    async def readable(self) -> dict[str, NodeClass]:
        """Every class that can be read, as it is written now, by key."""
        found: dict[str, NodeClass] = {}
        for resource, parse in _KINDS.values():
            records = [parse(raw).record for raw in await list_if_served(self.ports.kube, resource)]
            found |= {record.key: record for record in records if record is not None}
        return found

    def place_labels(self, key: str, zone: str, reservation_id: str) -> dict[str, str]:
        """IT-41, IT-44: labels of the zone, the reservation, and the class's placement group that a machine runs in."""
        known = self._known.get(key)
        if known is None:
            return self.reservations.labels_of(reservation_id)
        resolved = known[1]
        ids = (subnet.zone_id for subnet in resolved.subnets if subnet.zone == zone)
        zone_id = next(ids, "")
        return {
            **({keys.ZONE_ID: zone_id} if zone_id else {}),
            **self._groups.labels_of(resolved.node_class),
            **self.reservations.labels_of(reservation_id),
        }

    def profile_of(self, key: str) -> str:
        """The instance profile that machines of a class get; empty for none and for a class never looked up (NC-07)."""
        resolved = self._known.get(key)
        return resolved[1].profile if resolved else ""

    def _held(self, key: str) -> Resolved | None:
        found = self._known.get(key)
        if found is None or self.ports.clock.monotonic() - found[0] >= DISCOVERY_FRESH_SECONDS:
            return None
        return found[1]

    def ready(self) -> dict[str, Resolved]:
        """Classes that were complete when they were last looked up, by key."""
        return {key: resolved for key, (_, resolved) in self._known.items()}

    async def refresh_all(self) -> None:
        """Bring every class's status up to date. One that fails does not stop the others; its error comes last."""
        failed: DovetailError | None = None
        seen: set[str] = set()
        for resource, _ in _KINDS.values():
            for raw in await list_if_served(self.ports.kube, resource):
                seen.add(_key(raw))
                try:
                    await self.refresh(raw)
                except DovetailError as error:
                    log.warning("cannot refresh node class", key=_key(raw), error=error.message)
                    failed = error
        self._known = {key: held for key, held in self._known.items() if key in seen}
        if failed is not None:
            raise failed

    async def release_leaving(self) -> None:
        """A machine is gone: classes that waited for it may go now (EC-20)."""
        for key in sorted(self._leaving):
            await self.refresh_one(key)

    async def refresh_one(self, key: str) -> None:
        """After an edit: forget what was known. The watcher writes a new class too: one that changed while it was
        looked up is looked up again at once, since pods wait for it."""
        self._known.pop(key, None)
        self._answers.forget()
        try:
            resource, _, name = _split(key)
            for _ in range(MOST_REFRESH_TRIES):
                if await self.refresh(await self.ports.kube.get(resource, name)):
                    return
        except NotFound:
            self._leaving.discard(key)

    async def refresh(self, raw: Json) -> bool:
        """Discover what one stored class selects, and write it, or why not, to its status. False when the class has
        changed meanwhile and nothing was written.
        """
        if raw["metadata"].get("deletionTimestamp"):
            self._known.pop(_key(raw), None)
            if is_held(raw):
                self._leaving.add(_key(raw))
                await self._finalizer.advance(raw)
            return True
        parsed = _KINDS[raw["kind"]][1](raw)
        try:
            held = await self._hold(raw)
            status = await self._status(held, parsed)
            resolved = self._known.get(_key(raw))
            if resolved is not None:  # first: who reads that the class is ready plans with it
                await self.reservations.publish(resolved[1].node_class)
            if status is not None:
                await self._write(held, status)
        except (NotFound, Conflict):
            log.debug("node class changed meanwhile", key=_key(raw))
            return False
        return True

    async def _hold(self, raw: Json) -> Json:
        """Our finalizer on the object, before anything is made for it in AWS. Returns it as it is now (EC-20)."""
        finalizers = with_finalizer(raw) if OF_KIND[raw["kind"]].class_makes_profile else None
        if finalizers is None:
            return raw
        meta = raw["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"], "finalizers": finalizers}}
        return await self.ports.kube.patch(EC2_NODE_CLASSES, meta["name"], body)

    async def _status(self, raw: Json, parsed: Parsed[NodeClass]) -> dict[str, Any] | None:
        """The status to write; None for an unreadable v1alpha1 class, of which the watcher tells all there is."""
        now = self.ports.clock.now()
        if parsed.record is None:
            self._known.pop(_key(raw), None)
            if OF_KIND[raw["kind"]].detailed_status:
                return invalid_status(parsed.faults, raw, now)
            return None
        findings = await self._discover(parsed.record)
        if findings.problems:
            await self._publish(raw, message_of(findings.problems))
        return found_status(parsed.record.api, findings, raw, now)

    async def _discover(self, node_class: NodeClass) -> Findings:
        """What AWS has for this class; complete findings are kept for launches, incomplete ones forgotten."""
        findings = await self._discovery.find(node_class, await self.cluster.described())
        if wrong := await self._expression_problems(node_class):
            findings = replace(findings, problems=(*findings.problems, *wrong))
        if findings.problems:
            self._known.pop(node_class.key, None)
            return findings
        resolved = self._resolved(node_class, findings)
        denied = await self._authorization.problems(resolved)
        if denied:
            self._known.pop(node_class.key, None)
            return replace(findings, problems=tuple(denied))
        self._known[node_class.key] = (self.ports.clock.monotonic(), resolved)
        return findings

    async def _expression_problems(self, node_class: NodeClass) -> list[Problem]:
        catalogue = await self.catalogues.get() if self.catalogues and node_class.kubelet else None
        enabled = self.ports.settings.aws_feature_gates.node_class_cel
        types = catalogue.types if catalogue else ()
        # Beside the loop: at first each expression is evaluated a thousand times.
        return await asyncio.to_thread(expression_problems, node_class, types, enabled=enabled)

    def _resolved(self, node_class: NodeClass, findings: Findings) -> Resolved:
        group = findings.group
        known = replace(
            node_class,
            tags={**self.ports.settings.aws_tags, **node_class.tags},
            placement_group_id=group.id if group else "",
            partitions=group.partitions if group else 0,
            spreads=group is not None and group.strategy == "spread",
        )
        return Resolved(
            known,
            findings.subnets,
            findings.security_groups,
            BootImages(findings.images),
            findings.profile,
            findings.launch_template,
            findings.reservations,
        )

    async def _publish(self, raw: Json, message: str) -> None:
        log.warning("node class is not ready", node_class=_key(raw), reason=message)
        await self.ports.recorder.publish(
            to_object(raw), "Warning", "NodeClassNotReady", message, dedupe_seconds=300
        )

    async def _write(self, raw: Json, desired: dict[str, Any]) -> None:
        old = raw.get("status") or {}
        if all(old.get(name) == value for name, value in desired.items()):
            return
        meta = raw["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": desired}
        await self.ports.kube.patch(
            _KINDS[raw["kind"]][0], meta["name"], body, subresource="status"
        )


def _key(raw: Json) -> str:
    return f"{raw['kind']}/{raw['metadata']['name']}"


def _split(key: str) -> tuple[Resource, Callable[[Json], Parsed[NodeClass]], str]:
    """Resource, parser and name. Raises NotFound for a kind that is no node class."""
    kind, _, name = key.rpartition("/")
    if kind not in _KINDS:
        raise NotFound(f"{key} names no node class", key=key)
    resource, parse = _KINDS[kind]
    return resource, parse, name
