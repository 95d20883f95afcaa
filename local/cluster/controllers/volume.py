"""Binds claims that do not wait for a pod, and releases the volumes of deleted claims."""

from __future__ import annotations

from functools import partial

from local.cluster.control_plane.informers import Informers, Key, Obj, find, key_of
from local.cluster.control_plane.recorder import EventRecorder
from local.cluster.controllers.workqueue import Controller
from local.cluster.storage.store import Store
from local.cluster.volumes.binding import (
    bind,
    class_of,
    free_volume,
    makes_volumes,
    mark_available,
    provide,
    release,
    waits,
)
from local.cluster.volumes.places import ZONE, class_allows, is_free

RECHECK_SECONDS = 1.0
"""Time between two checks of a claim for which no node, and so no zone, exists yet."""


class VolumeController(Controller):
    """Binds PersistentVolumeClaims to PersistentVolumes."""

    name, plural = "volume", "persistentvolumeclaims"

    def __init__(self, store: Store, recorder: EventRecorder) -> None:
        super().__init__(store)
        self._record = partial(recorder.record, component="persistentvolume-controller")

    def register(self, informers: Informers) -> None:
        """Watch claims and volumes."""
        informers.on(self.plural, self._on_claim)
        informers.on("persistentvolumes", self._on_volume)

    def _on_claim(self, _event_type: str, obj: Obj, _old: Obj | None) -> None:
        self.queue.add(key_of(obj))

    def _on_volume(self, event_type: str, obj: Obj, _old: Obj | None) -> None:
        if event_type == "DELETED" or not is_free(obj):
            return
        current = find(self._store, "persistentvolumes", key_of(obj))
        if current is not None and is_free(current):
            mark_available(self._store, current)
            for claim in self._store.list(self.plural):
                if not claim["spec"].get("volumeName"):
                    self.queue.add(key_of(claim))

    async def reconcile(self, key: Key) -> float | None:
        """Bind one claim, or release the volume of a deleted one."""
        claim = self.find(key)
        if claim is None:
            self._release(key)
            return None
        if claim["metadata"].get("deletionTimestamp") or claim["spec"].get("volumeName"):
            return None
        storage_class = class_of(self._store, claim)
        if waits(storage_class):
            text = "waiting for first consumer to be created before binding"
            self._record(claim, "WaitForFirstConsumer", text)
            return None
        volume = free_volume(self._store, claim)
        if volume is not None:
            bind(self._store, claim, volume)
        elif storage_class is not None and makes_volumes(storage_class):
            return self._provide(claim, storage_class)
        return None

    def _provide(self, claim: Obj, storage_class: Obj) -> float | None:
        """The labels of a node selected by the claim's uid, whose zone the volume gets."""
        places = {
            labels[ZONE]: labels
            for node in self._store.list("nodes")
            if ZONE in (labels := node["metadata"].get("labels") or {})
            and class_allows(storage_class, labels)
        }
        if not places:
            return RECHECK_SECONDS
        zones = sorted(places)
        zone = zones[int(claim["metadata"]["uid"][:8], 16) % len(zones)]
        provide(self._store, claim, storage_class, {ZONE: zone})
        return None

    def _release(self, key: Key) -> None:
        for volume in self._store.list("persistentvolumes"):
            reference = volume["spec"].get("claimRef") or {}
            ended = (volume.get("status") or {}).get("phase") == "Released"
            if Key(reference.get("namespace", ""), reference.get("name", "")) == key and not ended:
                release(self._store, volume)
