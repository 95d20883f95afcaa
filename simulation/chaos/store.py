"""The API server's objects as they are seen from outside: followed by watches, and read as a whole when it is quiet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from services.watcher.optional_kinds import kinds
from shared.domain.feature_gates import FeatureGates
from shared.kube.informer import Deleted, Event, Key, Put, key_of
from shared.kube.resources import Resource
from simulation.invariants.picture import FOLLOWED

Json = dict[str, Any]
OnChange = Callable[[Resource, Key, bool], object]
"""Gets the kind, the key, and whether this change begins the object's deletion."""
SEEN = tuple(
    {
        (one.plural, one.group): one
        for one in (*FOLLOWED.values(), *(kind.resource for kind in kinds(FeatureGates())))
    }.values()
)
"""Every kind that a promise reads: those that the invariants follow, and those of the mirror."""


class SeenStore:
    """Fits where invariants read the store of the API server. ``on_change`` is called after each change."""

    def __init__(self, on_change: OnChange) -> None:
        self._on_change = on_change
        self.revision = 0
        """Grows with each change."""
        self._objects: dict[tuple[str, str], dict[Key, Json]] = {
            (one.plural, one.group): {} for one in SEEN
        }
        self._gone: set[str] = set()
        """UIDs of removed objects: a list that was read before the removal may still have them."""

    def list(self, plural: str, *, group: str = "") -> list[Json]:
        """The objects of one kind."""
        return [*self._objects[plural, group].values()]

    def find(
        self, plural: str, name: str, *, group: str = "", namespace: str | None = None
    ) -> Json | None:
        """One object; None if there is none."""
        return self._objects[plural, group].get(Key(namespace or "", name))

    def take(self, resource: Resource, event: Event) -> None:
        """An event of a watch. One that a list overtook changes nothing."""
        match event:
            case Put(raw):
                self._put(resource, raw)
            case Deleted(key, uid, _):
                self._remove(resource, key, uid)

    def replace(self, resource: Resource, items: Iterable[Json]) -> None:
        """The whole list of one kind."""
        found = {key_of(raw): raw for raw in items}
        for raw in found.values():
            self._put(resource, raw)
        for key, raw in [*self._objects[resource.plural, resource.group].items()]:
            if key not in found:
                self._remove(resource, key, raw["metadata"]["uid"])

    def _put(self, resource: Resource, raw: Json) -> None:
        objects, key = self._objects[resource.plural, resource.group], key_of(raw)
        held = objects.get(key)
        if raw["metadata"]["uid"] in self._gone:
            return
        if held is None or _version(raw) > _version(held):
            objects[key] = raw
            self._changed(resource, key, _is_deleted(raw) and not _is_deleted(held))

    def _remove(self, resource: Resource, key: Key, uid: str) -> None:
        objects = self._objects[resource.plural, resource.group]
        held = objects.get(key)
        self._gone.add(uid)
        if held is not None and held["metadata"]["uid"] == uid:
            del objects[key]
            self._changed(resource, key, not _is_deleted(held))

    def _changed(self, resource: Resource, key: Key, begins_deletion: bool) -> None:
        self.revision += 1
        self._on_change(resource, key, begins_deletion)


def _version(raw: Json) -> int:
    """The embedded API server counts its changes, so the newer object has the higher number."""
    return int(raw["metadata"]["resourceVersion"])


def _is_deleted(raw: Json | None) -> bool:
    return raw is not None and bool(raw["metadata"].get("deletionTimestamp"))
