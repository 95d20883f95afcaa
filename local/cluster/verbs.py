"""The verbs of the API over HTTP: each turns one request into calls on the store and one answer.

What may go wrong: everything a client does wrong raises ApiError, which ``server.py`` renders as a
Status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from starlette.responses import Response

from local.cluster.access import review
from local.cluster.collection import Collection
from local.cluster.errors import (
    bad_request,
    method_not_allowed,
    no_such_path,
    unsupported_media_type,
)
from local.cluster.lifecycle import copied
from local.cluster.lists import Token, page
from local.cluster.ownership import FieldTypes, Manager, applied, transferred
from local.cluster.patches import json_patch, merge_patch, strategic_merge
from local.cluster.rendering import Renderer, renderer
from local.cluster.requests import APPLY, JSON_PATCH, MERGE, STRATEGIC, Body, Query, Target
from local.cluster.resources import ACCESS_GROUP, Resource
from local.cluster.selectors import object_predicate
from local.cluster.store import Store
from local.cluster.streams import LONGEST_SECONDS, WatchOptions, WatchResponse, WatchStream
from local.cluster.watches import Document, Stored
from shared.clock import rfc3339

MEDIA = "application/json"
PROTOBUF = "application/vnd.kubernetes.protobuf"
WRITABLE = ("", "status", "scale", "finalize")


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
    """One request on one kind, read and checked."""

    store: Store
    target: Target
    query: Query
    accept: str
    user_agent: str

    @property
    def collection(self) -> Collection:
        """The objects meant. Raises ApiError 404."""
        return self.store.collection(self.target.plural, self.target.group)

    @property
    def resource(self) -> Resource:
        """The kind in the version asked for.

        Raises ApiError 404 for a version that is not served.
        """
        resource = self.collection.resource
        if resource.version == self.target.version:
            return resource
        custom = self.store.custom_kind(resource)
        version = custom.versions.get(self.target.version) if custom else None
        if version is None or not version.served:
            raise no_such_path()
        return version.resource

    @property
    def rendering(self) -> Renderer:
        """How to write the answer."""
        include = self.query.text("includeObject")
        return renderer(self.store, self.resource, self.accept, include)

    @property
    def address(self) -> dict[str, Any]:
        """The arguments that name the kind and the namespace in calls on the store."""
        return {"group": self.target.group, "namespace": self.target.namespace or None}

    @property
    def manager(self) -> Manager:
        """The author of a write, without fields yet."""
        name = self.query.text("fieldManager") or self.user_agent.partition("/")[0] or "unknown"
        time = rfc3339(self.store.clock.now())
        return Manager(name, "Update", self.resource.api_version, time, frozenset())

    @property
    def field_types(self) -> FieldTypes:
        """How the kind's lists join."""
        custom = self.store.custom_kind(self.resource)
        return FieldTypes(custom.versions[self.resource.version].schema if custom else None)

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
        stored = self.collection.find(_key(document))
        if stored is None or stored.document is not document:
            stored = Stored(document)
        return answer(self.rendering.one(stored), code, headers)


def _key(document: Document) -> tuple[str, str]:
    metadata = document["metadata"]
    return metadata.get("namespace") or "", metadata["name"]


def read(call: Call) -> Response:
    """get, list and watch."""
    target = call.target
    if not target.name:
        return watch(call) if call.query.flag("watch") else list_objects(call)
    call.check_subresource()
    if target.subresource not in ("", "status", "scale"):
        raise method_not_allowed()
    document = call.store.get(target.plural, target.name, **call.address)
    if target.subresource == "scale":
        document = call.store.scale(target.plural, target.name, **call.address)
    return call.render(document)


def list_objects(call: Call) -> Response:
    """A list, in pages when ``limit`` is given."""
    query = call.query
    token = Token.parse(query.text("continue")) if query.text("continue") else None
    matches = object_predicate(query.text("labelSelector"), query.text("fieldSelector"))
    rendering, revision = call.rendering, call.store.revision
    found = page(
        call.collection, call.target.namespace, matches, revision, query.number("limit"), token
    )
    return answer(rendering.many(found.objects, found.metadata))


def watch(call: Call) -> Response:
    """A stream of changes."""
    query = call.query
    initial = query.flag("sendInitialEvents")
    # sendInitialEvents=false without a revision means "from now on".
    from_now = "sendInitialEvents" in query and not initial and not query.number("resourceVersion")
    options = WatchOptions(
        namespace=call.target.namespace,
        matches=object_predicate(query.text("labelSelector"), query.text("fieldSelector")),
        revision=None if from_now else query.number("resourceVersion"),
        bookmarks=query.flag("allowWatchBookmarks"),
        initial_events=initial,
        seconds=min(query.number("timeoutSeconds") or LONGEST_SECONDS, LONGEST_SECONDS),
    )
    stream = WatchStream(call.store, call.collection, call.rendering, options)
    return WatchResponse(stream.lines(), media_type=MEDIA)


def create(call: Call, body: Body) -> Response:
    """create, eviction and binding."""
    target = call.target
    if target.group == ACCESS_GROUP:
        # kubectl sends these as protobuf. The answer is the same for every question, so it
        # needs no decoding.
        asked = {} if body.media_type == PROTOBUF else body.object()
        return answer(orjson.dumps(review(target.plural, asked)), 201)
    call.check_subresource()
    if target.subresource == "eviction":
        return evict(call, body.object())
    if target.subresource == "binding":
        return bind(call, body.object())
    if target.name:
        raise method_not_allowed()
    document = body.object()
    headers = _check_fields(call, document)
    dry_run = call.query.dry_run
    created = call.store.create(target.plural, document, **call.address, dry_run=dry_run)
    return call.render(created, 201, headers)


def evict(call: Call, body: Document) -> Response:
    """The eviction subresource of a pod."""
    options = body.get("deleteOptions") or {}
    dry_run = call.query.dry_run or bool(options.get("dryRun"))
    target = call.target
    call.store.evict(target.name, target.namespace, delete_options=options, dry_run=dry_run)
    return success(201)


def bind(call: Call, body: Document) -> Response:
    """The binding subresource of a pod."""
    node = (body.get("target") or {}).get("name")
    if not node:
        raise bad_request("target.name: Required value: the node to bind the pod to")
    call.store.bind(call.target.name, call.target.namespace, node)
    return success(201)


def _check_fields(call: Call, document: Document) -> dict[str, str] | None:
    """Unknown fields of a custom resource: 400 when Strict, a Warning header when Warn."""
    mode = call.query.text("fieldValidation")
    custom = call.store.custom_kind(call.resource)
    if custom is None or mode not in ("Strict", "Warn"):
        return None
    _, dropped = custom.versions[call.resource.version].admit(document)
    if not dropped:
        return None
    unknown = ", ".join(f'unknown field "{path}"' for path in dropped)
    if mode == "Strict":
        kind, version = call.resource.kind, call.resource.version
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {kind}: '
            f"strict decoding error: {unknown}"
        )
    escaped = unknown.replace('"', '\\"')
    return {"Warning": f'299 - "{escaped}"'}


def replace(call: Call, body: Body) -> Response:
    """update, of an object or of a subresource."""
    target, document = call.target, body.object()
    call.check_subresource()
    if not target.name or target.subresource not in WRITABLE:
        raise method_not_allowed()
    metadata = document.setdefault("metadata", {})
    if isinstance(metadata, dict) and metadata.setdefault("name", target.name) != target.name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match "
            f"the name on the URL ({target.name})"
        )
    headers = _check_fields(call, document) if not target.subresource else None
    return call.render(_written(call, document), 200, headers)


def _written(call: Call, document: Document) -> Document:
    target = call.target
    old = call.store.get(target.plural, target.name, **call.address)
    if not target.subresource and old["metadata"].get("managedFields"):
        document["metadata"].setdefault("managedFields", old["metadata"]["managedFields"])
        document = transferred(old, document, call.field_types, call.manager)
    updated = call.store.update(
        target.plural,
        document,
        **call.address,
        subresource=target.subresource or None,
        dry_run=call.query.dry_run,
    )
    if target.subresource != "scale":
        return updated
    if old["metadata"].get("managedFields") and updated is not old:
        handed = transferred(old, updated, call.field_types, call.manager)
        updated = call.store.update(target.plural, handed, group=target.group)
    return call.store.scale(target.plural, target.name, **call.address)


def patch(call: Call, body: Body) -> Response:
    """The four patch formats."""
    target = call.target
    call.check_subresource()
    if not target.name or target.subresource not in WRITABLE:
        raise method_not_allowed()
    if body.media_type == APPLY:
        return apply(call, body)
    old = call.store.get(target.plural, target.name, **call.address)
    if target.subresource == "scale":
        old = call.store.scale(target.plural, target.name, **call.address)
    new = copied(_patched(call, old, body))
    if new == old:
        return call.render(old)
    headers = _check_fields(call, new) if not target.subresource else None
    new.setdefault("metadata", {})["name"] = target.name
    return call.render(_written(call, new), 200, headers)


def _patched(call: Call, old: Document, body: Body) -> Document:
    custom = call.resource.custom
    accepted = [JSON_PATCH, MERGE, APPLY] if custom else [JSON_PATCH, MERGE, STRATEGIC, APPLY]
    if body.media_type not in accepted:
        raise unsupported_media_type(", ".join(accepted))
    value = body.value()
    if body.media_type == JSON_PATCH:
        return json_patch(old, value)
    if not isinstance(value, dict):
        raise bad_request("a merge patch must be one JSON object")
    merged = strategic_merge if body.media_type == STRATEGIC else merge_patch
    patched: Document = merged(old, value)
    return patched


def apply(call: Call, body: Body) -> Response:
    """Server-side apply. Needs ``fieldManager``; ``force`` takes fields from other managers."""
    target, config = call.target, body.value()
    if not isinstance(config, dict) or not isinstance(config.get("metadata", {}), dict):
        raise bad_request("an apply configuration must be one object with metadata")
    if not call.query.text("fieldManager"):
        raise bad_request(
            "PatchOptions.meta.k8s.io is invalid: "
            "fieldManager: Required value: is required for apply patch"
        )
    config = copied(config)
    config.setdefault("metadata", {})["name"] = target.name
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil in an apply configuration")
    headers = _check_fields(call, config)
    if target.subresource == "status":
        return _apply_status(call, config)
    old = call.store.find(target.plural, target.name, **call.address)
    blank: Document = {"metadata": {"managedFields": []}}
    new = applied(
        old or blank, config, call.field_types, call.manager, force=call.query.flag("force")
    )
    dry_run = call.query.dry_run
    if old is None:
        new = {**new, "apiVersion": config.get("apiVersion"), "kind": config.get("kind")}
        return call.render(
            call.store.create(target.plural, new, **call.address, dry_run=dry_run), 201
        )
    updated = call.store.update(target.plural, new, **call.address, dry_run=dry_run)
    return call.render(updated, 200, headers)


def _apply_status(call: Call, config: Document) -> Response:
    target = call.target
    old = call.store.get(target.plural, target.name, **call.address)
    new = {**old, "status": strategic_merge(old.get("status") or {}, config.get("status") or {})}
    return call.render(_written(call, new))


def delete(call: Call, body: Body) -> Response:
    """delete and deletecollection."""
    target, options = call.target, body.options()
    if target.subresource:
        raise method_not_allowed()
    if not target.name:
        return delete_collection(call, options)
    gone = _delete_one(call, target.name, target.namespace, options)
    if call.collection.find(_key(gone)) is not None:
        return call.render(gone)
    details = {"name": target.name, "kind": target.plural, "uid": gone["metadata"]["uid"]}
    return success(200, details | ({"group": target.group} if target.group else {}))


def _delete_one(call: Call, name: str, namespace: str, options: Document) -> Document:
    preconditions = options.get("preconditions") or {}
    grace = options.get("gracePeriodSeconds")
    if grace is None and call.query.text("gracePeriodSeconds"):
        grace = call.query.number("gracePeriodSeconds")
    propagation = options.get("propagationPolicy") or call.query.text("propagationPolicy") or None
    return call.store.delete(
        call.target.plural,
        name,
        group=call.target.group,
        namespace=namespace or None,
        grace_seconds=grace,
        uid=preconditions.get("uid"),
        resource_version=preconditions.get("resourceVersion"),
        propagation=propagation,
        dry_run=call.query.dry_run or bool(options.get("dryRun")),
    )


def delete_collection(call: Call, options: Document) -> Response:
    """Delete everything the selectors match."""
    query = call.query
    matches = object_predicate(query.text("labelSelector"), query.text("fieldSelector"))
    found = list(call.collection.scan(call.target.namespace or None))
    chosen = [stored for stored in found if matches is None or matches(stored.document)]
    for stored in chosen:
        namespace, name = _key(stored.document)
        _delete_one(call, name, namespace, options)
    metadata = {"resourceVersion": str(call.store.revision)}
    return answer(call.rendering.many(chosen, metadata))
