"""The verbs of the API over HTTP: each turns one request into calls on the store and one answer.

Every client error raises ApiError, which ``server.py`` renders as a Status.
"""

from __future__ import annotations

from dataclasses import replace as other_fields

import orjson
from starlette.responses import PlainTextResponse, Response

from local.cluster.api.authorization.reviews import review
from local.cluster.api.authorization.tokens import answer_request
from local.cluster.api.calls import MEDIA, Call, answer, success
from local.cluster.api.errors import (
    ApiError,
    bad_request,
    invalid,
    invalid_value,
    method_not_allowed,
    not_decoded,
    other_name,
    unsupported_media_type,
)
from local.cluster.api.lists import Token, page
from local.cluster.api.ownership import applied, refuse_doubled_entries, transferred
from local.cluster.api.patches import json_patch, merge_patch, strategic_merge
from local.cluster.api.requests import APPLY, JSON_PATCH, MERGE, PATCHES, STRATEGIC, Body
from local.cluster.api.streaming.watches import (
    LONGEST_SECONDS,
    WatchOptions,
    WatchResponse,
    WatchStream,
)
from local.cluster.builtin.resources import ACCESS_GROUP, IDENTITY_GROUP
from local.cluster.storage.collection import key_of
from local.cluster.storage.lifecycle import copied
from local.cluster.storage.selectors import object_predicate
from local.cluster.storage.watches import Document

READABLE = ("", "status", "scale", "resize")
WRITABLE = (*READABLE, "finalize")


def read(call: Call) -> Response:
    """get, list and watch."""
    target = call.target
    if not target.name:
        return watch(call) if call.query.flag("watch") else list_objects(call)
    call.check_subresource()
    if target.subresource == "log":
        return read_log(call)
    if target.subresource not in READABLE:
        raise method_not_allowed()
    document = call.store.get(target.plural, target.name, **call.address)
    if target.subresource == "scale":
        document = call.store.scale(target.plural, target.name, **call.address)
    return call.render(document)


def read_log(call: Call) -> Response:
    """The answer to ``kubectl logs``: the reason why there is no log. Raises ApiError 404, and 400 for a wrong
    container.
    """
    target = call.target
    pod = call.store.get(target.plural, target.name, **call.address)
    names = [container["name"] for container in pod["spec"].get("containers") or []]
    container = call.query.text("container")
    if container and container not in names:
        raise bad_request(f"container {container} is not valid for pod {target.name}")
    source = f"{target.name}/{container or names[0]}"
    return PlainTextResponse(f"{source}: pods of this cluster are simulated and write no log.\n")


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
    if target.group in (ACCESS_GROUP, IDENTITY_GROUP):
        review_request = body.object()
        reviewed = review(call.access, call.user, target.plural, target.namespace, review_request)
        return answer(orjson.dumps(reviewed), 201)
    call.check_subresource()
    if target.subresource == "eviction":
        return evict(call, body.object())
    if target.subresource == "binding":
        return bind(call, body.object())
    if target.subresource == "token":
        return issue_token(call, body.object())
    if target.name:
        raise method_not_allowed()
    document = body.object()
    headers = _check_fields(call, document)
    dry_run = call.query.dry_run
    stored = call.stored_form(document)
    call.check_grant(stored)
    created = call.store.create(target.plural, stored, **call.address, dry_run=dry_run)
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


def issue_token(call: Call, body: Document) -> Response:
    """The token subresource of a ServiceAccount."""
    account = call.store.get(call.target.plural, call.target.name, **call.address)
    return answer(orjson.dumps(answer_request(call.access.tokens, account, body)), 201)


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
        raise other_name(metadata["name"], target.name)
    headers = _check_fields(call, document) if not target.subresource else None
    return call.render(_written(call, call.stored_form(document)), 200, headers)


def _written(call: Call, document: Document) -> Document:
    target = call.target
    call.check_grant(document)
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
    shown = call.requested_form(old)
    new = copied(_patched(call, shown, body))
    if new == shown:
        return call.render(old)
    metadata = new.setdefault("metadata", {})
    _check_identity(call, str(new.get("kind")), metadata, old["metadata"])
    headers = _check_fields(call, new) if not target.subresource else None
    return call.render(_written(call, call.stored_form(new)), 200, headers)


def _check_identity(call: Call, kind: str, sent: object, stored: Document) -> None:
    """Check that a patch does not change kind, name and uid. Raises ApiError 400 and 422."""
    if not isinstance(sent, dict):
        return  # other errors are found when the object is written
    if call.resource.custom and not call.target.subresource and kind != call.resource.kind:
        error = invalid_value("kind", kind, f"must be {call.resource.kind}")
        raise invalid(other_fields(call.resource, kind=kind), call.target.name, [error])
    name = call.target.name
    if not sent.get("name"):
        raise bad_request(
            f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
        )
    if sent["name"] != name:
        raise other_name(str(sent["name"]), name)
    sent.setdefault("uid", stored["uid"])
    if sent["uid"] != stored["uid"]:
        error = invalid_value("metadata.uid", sent["uid"], "field is immutable")
        raise invalid(call.resource, name, [error])


def _patched(call: Call, old: Document, body: Body) -> Document:
    custom = call.resource.custom
    if not custom and body.media_type not in PATCHES:
        raise ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type")
    accepted = [JSON_PATCH, MERGE, APPLY] if custom else [JSON_PATCH, MERGE, STRATEGIC, APPLY]
    if body.media_type not in accepted:
        raise unsupported_media_type(", ".join(accepted))
    value = body.value()
    if body.media_type == JSON_PATCH:
        return json_patch(old, value)
    if not isinstance(value, dict):
        raise not_decoded(value, "map[string]interface {}")
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
    config = copied(call.stored_form(config))
    config.setdefault("metadata", {})["name"] = target.name
    if config["metadata"].get("managedFields"):
        raise bad_request("metadata.managedFields must be nil in an apply configuration")
    headers = _check_fields(call, config)
    if target.subresource == "status":
        return _apply_status(call, config)
    kind = f"{config.get('apiVersion')}, Kind={config.get('kind')}"
    place = f"{target.namespace or ''}/{target.name}; {kind}"
    refuse_doubled_entries(config, call.field_types, place)
    old = call.store.find(target.plural, target.name, **call.address)
    blank: Document = {"metadata": {"managedFields": []}}
    new = applied(
        old or blank, config, call.field_types, call.manager, force=call.query.flag("force")
    )
    dry_run = call.query.dry_run
    call.check_grant(new)
    if old is None:
        call.check_right("create")
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
    if call.collection.find(key_of(gone)) is not None:
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
    """Delete all objects that the selectors match."""
    query = call.query
    matches = object_predicate(query.text("labelSelector"), query.text("fieldSelector"))
    found = list(call.collection.scan(call.target.namespace or None))
    chosen = [stored for stored in found if matches is None or matches(stored.document)]
    for stored in chosen:
        namespace, name = key_of(stored.document)
        _delete_one(call, name, namespace, options)
    metadata = {"resourceVersion": str(call.store.revision)}
    return answer(call.rendering.many(chosen, metadata))
