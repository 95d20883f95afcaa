"""Changes of an object between its versions: identity, generation, deletion. Plain functions without state.

Follows apiserver's ``registry/rest`` (BeforeCreate, BeforeUpdate, BeforeDelete). Kinds with a status subresource accept
a status only through that subresource, so a status in a create or a plain update is dropped. Nodes are the exception at
creation, because kubelets register with their status.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import orjson

from local.cluster.api.errors import (
    ApiError,
    FieldError,
    bad_request,
    conflict,
    forbidden_field,
    invalid,
    invalid_value,
    required,
)
from local.cluster.builtin.resources import Resource
from local.cluster.storage.watches import Document
from shared.concurrency.clock import parse_rfc3339, rfc3339

SERVER_OWNED = (
    "uid",
    "creationTimestamp",
    "name",
    "generateName",
    "namespace",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "selfLink",
)
"""Metadata that no client can change."""

NAME_LIMIT = 253
GENERATED_SUFFIX = 5
SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
PROPAGATION_FINALIZERS = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}
STATUS_AT_CREATE = frozenset({"nodes"})


def copied(document: Any) -> Document:
    """A deep copy of JSON data. Raises ApiError 400 for anything else."""
    try:
        copy = orjson.loads(orjson.dumps(document))
    except TypeError as error:
        raise bad_request(f"the object is not JSON: {error}") from error
    if not isinstance(copy, dict):
        raise bad_request("the body must be one JSON object")
    return copy


def check_type(resource: Resource, document: Document) -> None:
    """Fill in apiVersion and kind. Raises ApiError 400 when they name another kind."""
    kind = document.setdefault("kind", resource.kind)
    version = document.setdefault("apiVersion", resource.api_version)
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{version}" cannot be handled as a {resource.kind}: wrong kind'
        )
    group = version.rpartition("/")[0]
    if group != resource.group:
        raise bad_request(
            f"the API version in the data ({version}) does not match "
            f"the expected API version ({resource.api_version})"
        )


def check_metadata(resource: Resource, document: Document) -> Document:
    """``metadata`` as an object. Raises ApiError 400 when it or the whole object has another type; other fields of a
    custom object are checked by its schema.
    """
    metadata = document.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request("metadata must be an object")
    if not (resource.custom or isinstance(document.get("spec", {}), dict)):
        raise bad_request("spec must be an object")
    for name in ("labels", "annotations"):
        texts = metadata.get(name) or {}
        if not isinstance(texts, dict) or not all(isinstance(t, str) for t in texts.values()):
            raise bad_request(
                f"metadata.{name} must map names to strings; put numbers and booleans in quotes"
            )
    return metadata


def check_scope(resource: Resource, metadata: Document, namespace: str | None) -> None:
    """Set the namespace. Raises ApiError 400 when body and request disagree."""
    if not resource.namespaced:
        metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if given and namespace and given != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = given or namespace or "default"


def reset_for_create(resource: Resource, document: Document, uid: str, now: float) -> None:
    """Give a new object its identity and drop the fields that clients may not set."""
    metadata = document["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(name, None)
    metadata |= {"uid": uid, "creationTimestamp": rfc3339(now), "generation": 1}
    if "status" in resource.subresources and resource.plural not in STATUS_AT_CREATE:
        document.pop("status", None)


def check_preconditions(
    resource: Resource, old: Document, uid: str | None, resource_version: str | None
) -> None:
    """Raises ApiError 409 when the stored object does not meet the caller's preconditions."""
    metadata = old["metadata"]
    if uid and uid != metadata["uid"]:
        actual = metadata["uid"]
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {actual}"
        raise conflict(resource, metadata["name"], why)
    if resource_version and resource_version != metadata["resourceVersion"]:
        raise conflict(resource, metadata["name"])


def check_deletion(
    resource: Resource, old: Document, uid: str | None, resource_version: str | None
) -> None:
    """``check_preconditions`` for a deletion or an eviction, with the real server's texts for these."""
    metadata = old["metadata"]
    if uid and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({metadata['uid']}). The object might have been deleted and then recreated"
        )
        named = replace(resource, plural=resource.kind, group="")
        raise conflict(named, metadata["name"], why)
    check_preconditions(resource, old, None, resource_version)


def successor(
    resource: Resource, old: Document, new: Document, subresource: str | None
) -> Document:
    """The next version when a client sends ``new`` to the object (None) or to its ``status``.

    Raises ApiError 409 for a stale resourceVersion or another uid, 422 for new finalizers on an object in deletion.
    """
    sent = check_metadata(resource, new)
    check_preconditions(resource, old, sent.get("uid"), sent.get("resourceVersion"))
    if subresource == "status":
        return _status_successor(resource, old, new)
    metadata = {k: v for k, v in sent.items() if k not in SERVER_OWNED}
    metadata |= {k: v for k, v in old["metadata"].items() if k in SERVER_OWNED}
    metadata["resourceVersion"] = old["metadata"]["resourceVersion"]
    document = {**new, "metadata": metadata}
    if "status" in resource.subresources:
        document.pop("status", None)
        if "status" in old:
            document["status"] = old["status"]
    _check_finalizers(resource, old, document)
    return document


def _status_successor(resource: Resource, old: Document, new: Document) -> Document:
    metadata = dict(old["metadata"])
    if not resource.custom:
        for name in ("labels", "annotations"):
            if name in new["metadata"]:
                metadata[name] = new["metadata"][name]
    if "managedFields" in new["metadata"]:
        metadata["managedFields"] = new["metadata"]["managedFields"]
    document = {**old, "metadata": metadata}
    document["status"] = new.get("status") or {}
    return document


def sharing(old: Document, new: Document) -> Document:
    """``new`` with equal parts replaced by those of ``old``, so that two versions need little more memory than one."""
    shared = _shared_fields(old, new)
    shared["metadata"] = _shared_fields(old["metadata"], new["metadata"])
    return shared


def _shared_fields(old: Document, new: Document) -> Document:
    return {
        name: old[name] if name in old and old[name] == value else value
        for name, value in new.items()
    }


def _check_finalizers(resource: Resource, old: Document, new: Document) -> None:
    if not old["metadata"].get("deletionTimestamp"):
        return
    before = set(old["metadata"].get("finalizers") or ())
    added = [f for f in new["metadata"].get("finalizers") or () if f not in before]
    if added:
        why = (
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{', '.join(map(json.dumps, added))}}}"
        )
        error = forbidden_field("metadata.finalizers", why)
        raise invalid(resource, old["metadata"]["name"], [error])


def with_generation(old: Document, new: Document) -> Document:
    """``new`` with its generation incremented when anything except metadata and status differs."""
    desired = [{k: v for k, v in d.items() if k not in ("metadata", "status")} for d in (old, new)]
    if desired[0] == desired[1]:
        return new
    generation = old["metadata"].get("generation", 1) + 1
    return {**new, "metadata": {**new["metadata"], "generation": generation}}


def pod_grace(pod: Document, asked: int | None) -> int:
    """Seconds from a pod's deletion timestamp to its removal; 0 when no kubelet has to stop it."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in (
        "Succeeded",
        "Failed",
    ):
        return 0
    grace = pod["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return max(int(grace), 0)


def marked_for_deletion(
    resource: Resource, old: Document, grace_asked: int | None, now: float
) -> Document:
    """``old`` with its deletion timestamp; ``old`` itself when a delete changes nothing more."""
    metadata = old["metadata"]
    marked_at = metadata.get("deletionTimestamp")
    grace = pod_grace(old, grace_asked) if resource.plural == "pods" else 0
    if marked_at:
        left = metadata.get("deletionGracePeriodSeconds", 0)
        if grace >= left:
            return old
        now = parse_rfc3339(marked_at) - left
    changed = {
        **metadata,
        "deletionTimestamp": rfc3339(now + grace),
        "deletionGracePeriodSeconds": grace,
    }
    if not marked_at:
        changed["generation"] = metadata.get("generation", 0) + 1
    return {**old, "metadata": changed}


def is_gone(resource: Resource, document: Document) -> bool:
    """Whether a marked object can be removed: no finalizer and no grace period is left."""
    metadata = document["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if resource.plural == "pods" and not resource.group:
        return not metadata.get("deletionGracePeriodSeconds")
    if resource.plural == "namespaces" and not resource.group:
        return not document["spec"].get("finalizers")
    return True


def name_errors(metadata: Document) -> list[FieldError]:
    """The errors of metadata.name."""
    name = metadata.get("name")
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    if not isinstance(name, str) or len(name) > NAME_LIMIT:
        return [
            invalid_value("metadata.name", name, f"must be no more than {NAME_LIMIT} characters")
        ]
    return []


@dataclass(frozen=True)
class ScalePaths:
    """The paths of a kind's two Scale numbers."""

    desired: tuple[str, ...] = ("spec", "replicas")
    present: tuple[str, ...] = ("status", "replicas")


REPLICAS = ScalePaths()


def _number_at(document: Any, path: tuple[str, ...]) -> int | None:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document if isinstance(document, int) else None


def scale_of(
    resource: Resource, document: Document, selector: str, paths: ScalePaths = REPLICAS
) -> Document:
    """The ``autoscaling/v1`` Scale of a workload. Raises ApiError 500 for a custom object without the number."""
    names = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    metadata, replicas = document["metadata"], _number_at(document, paths.desired)
    if replicas is None and resource.custom:
        field = "." + ".".join(paths.desired)
        text = f'Internal error occurred: the spec replicas field "{field}" does not exist'
        raise ApiError(500, "InternalError", text)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in names if name in metadata},
        "spec": {"replicas": replicas or 0},
        "status": {"replicas": _number_at(document, paths.present) or 0, "selector": selector},
    }


def scaled(old: Document, scale: Document, paths: ScalePaths = REPLICAS) -> Document:
    """``old`` with the replicas of a Scale. Raises ApiError 422 for an invalid number."""
    replicas: Any = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        raise ApiError(
            422, "Invalid", f"spec.replicas: Invalid value: {replicas}: must be 0 or greater"
        )
    metadata = dict(old["metadata"])
    sent = (scale.get("metadata") or {}).get("resourceVersion")
    if sent:
        metadata["resourceVersion"] = sent
    return {**_with_number(old, paths.desired, replicas), "metadata": metadata}


def _with_number(document: Any, path: tuple[str, ...], number: int) -> Any:
    if not path:
        return number
    return {
        **(document or {}),
        path[0]: _with_number((document or {}).get(path[0]), path[1:], number),
    }


def with_propagation(document: Document, propagation: str | None) -> Document:
    """``document`` with the finalizer of its propagation policy, which the garbage collector removes."""
    finalizer = PROPAGATION_FINALIZERS.get(propagation or "")
    present = document["metadata"].get("finalizers") or []
    if finalizer is None or finalizer in present:
        return document
    return {**document, "metadata": {**document["metadata"], "finalizers": [*present, finalizer]}}


def check_bindable(resource: Resource, pod: Document) -> None:
    """Raises ApiError 409 for a pod that is bound or being deleted."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName")
    if node:
        binding = replace(resource, plural=f"{resource.plural}/binding")
        raise conflict(binding, name, f'pod {name} is already assigned to node "{node}"')
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict(resource, name, why)


def bound(pod: Document, node: str, now: float) -> Document:
    """``pod`` bound to ``node``, with its PodScheduled condition. The nomination is removed, because the binding
    replaces it.
    """
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": rfc3339(now),
    }
    status = {k: v for k, v in pod.get("status", {}).items() if k != "nominatedNodeName"}
    others = [c for c in status.get("conditions") or [] if c["type"] != "PodScheduled"]
    spec = {**pod["spec"], "nodeName": node}
    return {**pod, "spec": spec, "status": {**status, "conditions": [*others, condition]}}
