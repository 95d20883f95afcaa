"""Machines on the API server, stored as v1alpha5 Machines or v1 NodeClaims.

Callers name a machine by its key (``NodeClaim/default-abc``). What may go wrong: one unreadable object (written by hand
on a server without our schema) must not hide the others, so ``list`` skips it and logs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import machine_conditions, parse_machine, with_readiness
from shared.domain.machines.machine import Condition, Machine
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.listing import Unchanged
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
        self._unchanged = {kind: Unchanged(partial(_read, kind)) for kind in _KINDS}

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
            read_all = partial(self._kube.read_all, resource)
            for one in await self._unchanged[kind].listed(read_all):
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

        def body(stored: Machine) -> dict[str, Any] | None:
            return None if unless(stored) else {"metadata": {"annotations": {name: text}}}

        if not await self._change(machine, body):
            raise Conflict(f"{machine.key} has another {name} already")

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

        def body(stored: Machine) -> dict[str, Any] | None:
            if unless is not None and unless(stored):
                return None
            known = stored.conditions.get(name)
            same = known and (known.status, known.message) == (condition.status, condition.message)
            if same and not status:
                return {}
            after = with_readiness(stored.conditions, name, condition)
            return {"status": {**(status or {}), "conditions": _objects(after, machine)}}

        return await self._change_status(machine, body)

    async def drop_condition(self, machine: Machine, name: str) -> bool:
        """Remove one condition. False when the machine is gone or replaced, or has no such condition.

        Raises Conflict after ``CONFLICT_TRIES``.
        """

        def body(stored: Machine) -> dict[str, Any] | None:
            held = dict(stored.conditions)
            gone = held.pop(name, None)
            return None if gone is None else {"status": {"conditions": _objects(held, machine)}}

        return await self._change_status(machine, body)

    async def _change_status(
        self, machine: Machine, body: Callable[[Machine], dict[str, Any] | None]
    ) -> bool:
        try:
            return await self._change(machine, body, "status")
        except NotFound:
            return False

    async def _change(
        self,
        machine: Machine,
        body: Callable[[Machine], dict[str, Any] | None],
        subresource: str | None = None,
    ) -> bool:
        """Patch by compare-and-set with ``body`` of the stored machine, again while other writers win.

        An empty body needs no write; None means that nothing may be written, and False is returned. Raises NotFound
        when the machine is gone or replaced, Conflict after ``CONFLICT_TRIES``.
        """
        resource, parse = _KINDS[machine.kind]
        tries = 0
        while True:
            raw = await self._kube.get(resource, machine.name)
            if raw["metadata"]["uid"] != machine.uid:
                raise NotFound(f"{machine.key} was replaced by another machine of this name")
            patch = body(parse(raw))
            if not patch:
                return patch is not None
            version = {"resourceVersion": raw["metadata"]["resourceVersion"]}
            patch["metadata"] = {**patch.get("metadata", {}), **version}
            try:
                await self._kube.patch(resource, machine.name, patch, subresource=subresource)
                return True
            except Conflict:
                tries += 1
                if tries == CONFLICT_TRIES:
                    raise


def _objects(conditions: Mapping[str, Condition], machine: Machine) -> list[dict[str, Any]]:
    return machine_conditions(conditions, machine.generation_api)


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
