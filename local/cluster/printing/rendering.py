"""The formats in which objects are returned: JSON, the Table that kubectl prints, or only the metadata.

The Accept header selects the format. JSON reuses the bytes that were encoded once; an object requested in another
version than the stored one is encoded again with that apiVersion. A client that accepts only protobuf gets 406.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from local.cluster.api.errors import ApiError
from local.cluster.builtin.autoscaler_versions import from_stored
from local.cluster.builtin.resources import AUTOSCALERS_V1, Resource
from local.cluster.printing.builtin_columns import COLUMNS
from local.cluster.printing.columns import AGE, NAME, Column, custom_columns
from local.cluster.storage.store import Store
from local.cluster.storage.watches import Document, Stored

META = "meta.k8s.io/v1"


class Renderer(ABC):
    """One format of objects."""

    @abstractmethod
    def one(self, stored: Stored) -> bytes:
        """An object alone."""

    @abstractmethod
    def many(self, objects: Iterable[Stored], metadata: Document) -> bytes:
        """A list with its list metadata."""

    @abstractmethod
    def bookmark(self, metadata: Document) -> bytes:
        """The ``object`` of a BOOKMARK."""

    def event(self, stored: Stored) -> bytes:
        """The ``object`` of a watch event."""
        return self.one(stored)


@dataclass(frozen=True)
class JsonRenderer(Renderer):
    """Whole objects. ``resource`` is the requested version; ``stored_as`` is the stored apiVersion."""

    resource: Resource
    stored_as: str

    def one(self, stored: Stored) -> bytes:
        if self.resource.api_version == self.stored_as:
            return stored.raw
        if self.resource == AUTOSCALERS_V1:
            return orjson.dumps(from_stored(stored.document))
        return orjson.dumps({**stored.document, "apiVersion": self.resource.api_version})

    def many(self, objects: Iterable[Stored], metadata: Document) -> bytes:
        head = {"kind": self.resource.list_name, "apiVersion": self.resource.api_version}
        opening = orjson.dumps({**head, "metadata": metadata})[:-1]
        return b'%s,"items":[%s]}' % (opening, b",".join(self.one(stored) for stored in objects))

    def bookmark(self, metadata: Document) -> bytes:
        kind, version = self.resource.kind, self.resource.api_version
        return orjson.dumps({"kind": kind, "apiVersion": version, "metadata": metadata})


def _partial(metadata: Document) -> Document:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": metadata}


class MetadataRenderer(Renderer):
    """PartialObjectMetadata."""

    def one(self, stored: Stored) -> bytes:
        return self.bookmark(stored.document["metadata"])

    def many(self, objects: Iterable[Stored], metadata: Document) -> bytes:
        head = {"kind": "PartialObjectMetadataList", "apiVersion": META, "metadata": metadata}
        items = [_partial(stored.document["metadata"]) for stored in objects]
        return orjson.dumps({**head, "items": items})

    def bookmark(self, metadata: Document) -> bytes:
        return orjson.dumps(_partial(metadata))


class TableRenderer(Renderer):
    """Tables at the time ``now`` (seconds since the epoch); ``include`` is None, Metadata or Object."""

    def __init__(self, columns: list[Column], store: Store, include: str) -> None:
        self._columns, self._store, self._include = columns, store, include
        self._columns_sent = False

    def _row(self, stored: Stored, now: float) -> Document:
        document = stored.document
        cells = [column.cell(document, now) for column in self._columns]
        row: Document = {"cells": cells}
        if self._include == "Object":
            row["object"] = document
        elif self._include != "None":
            row["object"] = _partial(document["metadata"])
        return row

    def _table(self, objects: Iterable[Stored], metadata: Document, *, heads: bool) -> bytes:
        now = self._store.clock.now()
        table: Document = {"kind": "Table", "apiVersion": META, "metadata": metadata}
        table["columnDefinitions"] = self._definitions() if heads else None
        table["rows"] = [self._row(stored, now) for stored in objects]
        return orjson.dumps(table)

    def _alone(self, stored: Stored, *, heads: bool) -> bytes:
        version = stored.document["metadata"].get("resourceVersion", "")
        return self._table([stored], {"resourceVersion": version}, heads=heads)

    def _definitions(self) -> list[dict[str, Any]]:
        fields = ("name", "type", "format", "description", "priority")
        return [{field: getattr(column, field) for field in fields} for column in self._columns]

    def one(self, stored: Stored) -> bytes:
        return self._alone(stored, heads=True)

    def many(self, objects: Iterable[Stored], metadata: Document) -> bytes:
        return self._table(objects, metadata, heads=True)

    def event(self, stored: Stored) -> bytes:
        # Only the first event of a watch carries the column definitions.
        heads, self._columns_sent = not self._columns_sent, True
        return self._alone(stored, heads=heads)

    def bookmark(self, metadata: Document) -> bytes:
        return self._table([], metadata, heads=False)


def columns_of(store: Store, resource: Resource) -> list[Column]:
    """The columns of a kind in one version."""
    custom = store.custom_kind(resource)
    if custom:
        return [NAME, *custom_columns(custom.versions[resource.version].columns)]
    columns = COLUMNS.get(resource.plural, [AGE])
    return columns if resource.plural == "events" else [NAME, *columns]


def renderer(store: Store, resource: Resource, accept: str, include: str) -> Renderer:
    """The renderer for an Accept header. Raises ApiError 406 when the client takes no JSON."""
    if accept and "json" not in accept and "*/*" not in accept and "application/*" not in accept:
        message = "only the following media types are accepted: application/json"
        raise ApiError(406, "NotAcceptable", message)
    if "as=Table" in accept:
        return TableRenderer(columns_of(store, resource), store, include)
    if "as=PartialObjectMetadata" in accept:
        return MetadataRenderer()
    stored_as = store.resource(resource.plural, resource.group).api_version
    return JsonRenderer(resource, stored_as)
