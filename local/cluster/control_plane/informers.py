"""One subscription per resource, shared by all controllers, and indexes that are current when they are read.

Handlers run synchronously in the order of their registration, so an index that is registered before a controller is up
to date when the controller is called. Events may lag behind the store (they queue); therefore an index keeps only
names, and ``KeyIndex.members`` reads the objects from the store. An object missing from the store is dropped from the
index; an object that a controller just created is added by that controller. This replaces client-go's expectations.

A reader that falls behind the store's log gets 410. It lists again, and objects deleted in between are reported
DELETED.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from local.cluster.api.errors import ApiError
from local.cluster.builtin.resources import CRD_GROUP, CRD_PLURAL, Resource
from local.cluster.control_plane.supervision import TimeSlice, supervise
from local.cluster.storage.collection import Collection
from local.cluster.storage.store import Store
from shared.concurrency.tasks import TaskGroup
from shared.log import get_logger

log = get_logger(__name__)

Obj = dict[str, Any]
Handler = Callable[[str, Obj, Obj | None], None]
ResourceKey = tuple[str, str]
"""Plural and group."""
AnyHandler = Callable[[Resource, str, Obj], None]


class Key(NamedTuple):
    """Name of one object inside its resource; ``namespace`` is empty for cluster-scoped ones."""

    namespace: str
    name: str


def key_of(obj: Obj) -> Key:
    """The object's key."""
    metadata = obj["metadata"]
    return Key(metadata.get("namespace") or "", metadata["name"])


def controllers_of(obj: Obj, kind: str) -> list[Key]:
    """The key of the object of one kind that controls this one; empty when there is none."""
    metadata = obj["metadata"]
    owners = metadata.get("ownerReferences") or ()
    return [
        Key(metadata["namespace"], owner["name"])
        for owner in owners
        if owner.get("controller") and owner["kind"] == kind
    ]


class Informers:
    """Distributes the store's events to handlers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._handlers: dict[ResourceKey, list[Handler]] = defaultdict(list)
        self._any_handlers: list[AnyHandler] = []

    def on(self, plural: str, handler: Handler, *, group: str = "") -> None:
        """Call ``handler(type, object, old)`` for every event of the resource. Before ``run`` only."""
        self._handlers[plural, group].append(handler)

    def on_all(self, handler: AnyHandler) -> None:
        """Call ``handler(resource, type, object)`` for every kind except Events, custom kinds included."""
        self._any_handlers.append(handler)

    async def run(self) -> None:
        """Deliver events until cancelled. Kinds that are added or removed later are followed too."""
        tasks: dict[ResourceKey, tuple[Collection, asyncio.Task[None]]] = {}
        async with TaskGroup() as group:
            while True:  # a subscription ends when its reader must list again
                definitions = self._store.subscribe(CRD_PLURAL, group=CRD_GROUP)
                self._follow_kinds(group, tasks)
                async for _change in definitions.events():
                    self._follow_kinds(group, tasks)

    def _follow_kinds(
        self,
        group: TaskGroup,
        tasks: dict[ResourceKey, tuple[Collection, asyncio.Task[None]]],
    ) -> None:
        followed = set(self._handlers)
        if self._any_handlers:
            kinds = {(resource.plural, resource.group) for resource in self._store.served()}
            followed |= kinds - {("events", "")}
        served = {key: self._store.collection(*key) for key in followed}
        for key, (collection, task) in list(tasks.items()):
            if served.get(key) is not collection:
                task.cancel()
                del tasks[key]
        for key in sorted(served.keys() - tasks.keys()):
            tasks[key] = served[key], group.create_task(self._supervised(*key))

    async def _supervised(self, plural: str, group: str) -> None:
        known: dict[Key, Obj] = {}

        async def deliver() -> None:
            while True:
                try:
                    await self._deliver(plural, group, known)
                except ApiError as error:
                    if error.code != 410:
                        raise
                    log.warning("informer was too slow and lists again", resource=plural)

        await supervise(f"informer {plural}", deliver)

    async def _deliver(self, plural: str, group: str, known: dict[Key, Obj]) -> None:
        turn = TimeSlice()
        subscription = self._store.subscribe(plural, group=group)
        missing = known.keys() - {key_of(obj) for obj in subscription.initial}
        # Deletions first: an object created since may use what a deleted one held.
        for key in sorted(missing):
            gone = known.pop(key)
            self._dispatch(plural, group, "DELETED", gone, gone)
        for obj in subscription.initial:
            known[key_of(obj)] = obj
            self._dispatch(plural, group, "ADDED", obj, None)
            await turn.share()
        async for event_type, obj, old in subscription.events():
            if event_type == "DELETED":
                known.pop(key_of(obj), None)
            else:
                known[key_of(obj)] = obj
            self._dispatch(plural, group, event_type, obj, old)
            await turn.share()

    def _dispatch(
        self, plural: str, group: str, event_type: str, obj: Obj, old: Obj | None
    ) -> None:
        try:
            for handler in self._handlers.get((plural, group), ()):
                handler(event_type, obj, old)
            if self._any_handlers and (plural, group) != ("events", ""):
                resource = self._store.resource(plural, group)
                for any_handler in self._any_handlers:
                    any_handler(resource, event_type, obj)
        except Exception:
            log.exception("event handler failed", resource=plural, object=str(key_of(obj)))


class KeyIndex:
    """Finds objects of one resource by values derived from them (owner uid, node name).

    ``derive(object)`` gives the values. It is called again when members are read, so a stale entry is never returned.
    """

    def __init__(
        self,
        store: Store,
        informers: Informers,
        plural: str,
        derive: Callable[[Obj], Iterable[str]],
        *,
        group: str = "",
    ) -> None:
        self._store, self._plural, self._group, self._derive = store, plural, group, derive
        self._keys: dict[str, dict[Key, None]] = defaultdict(dict)
        informers.on(plural, self._on_event, group=group)

    def add(self, obj: Obj) -> None:
        """Add an object at once, without waiting for its event."""
        for value in self._derive(obj):
            self._keys[value][key_of(obj)] = None

    def members(self, value: str) -> list[Obj]:
        """The objects with this value in their current state, oldest entry first."""
        return [obj for obj in self._read(value) if obj is not None]

    async def members_with_pauses(self, value: str) -> list[Obj]:
        """Like ``members`` for thousands of objects, with pauses for other tasks.

        An object read early may have changed when the list is complete; its event then reports the change.
        """
        turn, found = TimeSlice(), []
        for obj in self._read(value):
            if obj is not None:
                found.append(obj)
            await turn.share()
        return found

    def _read(self, value: str) -> Iterator[Obj | None]:
        """Each entry's object; None for one that is no longer a member and is dropped from the index."""
        for key in list(self._keys.get(value, ())):
            obj = find(self._store, self._plural, key, group=self._group)
            if obj is not None and value in self._derive(obj):
                yield obj
            else:
                self._discard(value, key)
                yield None

    def _discard(self, value: str, key: Key) -> None:
        keys = self._keys.get(value)
        if keys is not None:
            keys.pop(key, None)
            if not keys:
                del self._keys[value]

    def _on_event(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type != "DELETED":
            self.add(obj)
            return
        for value in self._derive(obj):
            self._discard(value, key_of(obj))


def find(store: Store, plural: str, key: Key, *, group: str = "") -> Obj | None:
    """The object as currently stored, or None. Read only."""
    return store.find(plural, key.name, group=group, namespace=key.namespace or None)


def controller_uids(obj: Obj) -> list[str]:
    """The uid of the controlling owner, if any (metadata.ownerReferences with controller: true)."""
    owners = obj["metadata"].get("ownerReferences") or ()
    return [owner["uid"] for owner in owners if owner.get("controller")]
