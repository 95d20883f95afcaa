"""``/openapi/v3``, as far as ``kubectl explain``, ``apply`` and ``edit`` need it.

Custom resources publish their own schema, built-in kinds their outer shape (apiVersion, kind, metadata, spec, status).
kubectl reads two things: whether the ``patch`` operation has ``fieldValidation``, and, for explain, the schema that
names the kind in ``x-kubernetes-group-version-kind``. ``/openapi/v2`` lists no kinds: kubectl looks there before it
splits a ``List``, and leaves unknown kinds to the server.
"""

from __future__ import annotations

from typing import Any

from local.cluster.api.errors import no_such_path
from local.cluster.builtin.resources import Resource
from local.cluster.crd.schemas import Schema
from local.cluster.storage.store import Store

VERSION = "v1.32.4"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
OUTER: dict[str, Schema] = {
    "apiVersion": {
        "type": "string",
        "description": "The versioned schema of this representation of an object.",
    },
    "kind": {
        "type": "string",
        "description": "The kind of the REST resource this object represents.",
    },
    "metadata": {
        "allOf": [{"$ref": f"#/components/schemas/{META}"}],
        "description": "Standard object's metadata.",
    },
}
METADATA: Schema = {
    "type": "object",
    "description": "ObjectMeta is metadata that all persisted resources must have.",
    "properties": {
        "name": {"type": "string", "description": "Name is unique within a namespace."},
        "namespace": {
            "type": "string",
            "description": "Namespace within which each name is unique.",
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "annotations": {"type": "object", "additionalProperties": {"type": "string"}},
        "finalizers": {"type": "array", "items": {"type": "string"}},
        "generateName": {"type": "string"},
        "creationTimestamp": {"type": "string", "format": "date-time"},
        "deletionTimestamp": {"type": "string", "format": "date-time"},
        "resourceVersion": {"type": "string"},
        "generation": {"type": "integer", "format": "int64"},
        "uid": {"type": "string"},
        "ownerReferences": {"type": "array", "items": {"type": "object"}},
    },
}
V2_MEDIA = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
V2_EMPTY = b""
"""A document without kinds. In protobuf a message without fields is empty."""
DEFAULT_INFO = {"title": "Kubernetes", "version": VERSION}


def _root(resource: Resource) -> str:
    return (
        f"apis/{resource.group}/{resource.version}" if resource.group else f"api/{resource.version}"
    )


def index(store: Store) -> dict[str, Any]:
    """The answer to ``/openapi/v3``: one document per group and version."""
    roots = {_root(resource) for resource in store.served()}
    revision = store.revision
    return {
        "paths": {
            root: {"serverRelativeURL": f"/openapi/v3/{root}?hash={revision}"}
            for root in sorted(roots)
        }
    }


def document(store: Store, root: str) -> dict[str, Any]:
    """The document of one group and version. Raises ApiError 404."""
    resources = [resource for resource in store.served() if _root(resource) == root]
    if not resources:
        raise no_such_path()
    paths: dict[str, Any] = {}
    schemas: dict[str, Schema] = {META: METADATA}
    for resource in resources:
        paths |= _paths(resource, root)
        schemas[_schema_name(resource)] = _schema(store, resource)
    return {
        "openapi": "3.0.0",
        "info": DEFAULT_INFO,
        "paths": paths,
        "components": {"schemas": schemas},
    }


def _gvk(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: Resource) -> str:
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "io.k8s.api.core"
    return f"{group}.{resource.version}.{resource.kind}"


def _paths(resource: Resource, root: str) -> dict[str, Any]:
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    base = f"/{root}/{scope}{resource.plural}"
    answer = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    responses = {"200": {"description": "OK", "content": {"application/json": {"schema": answer}}}}

    def operation(action: str, parameters: tuple[str, ...] = ()) -> dict[str, Any]:
        described = [{"name": n, "in": "query", "schema": {"type": "string"}} for n in parameters]
        return {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _gvk(resource),
            "parameters": described,
            "responses": responses,
        }

    writing = ("dryRun", "fieldManager", "fieldValidation")
    return {
        base: {"get": operation("list"), "post": operation("post", writing)},
        f"{base}/{{name}}": {
            "get": operation("get"),
            "put": operation("put", writing),
            "patch": operation("patch", (*writing, "force")),
            "delete": operation("delete", ("dryRun",)),
        },
    }


def _schema(store: Store, resource: Resource) -> Schema:
    custom = store.custom_kind(resource)
    own = custom.versions[resource.version].schema if custom else _outer_shape(resource)
    properties = {**(own.get("properties") or {}), **OUTER}
    return {**own, "properties": properties, "x-kubernetes-group-version-kind": [_gvk(resource)]}


def _outer_shape(resource: Resource) -> Schema:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    parts = {"spec": {**free, "description": f"Specification of the {resource.kind}."}}
    if "status" in resource.subresources:
        parts["status"] = {
            **free,
            "description": f"Most recently observed status of the {resource.kind}.",
        }
    text = (
        f"{resource.kind} is a built-in kind; the embedded server publishes its outer shape only."
    )
    return {"type": "object", "description": text, "properties": parts}
