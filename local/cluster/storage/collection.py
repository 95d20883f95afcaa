"""All objects of one kind in the order of their keys, with the log of their changes.

Keys are kept sorted because the API lists in key order and pages by key. A past state is computed by undoing the newer
changes, so a later page of a list is consistent with its first page.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator

from local.cluster.api.errors import not_found
from local.cluster.builtin.resources import Resource
from local.cluster.storage.watches import Change, ChangeLog, Document, Stored

Key = tuple[str, str]
"""Namespace (empty for cluster-scoped kinds) and name."""

AFTER_ANY_NAME = "\U0010ffff"


def key_of(document: Document) -> Key:
    """The key of a document."""
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


class Collection:
    """The objects of one kind."""

    def __init__(self, resource: Resource, log_length: int) -> None:
        self.resource = resource
        self.log = ChangeLog(log_length)
        self._objects: dict[Key, Stored] = {}
        self._keys: list[Key] = []

    def __contains__(self, key: Key) -> bool:
        return key in self._objects

    def find(self, key: Key) -> Stored | None:
        """The object, or None."""
        return self._objects.get(key)

    def get(self, key: Key) -> Stored:
        """The object. Raises ApiError 404."""
        found = self._objects.get(key)
        if found is None:
            raise not_found(self.resource, key[1])
        return found

    def scan(self, namespace: str | None) -> Iterator[Stored]:
        """Objects in key order, of one namespace or of all."""
        start, end = 0, len(self._keys)
        if namespace:
            start = bisect_left(self._keys, (namespace, ""))
            end = bisect_left(self._keys, (namespace, AFTER_ANY_NAME))
        objects = self._objects
        return (objects[key] for key in self._keys[start:end])

    def scan_at(self, revision: int, namespace: str | None) -> Iterator[Stored]:
        """Like ``scan``, in the state at ``revision``.

        Raises ApiError 410 when the log is too short.
        """
        past = dict(self._objects)
        log = self.log
        for change in reversed(log.read(log.after(revision), log.end)):
            key = key_of(change.current.document)
            if change.previous is None:
                past.pop(key, None)
            else:
                past[key] = change.previous
        return (past[key] for key in sorted(past) if not namespace or key[0] == namespace)

    def snapshot(self) -> dict[Key, Stored]:
        """The objects by key, as they are now."""
        return dict(self._objects)

    def restore(self, objects: dict[Key, Stored], revision: int) -> None:
        """Return to an earlier state. Every reader of changes must list again."""
        self._objects = dict(objects)
        self._keys = sorted(objects)
        self.log.expire(revision)

    def put(self, stored: Stored, revision: int) -> Change:
        """Add or replace an object."""
        key = key_of(stored.document)
        previous = self._objects.get(key)
        if previous is None:
            insort(self._keys, key)
        else:
            previous.forget_raw()
        self._objects[key] = stored
        kind = "ADDED" if previous is None else "MODIFIED"
        return self.log.append(Change(revision, kind, stored, previous))

    def remove(self, stored: Stored, revision: int) -> Change:
        """Remove an object; ``stored`` is its last version, which watchers receive."""
        key = key_of(stored.document)
        previous = self._objects.pop(key)
        previous.forget_raw()
        del self._keys[bisect_left(self._keys, key)]
        return self.log.append(Change(revision, "DELETED", stored, previous))
