"""The subresource ``resize`` of pods: cpu and memory of containers, and nothing else (Kubernetes 1.33)."""

from __future__ import annotations

from local.cluster.api.errors import (
    FieldError,
    bad_request,
    forbidden_field,
    invalid,
    invalid_value,
)
from local.cluster.builtin.defaults import quality_of_service
from local.cluster.builtin.resources import Resource
from local.cluster.storage.lifecycle import check_metadata, check_preconditions, with_generation
from local.cluster.storage.watches import Document

RESIZABLE = ("cpu", "memory")
ONLY_RESOURCES = "only cpu and memory resources are mutable"
SAME_CLASS = "Pod QOS Class may not change as a result of resizing"


def resized(resource: Resource, old: Document, sent: Document) -> Document:
    """``old`` with the resources of the containers that were sent. Raises ApiError 400, 409 and 422."""
    metadata = check_metadata(resource, sent)
    check_preconditions(resource, old, metadata.get("uid"), metadata.get("resourceVersion"))
    spec = sent.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(containers, list):
        raise bad_request("spec.containers: Required value")
    errors = _errors(old["spec"], {**spec, "containers": containers})
    if errors:
        raise invalid(resource, old["metadata"]["name"], errors)
    given = {one["name"]: one.get("resources") or {} for one in containers}
    after = [{**one, "resources": given[one["name"]]} for one in old["spec"]["containers"]]
    new = {**old, "spec": {**old["spec"], "containers": after}}
    if quality_of_service(new["spec"]) != quality_of_service(old["spec"]):
        error = invalid_value("spec", None, SAME_CLASS)
        raise invalid(resource, old["metadata"]["name"], [error])
    return old if new == old else with_generation(old, new)


def _errors(before: Document, after: Document) -> list[FieldError]:
    if _fixed(before) == _fixed(after):
        return []
    return [forbidden_field("spec", ONLY_RESOURCES)]


def _fixed(spec: Document) -> Document:
    """What a resize may not change."""
    return {**spec, "containers": [_fixed_part(one) for one in spec["containers"]]}


def _fixed_part(container: Document) -> Document:
    resources = container.get("resources") or {}
    kept = {
        part: {name: amount for name, amount in amounts.items() if name not in RESIZABLE}
        for part, amounts in resources.items()
        if isinstance(amounts, dict)
    }
    return {**container, "resources": {part: left for part, left in kept.items() if left}}
