"""The garbage collector deletes objects whose owners no longer exist, and applies the deletion policies of owners.

It follows every kind, custom ones included. Work is keyed by the owner's uid. Background deletion needs nothing from
the owner; ``orphanDependents`` and foreground deletion set a finalizer on it (``orphan``, ``foregroundDeletion``) that
is removed here when its dependents are released or deleted. Whether an owner exists is decided by a lookup in the store
and never by events, so the order of events does not matter.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from local.cluster.api.errors import ApiError
from local.cluster.builtin.resources import Resource
from local.cluster.control_plane.informers import Informers, Key, Obj, key_of
from local.cluster.control_plane.supervision import TimeSlice
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from shared.log import get_logger

log = get_logger(__name__)

ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"
FOREGROUND_RECHECK = 0.1
"""Seconds between two checks of the dependents of an owner that waits for them."""


class Place(NamedTuple):
    """The address of a stored object."""

    plural: str
    group: str
    key: Key


class GarbageCollector(Controller):
    """Deletes dependents of deleted owners. Keys are their uids."""

    name = "garbage"

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._dependents: dict[str, dict[Place, None]] = defaultdict(dict)
        self._dying: dict[str, Place] = {}

    def register(self, informers: Informers) -> None:
        """Watch every kind."""
        informers.on_all(self._on_event)

    def _on_event(self, resource: Resource, event_type: str, obj: Obj) -> None:
        metadata, uid = obj["metadata"], obj["metadata"]["uid"]
        place = Place(resource.plural, resource.group, key_of(obj))
        owners = metadata.get("ownerReferences") or ()
        if event_type == "DELETED":
            self._dying.pop(uid, None)
            for owner in owners:
                self._forget(owner["uid"], place)
            if uid in self._dependents:
                self.queue.add(Key("", uid))
            return
        for owner in owners:
            known = place in self._dependents[owner["uid"]]
            self._dependents[owner["uid"]][place] = None
            if not known and not self._exists(owner, place.key.namespace):
                self.queue.add(Key("", owner["uid"]))
        policies = {ORPHAN, FOREGROUND}.intersection(metadata.get("finalizers") or ())
        if metadata.get("deletionTimestamp") and policies:
            self._dying[uid] = place
            self.queue.add(Key("", uid))

    def _forget(self, uid: str, place: Place) -> None:
        places = self._dependents.get(uid)
        if places is not None:
            places.pop(place, None)
            if not places:
                del self._dependents[uid]

    async def reconcile(self, key: Key) -> float | None:
        """Process the dependents of one owner that is deleted or being deleted."""
        uid = key.name
        owner = self._dying.get(uid)
        if owner is not None:
            return await self._finalize(uid, owner)
        turn = TimeSlice()
        for place, obj in self._dependents_of(uid):
            self._collect(place, obj)
            await turn.share()
        return None

    def _dependents_of(self, uid: str) -> list[tuple[Place, Obj]]:
        found: list[tuple[Place, Obj]] = []
        for place in list(self._dependents.get(uid, ())):
            obj = self._find(place)
            owners = obj["metadata"].get("ownerReferences") or () if obj else ()
            if obj is not None and any(owner["uid"] == uid for owner in owners):
                found.append((place, obj))
            else:
                self._forget(uid, place)
        return found

    def _collect(self, place: Place, obj: Obj) -> None:
        owners = obj["metadata"].get("ownerReferences") or []
        solid = [owner for owner in owners if self._exists(owner, place.key.namespace)]
        if len(solid) == len(owners) or obj["metadata"].get("deletionTimestamp"):
            return
        if solid:
            self._patch(place, {"ownerReferences": solid})
        else:
            self._delete(place, obj)

    async def _finalize(self, uid: str, place: Place) -> float | None:
        owner, turn = self._find(place), TimeSlice()
        if owner is None or owner["metadata"]["uid"] != uid:
            self._dying.pop(uid, None)
            return None
        finalizers = owner["metadata"].get("finalizers") or []
        waiting = 0
        for dependent, obj in self._dependents_of(uid):
            waiting += self._release_or_delete(uid, dependent, obj, ORPHAN in finalizers)
            await turn.share()
        if waiting:
            return FOREGROUND_RECHECK
        self._dying.pop(uid, None)
        self._patch(place, {"finalizers": [f for f in finalizers if f not in (ORPHAN, FOREGROUND)]})
        return None

    def _release_or_delete(self, uid: str, place: Place, obj: Obj, orphan: bool) -> bool:
        """Whether the owner has to wait for this dependent."""
        owners = obj["metadata"].get("ownerReferences") or []
        if orphan:
            self._patch(place, {"ownerReferences": [o for o in owners if o["uid"] != uid]})
            return False
        others = [o for o in owners if o["uid"] != uid and self._exists(o, place.key.namespace)]
        if not others and not obj["metadata"].get("deletionTimestamp"):
            self._delete(place, obj, propagation="Foreground")
        blocks = any(o["uid"] == uid and o.get("blockOwnerDeletion") for o in owners)
        return blocks and self._find(place) is not None

    def _exists(self, owner: dict[str, Any], namespace: str) -> bool:
        group = owner["apiVersion"].rpartition("/")[0]
        for resource in self._store.served():
            if resource.group == group and resource.kind == owner["kind"]:
                space = namespace if resource.namespaced else ""
                found = self._find(Place(resource.plural, group, Key(space, owner["name"])))
                return found is not None and found["metadata"]["uid"] == owner["uid"]
        return False

    def _find(self, place: Place) -> Obj | None:
        try:
            return self._store.find(
                place.plural,
                place.key.name,
                group=place.group,
                namespace=place.key.namespace or None,
            )
        except ApiError:
            return None  # the kind itself was deleted

    def _patch(self, place: Place, metadata: dict[str, Any]) -> None:
        self._store.patch(
            place.plural,
            place.key.name,
            {"metadata": metadata},
            group=place.group,
            namespace=place.key.namespace or None,
        )

    def _delete(self, place: Place, obj: Obj, propagation: str = "Background") -> None:
        if propagation == "Foreground" and obj["metadata"]["uid"] not in self._dependents:
            propagation = "Background"
        log.debug("dependent deleted", resource=place.plural, object=str(place.key))
        self._store.delete(
            place.plural,
            place.key.name,
            group=place.group,
            namespace=place.key.namespace or None,
            uid=obj["metadata"]["uid"],
            propagation=propagation,
        )
