"""Keeps the status and the hash annotations of pools, node classes and machines true (NP-14..20, NP-24, EC-22).

It compares what the objects say with what they should say and writes the difference, each time anew from the watched
state: a lost write, a lost race or a restart is mended by the next turn. Everything is a compare-and-set on the
object as it was watched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from services.watcher.conversion import Kind
from services.watcher.mirror.journal import Journal
from services.watcher.mirror.members import Member
from services.watcher.object_faults import ObjectFaults, ObjectVersion
from services.watcher.status.inline_templates import InlineTemplates
from services.watcher.status.pools import (
    INVALID,
    Usage,
    class_refusal,
    class_verdict,
    differs,
    pool_status,
    registrations_are_old,
    usage_by_pool,
    validation_verdict,
)
from shared.api.class_statuses import REFUSED
from shared.api.core.references import to_object
from shared.api.faults import Fault, Parsed, texts_of
from shared.api.hashes import class_hash_annotations, pool_hash_annotations
from shared.api.v1alpha5.provisioners import inline_template_name
from shared.concurrency.clock import Clock
from shared.domain.pools.generations import OF_KIND
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.records import MACHINES, NODE_CLASSES, NODE_POOLS, decode_record
from shared.errors import Conflict, InvalidObject, NotFound, TransientError
from shared.kube.client import Kube
from shared.kube.informer import Key, key_of, known_of
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.log import get_logger
from shared.redis.mirror.pools.registrations import RegistrationOutcomes

log = get_logger(__name__)

Json = Mapping[str, Any]
EVENT_SECONDS = 300.0
NOTHING = Usage({}, 0)


@dataclass
class Watched:
    """One pool or class as last seen."""

    kind: Kind
    raw: Json
    parsed: Parsed[Any]

    @property
    def subject(self) -> ObjectVersion:
        return ObjectVersion(self.kind, key_of(self.raw), known_of(self.raw).version)


@dataclass
class Statuses:
    """Writes the status and hashes of pools and classes."""

    kube: Kube
    machines: Machines
    recorder: Recorder
    clock: Clock
    journal: Journal
    inline: InlineTemplates
    registrations: RegistrationOutcomes
    faults: ObjectFaults
    _watched: dict[str, Watched] = field(default_factory=dict)

    def note(self, kind: Kind, raw: Json, parsed: Parsed[Any]) -> None:
        """Remember one pool or class; other kinds are passed by."""
        if kind.name in (NODE_POOLS, NODE_CLASSES):
            self._watched[kind.key(raw)] = Watched(kind, raw, parsed)

    def forget(self, kind: Kind, key: Key) -> None:
        """A pool or class is gone; other kinds are passed by."""
        if kind.name in (NODE_POOLS, NODE_CLASSES):
            self._watched.pop(kind.key_of(key), None)

    async def refresh(self) -> None:
        """Bring every status up to date. One object that cannot be written does not stop the others."""
        machines = self.journal.machines()
        usage = usage_by_pool(machines, self.journal.nodes())
        outcomes = await self._outcomes()
        for key, watched in list(self._watched.items()):
            if watched.raw["metadata"].get("deletionTimestamp"):
                continue
            with self.faults.contained(watched.subject):
                await self._one(key, watched, usage.get(key, NOTHING), outcomes.get(key, ()))
        await self._adopt_hashes(machines)

    async def _one(
        self, key: str, watched: Watched, usage: Usage, outcomes: tuple[bool, ...]
    ) -> None:
        try:
            if watched.kind.name == NODE_POOLS:
                await self._pool(watched, usage, outcomes)
            else:
                await self._class(watched)
        except (NotFound, Conflict):
            log.debug("status overtaken by a change", object=key)
        except TransientError as error:
            log.warning("status waits", object=key, error=error.message)

    def _records(self, kind: str) -> list[Any]:
        return [decode_record(kind, body) for body in self.journal.records[kind].values()]

    async def _outcomes(self) -> dict[str, tuple[bool, ...]]:
        """Of the v1 pools, the only ones that have a condition for it. None while Redis is away."""
        pools = [key for key, one in self._watched.items() if one.raw.get("kind") == "NodePool"]
        try:
            return await self.registrations.recent(pools)
        except TransientError as error:
            log.debug("registrations are unknown", error=error.message)
            return {}

    async def _pool(self, watched: Watched, usage: Usage, registrations: tuple[bool, ...]) -> None:
        raw = watched.raw
        api = OF_KIND[raw["kind"]]
        conflict = await self._keep_inline(watched)
        faults = (
            *watched.parsed.faults,
            *([Fault(("spec", "provider"), conflict)] if conflict else []),
        )
        validation = validation_verdict(texts_of(faults), INVALID[api.name])
        class_name = _class_name(watched)
        node_class = self._watched.get(f"{api.class_kind}/{class_name}")
        class_raw = node_class.raw if node_class else None
        verdict = class_verdict(class_name, class_raw, ours=_has_inline_class(raw))
        class_generation = int(class_raw["metadata"].get("generation") or 0) if class_raw else 0
        if api.detailed_status and registrations_are_old(raw, class_generation):
            # Before the status says that the edit was seen: after a crash in between they are forgotten again.
            await self.registrations.forget(watched.kind.key(raw))
            registrations = ()
        status = pool_status(
            raw,
            api,
            validation,
            verdict,
            class_generation,
            usage,
            now=self.clock.now(),
            registrations=registrations,
        )
        problem = validation if validation.status != "True" else verdict
        if problem.status == "False":
            await self._publish_problem(raw, problem.reason, problem.message)
        await self._write_status(watched, status)
        pool: NodePool | None = watched.parsed.record
        if pool is not None:
            await self._write_hash(watched, pool_hash_annotations(pool.kind, pool.hash))

    async def _keep_inline(self, watched: Watched) -> str:
        if watched.raw.get("kind") != "Provisioner" or watched.parsed.record is None:
            return ""
        return await self.inline.keep(watched.raw)

    async def _class(self, watched: Watched) -> None:
        if watched.parsed.faults:
            faults = texts_of(watched.parsed.faults)
            status = class_refusal(watched.raw, faults, now=self.clock.now())
            await self._publish_problem(watched.raw, REFUSED, "; ".join(faults))
            await self._write_status(watched, status)
            return
        node_class: NodeClass | None = watched.parsed.record
        if node_class is None:
            return
        await self._write_hash(watched, class_hash_annotations(node_class.kind, node_class.hash))

    async def _publish_problem(self, raw: Json, reason: str, message: str) -> None:
        await self.recorder.publish(
            to_object(raw), "Warning", reason, message, dedupe_seconds=EVENT_SECONDS
        )

    async def _write_status(self, watched: Watched, status: dict[str, Any]) -> None:
        raw = watched.raw
        if not differs(raw, status):
            return
        meta = raw["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        written = await self.kube.patch(
            watched.kind.resource, meta["name"], body, subresource="status"
        )
        watched.raw = {**raw, "metadata": written["metadata"], "status": written.get("status")}

    async def _write_hash(self, watched: Watched, annotations: dict[str, str]) -> None:
        """Write the hash annotations of a pool or class (NP-19, EC-22)."""
        meta = watched.raw["metadata"]
        held = meta.get("annotations") or {}
        if all(held.get(name) == value for name, value in annotations.items()):
            return
        body = {
            "metadata": {"resourceVersion": meta["resourceVersion"], "annotations": annotations}
        }
        written = await self.kube.patch(watched.kind.resource, meta["name"], body)
        watched.raw = {**watched.raw, "metadata": written["metadata"]}

    async def _adopt_hashes(self, machines: list[Member]) -> None:
        """NP-20: machines with hashes of an older method get today's, so that an upgrade is no mass drift."""
        lacking = [machine for machine in machines if machine.lacks_hashes]
        if not lacking:
            return
        pools = {pool.key: pool for pool in self._records(NODE_POOLS)}
        classes = {one.key: one for one in self._records(NODE_CLASSES)}
        for member in lacking:
            pool, node_class = pools.get(member.pool_key), classes.get(member.node_class_key)
            body = self.journal.records[MACHINES].get(member.key)
            if pool is None or node_class is None or body is None:
                continue
            machine = decode_record(MACHINES, body)
            annotations = {
                **pool_hash_annotations(pool.kind, pool.hash),
                **class_hash_annotations(node_class.kind, node_class.hash),
            }
            try:
                await self.machines.patch(machine, {"annotations": annotations})
            except (NotFound, Conflict, InvalidObject):
                log.debug("hashes overtaken by a change", machine=machine.key)


def _class_name(watched: Watched) -> str:
    """As far as it can be read, also of a pool with faults."""
    pool: NodePool | None = watched.parsed.record
    if pool is not None:
        return pool.node_class
    spec = watched.raw.get("spec")
    if not isinstance(spec, Mapping):
        return ""
    if watched.raw.get("kind") == "Provisioner":
        if _has_inline_class(watched.raw):
            return inline_template_name(watched.raw["metadata"]["name"])
        return _name(spec.get("providerRef"))
    template = spec.get("template")
    inner = template.get("spec") if isinstance(template, Mapping) else None
    return _name(inner.get("nodeClassRef")) if isinstance(inner, Mapping) else ""


def _has_inline_class(raw: Json) -> bool:
    spec = raw.get("spec")
    inline = raw.get("kind") == "Provisioner" and isinstance(spec, Mapping) and spec.get("provider")
    return bool(inline)


def _name(reference: object) -> str:
    name = reference.get("name") if isinstance(reference, Mapping) else None
    return name if isinstance(name, str) else ""
