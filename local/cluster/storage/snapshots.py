"""The state of a store at one time, and the return to it, as after the restore of etcd from a backup."""

from __future__ import annotations

from dataclasses import dataclass

from local.cluster.crd.custom_resources import CustomKind
from local.cluster.storage.collection import Collection, Key
from local.cluster.storage.store import Store
from local.cluster.storage.watches import Stored

Kind = tuple[str, str]
"""Group and plural."""


@dataclass(frozen=True)
class Snapshot:
    """All objects at one revision. It shares the documents, which never change."""

    revision: int
    custom: dict[Kind, CustomKind]
    objects: dict[Kind, dict[Key, Stored]]


def snapshot_of(store: Store) -> Snapshot:
    """The present state."""
    objects = {kind: collection.snapshot() for kind, collection in store._collections.items()}
    return Snapshot(store.revision, dict(store._custom), objects)


def restore(store: Store, snapshot: Snapshot) -> None:
    """Return to an earlier state and to its revision. Every reader of changes must list again."""
    store._revision = snapshot.revision
    store._custom = dict(snapshot.custom)
    collections = store._collections
    for kind in [kind for kind in collections if kind not in snapshot.objects]:
        collections.pop(kind).restore({}, snapshot.revision)
    for kind, objects in snapshot.objects.items():
        if kind not in collections:
            collections[kind] = Collection(snapshot.custom[kind].storage, store._log_length)
        collections[kind].restore(objects, snapshot.revision)


def expire_changes(store: Store) -> None:
    """Forget every change so far, as a compaction of etcd does: every reader of changes must list again."""
    store._revision += 1
    for collection in store._collections.values():
        collection.log.expire(store.revision)
