"""An API server's store that takes the UID of an object from the test, so that records of the mirror can name it."""

from __future__ import annotations

from typing import Any

from local.cluster.storage.store import Document, Store

CHOSEN_UID = "tests.dovetail.sh/uid"
"""Annotation of an object to create."""


class StoreWithChosenUids(Store):
    """Everything else is as in the store."""

    _chosen = ""

    def create(self, plural: str, obj: Document, **where: Any) -> Document:
        """The object as it is stored, under the UID of its annotation if it has one."""
        metadata = obj.get("metadata") or {}
        self._chosen = str((metadata.get("annotations") or {}).get(CHOSEN_UID, ""))
        return super().create(plural, obj, **where)

    def _uid(self) -> str:
        return self._chosen or super()._uid()
