"""Machines on the API server, stored as v1alpha5 Machines or v1 NodeClaims.

Callers name a machine by its key (``NodeClaim/default-abc``). What may go wrong: one unreadable object (written by hand
on a server without our schema) must not hide the others, so ``list`` skips it and logs it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import machine_conditions, parse_machine, with_readiness
from shared.domain.machines.machine import Condition, Machine
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.resources import MACHINES, NODE_CLAIMS, Resource
from shared.log import get_logger

log = get_logger(__name__)

CONFLICT_TRIES = 5
"""Other services write a machine's status a few times in its life, so five conflicts in a row are a fault."""
Json = Mapping[str, Any]
_KINDS: dict[str, tuple[Resource, Callable[[Json], Machine]]] = {
    "Machine": (MACHINES, parse_machine),
    "NodeClaim": (NODE_CLAIMS, parse_node_claim),
}


class Stored(NamedTuple):
    """A machine as it is stored, and its resourceVersion."""

    machine: Machine
    version: str


def split_key(key: str) -> tuple[str, str]:
    """(kind, name) of ``NodeClaim/default-abc``; a bare name means a Machine. Raises NotFound for another kind."""
    kind, slash, name = key.rpartition("/")
    kind = kind if slash else "Machine"
    if kind not in _KINDS:
        raise NotFound(f"{kind} is no kind of machine")
    return kind, name


def provider_id_in(raw: Json) -> str:
    """The provider id of an unreadable machine object; empty when it has none."""
    status = raw.get("status")
    found = status.get("providerID") if isinstance(status, Mapping) else None
    return found if isinstance(found, str) else ""


class Machines:
    """Reads and writes machines of both kinds."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def get(self, key: str) -> Machine:
        """The machine with this key. Raises NotFound, and InvalidObject naming the field."""
        return (await self.stored(key)).machine

    async def stored(self, key: str) -> Stored:
        """The machine with this key and its resourceVersion. Raises as ``get``."""
        kind, name = split_key(key)
        return _stored(kind, await self._kube.get(_KINDS[kind][0], name))

    async def list(self) -> Sequence[Machine]:
        """All readable machines."""
        return (await self.list_all())[0]

    async def list_all(self) -> tuple[Sequence[Machine], Sequence[Json]]:
        """The readable machines, and the raw unreadable objects: a caller that acts on absence needs both."""
        found: list[Machine] = []
        unreadable: list[Json] = []
        for kind, (resource, _) in _KINDS.items():
            for one in await self._kube.read_all(resource, partial(_read, kind)):
                if isinstance(one, Machine):
                    found.append(one)
                else:
                    unreadable.append(one)
        return found, unreadable

    async def list_stored(self) -> Sequence[Stored]:
        """All readable machines with their resourceVersions."""
        found: list[Stored] = []
        for kind, (resource, _) in _KINDS.items():
            read = await self._kube.read_all(resource, partial(_read_stored, kind))
            found += [one for one in read if one is not None]
        return found

    async def create(self, body: dict[str, Any]) -> Stored:
        """Create a machine from its whole object. Raises AlreadyExists."""
        kind = str(body["kind"])
        return _stored(kind, await self._kube.create(_KINDS[kind][0], body))

    async def patch(self, machine: Machine, metadata: Json) -> None:
        """Merge ``metadata`` into this machine's; its uid excludes another machine of this name.

        Raises NotFound and Conflict.
        """
        body = {"metadata": {"uid": machine.uid, **metadata}}
        await self._kube.patch(_KINDS[machine.kind][0], machine.name, body)

    async def annotate(
        self, machine: Machine, name: str, text: str, *, unless: Callable[[Machine], bool]
    ) -> None:
        """Write an annotation by compare-and-set, so that only one of several writers succeeds.

        Raises NotFound when the machine is gone or replaced, Conflict when ``unless`` is true for the stored machine.
        """
        if not await _settled(lambda: self._annotate_once(machine, name, text, unless)):
            raise Conflict(f"{machine.key} has another {name} already")

    async def _annotate_once(
        self, machine: Machine, name: str, text: str, unless: Callable[[Machine], bool]
    ) -> bool:
        resource, parse = _KINDS[machine.kind]
        raw = await self._kube.get(resource, machine.name)
        if raw["metadata"]["uid"] != machine.uid:
            raise NotFound(f"{machine.key} was replaced by another machine of this name")
        if unless(parse(raw)):
            return False
        version = raw["metadata"]["resourceVersion"]
        body = {"metadata": {"resourceVersion": version, "annotations": {name: text}}}
        await self._kube.patch(resource, machine.name, body)
        return True

    async def delete(self, machine: Machine, *, version: str | None = None) -> bool:
        """Delete the machine object. False when it is gone, was replaced, or is not at resourceVersion ``version``."""
        resource = _KINDS[machine.kind][0]
        try:
            await self._kube.delete(
                resource, machine.name, uid=machine.uid, resource_version=version
            )
        except (NotFound, Conflict):
            return False
        return True

    async def write_condition(
        self,
        machine: Machine,
        name: str,
        condition: Condition,
        status: dict[str, Any] | None = None,
        *,
        unless: Callable[[Machine], bool] | None = None,
    ) -> bool:
        """Write one condition, and ``status`` fields with it. False when the machine is gone or replaced, or when
        ``unless`` is true for the stored machine.

        A merge patch replaces the whole list of conditions, so each write reads the list first and is a
        compare-and-set (R3). An unchanged condition is not written again. Raises Conflict after ``CONFLICT_TRIES``.
        """
        try:
            return await _settled(
                lambda: self._write_once(machine, name, condition, status, unless)
            )
        except NotFound:
            return False

    async def drop_condition(self, machine: Machine, name: str) -> bool:
        """Remove one condition. False when the machine is gone or replaced, or has no such condition.

        Raises Conflict after ``CONFLICT_TRIES``.
        """
        try:
            return await _settled(lambda: self._drop_once(machine, name))
        except NotFound:
            return False

    async def _drop_once(self, machine: Machine, name: str) -> bool:
        resource, parse = _KINDS[machine.kind]
        raw = await self._kube.get(resource, machine.name)
        held = dict(parse(raw).conditions)
        if raw["metadata"]["uid"] != machine.uid or held.pop(name, None) is None:
            return False
        body = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": {"conditions": machine_conditions(held, machine.generation_api)},
        }
        await self._kube.patch(resource, machine.name, body, subresource="status")
        return True

    async def _write_once(
        self,
        machine: Machine,
        name: str,
        condition: Condition,
        status: dict[str, Any] | None,
        unless: Callable[[Machine], bool] | None,
    ) -> bool:
        resource, parse = _KINDS[machine.kind]
        raw = await self._kube.get(resource, machine.name)
        if raw["metadata"]["uid"] != machine.uid:
            return False
        stored = parse(raw)
        if unless is not None and unless(stored):
            return False
        old = stored.conditions
        known = old.get(name)
        unchanged = known and (known.status, known.message) == (condition.status, condition.message)
        if unchanged and not status:
            return True
        after = with_readiness(old, name, condition)
        body = {
            "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
            "status": {
                **(status or {}),
                "conditions": machine_conditions(after, machine.generation_api),
            },
        }
        await self._kube.patch(resource, machine.name, body, subresource="status")
        return True


def _read(kind: str, raw: Json) -> Machine | Json:
    """The machine; the raw object when it is unreadable."""
    try:
        return _KINDS[kind][1](raw)
    except InvalidObject as error:
        name = raw["metadata"]["name"]
        log.warning("unreadable machine", kind=kind, name=name, error=str(error))
        return raw


def _stored(kind: str, raw: Json) -> Stored:
    return Stored(_KINDS[kind][1](raw), str(raw["metadata"].get("resourceVersion", "")))


def _read_stored(kind: str, raw: Json) -> Stored | None:
    machine = _read(kind, raw)
    return _stored(kind, raw) if isinstance(machine, Machine) else None


async def _settled(once: Callable[[], Awaitable[bool]]) -> bool:
    """Repeat a compare-and-set while other writers win. Raises Conflict after ``CONFLICT_TRIES``."""
    for _ in range(CONFLICT_TRIES - 1):
        try:
            return await once()
        except Conflict:
            continue
    return await once()
