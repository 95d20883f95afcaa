"""One decoded and checked request on one kind, and the answers that all verbs share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response

from local.cluster.api.authorization.attributes import Attributes
from local.cluster.api.authorization.authentication import Access
from local.cluster.api.authorization.escalation import check_grant
from local.cluster.api.authorization.users import User
from local.cluster.api.errors import no_such_path
from local.cluster.api.ownership import FieldTypes, Manager
from local.cluster.api.requests import Query, Target
from local.cluster.builtin.autoscaler_versions import from_stored, to_stored
from local.cluster.builtin.resources import AUTOSCALERS_V1, Resource
from local.cluster.printing.rendering import Renderer, renderer
from local.cluster.storage.collection import Collection, key_of
from local.cluster.storage.store import Store
from local.cluster.storage.watches import Document, Stored
from shared.concurrency.clock import rfc3339

MEDIA = "application/json"


def answer(content: bytes, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    return Response(content, code, headers, MEDIA)


def success(code: int, details: Document | None = None) -> Response:
    """A ``Status`` that says Success."""
    status: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details:
        status["details"] = details
    return answer(orjson.dumps({**status, "code": code}), code)


@dataclass(frozen=True)
class Call:
    """One decoded and checked request on one kind."""

    store: Store
    access: Access
    user: User
    target: Target
    query: Query
    accept: str
    user_agent: str

    @property
    def collection(self) -> Collection:
        """The collection that the request addresses. Raises ApiError 404."""
        return self.store.collection(self.target.plural, self.target.group)

    @property
    def resource(self) -> Resource:
        """The kind in the requested version.

        Raises ApiError 404 for a version that is not served.
        """
        resource = self.collection.resource
        if resource.version == self.target.version:
            return resource
        if (self.target.group, self.target.version) == (
            AUTOSCALERS_V1.group,
            AUTOSCALERS_V1.version,
        ):
            return AUTOSCALERS_V1
        custom = self.store.custom_kind(resource)
        version = custom.versions.get(self.target.version) if custom else None
        if version is None or not version.served:
            raise no_such_path()
        return version.resource

    @property
    def rendering(self) -> Renderer:
        """The renderer of the answer."""
        include = self.query.text("includeObject")
        return renderer(self.store, self.resource, self.accept, include)

    @property
    def address(self) -> dict[str, Any]:
        """The arguments that name the kind and the namespace in calls on the store."""
        return {"group": self.target.group, "namespace": self.target.namespace or None}

    @property
    def manager(self) -> Manager:
        """The author of a write, without owned fields yet."""
        name = self.query.text("fieldManager") or self.user_agent.partition("/")[0] or "unknown"
        time = rfc3339(self.store.clock.now())
        return Manager(name, "Update", self.resource.api_version, time, frozenset())

    @property
    def field_types(self) -> FieldTypes:
        """The merge types of the kind's lists."""
        custom = self.store.custom_kind(self.resource)
        return FieldTypes(custom.versions[self.resource.version].schema if custom else None)

    def stored_form(self, document: Document) -> Document:
        """A document of the requested version in the store's version."""
        return to_stored(document) if self.resource == AUTOSCALERS_V1 else document

    def requested_form(self, document: Document) -> Document:
        """A stored document in the requested version."""
        return from_stored(document) if self.resource == AUTOSCALERS_V1 else document

    def check_right(self, verb: str) -> None:
        """Raises ApiError 403 when the user may not also do this to the same object."""
        target = self.target
        namespace, subresource = target.namespace, target.subresource
        asked = Attributes(
            verb, target.group, target.version, target.plural, subresource, namespace, target.name
        )
        self.access.authorizer.check(self.user, asked)

    def check_grant(self, document: Document) -> None:
        """Raises ApiError 403 when a role or a binding would grant more rights than the user has."""
        target = self.target
        metadata = {**(document.get("metadata") or {}), "namespace": target.namespace}
        whole = {**document, "metadata": metadata}
        check_grant(self.store, self.access.authorizer, self.user, self.resource, whole)

    def check_subresource(self) -> None:
        """Raises ApiError 404 for a subresource that the kind does not have."""
        subresource = self.target.subresource
        if subresource and subresource not in self.resource.subresources:
            raise no_such_path()

    def render(
        self, document: Document, code: int = 200, headers: dict[str, str] | None = None
    ) -> Response:
        """An object, or a Scale, as the answer."""
        if document.get("kind") == "Scale":
            return answer(orjson.dumps(document), code)
        stored = self.collection.find(key_of(document))
        if stored is None or stored.document is not document:
            stored = Stored(document)
        return answer(self.rendering.one(stored), code, headers)
