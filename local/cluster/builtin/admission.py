"""Admission of an object before it is stored: defaults, values that depend on the cluster, and validation.

A pod that names a PriorityClass is refused until that class exists, as on a real server, even when the same manifest
creates the class later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from local.cluster.api.errors import FieldError, bad_request, forbidden, invalid
from local.cluster.builtin.defaults import apply_defaults, first_status
from local.cluster.builtin.resources import CRD_PLURAL, Resource
from local.cluster.builtin.rules import (
    MalformedQuantity,
    change_errors,
    metadata_errors,
    object_errors,
    status_errors,
)
from local.cluster.crd.admission_policies import Write, check_write, policy_errors
from local.cluster.crd.cel import ABSENT
from local.cluster.crd.custom_resources import CustomKind, default_definition, definition_errors
from local.cluster.storage.watches import Document

if TYPE_CHECKING:
    from local.cluster.storage.store import Store

DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def admit_create(resource: Resource, document: Document, store: Store) -> None:
    """Complete and check a new object in place. Raises ApiError 403 and 422."""
    custom = store.custom_kind(resource)
    if custom:
        _admit_custom(resource, custom, document)
    else:
        _admit_built_in(resource, document, store)
    check_write(store, Write(resource, document, None))


def _admit_built_in(resource: Resource, document: Document, store: Store) -> None:
    with _shape_checked(resource):
        apply_defaults(resource, document)
        _complete(resource, document, store)
        status = first_status(resource, document)
        if status is not None:
            document["status"] = status
        errors = _errors(resource, document)
    _refuse(resource, document, errors)


def admit_update(
    resource: Resource, old: Document, new: Document, subresource: str | None, store: Store
) -> None:
    """Complete and check the next version in place. Raises ApiError 422."""
    custom = store.custom_kind(resource)
    if custom:
        _admit_custom(resource, custom, new, old)
    else:
        _admit_change(resource, old, new, subresource)
    if subresource is None:
        check_write(store, Write(resource, new, old))


def _admit_change(
    resource: Resource, old: Document, new: Document, subresource: str | None
) -> None:
    if subresource == "status":
        with _shape_checked(resource):
            errors = status_errors(resource, old, new)
        _refuse(resource, new, errors)
        return
    with _shape_checked(resource):
        apply_defaults(resource, new)
        errors = list(change_errors(resource, old, new)) or _errors(resource, new)
    _refuse(resource, new, errors)


@contextmanager
def _shape_checked(resource: Resource) -> Iterator[None]:
    # Built-in kinds have no schema here: a list in place of an object shows as one of these errors.
    try:
        yield
    except MalformedQuantity as error:
        kind = resource.kind
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {error}'
        ) from error
    except (AttributeError, KeyError, TypeError) as error:
        raise bad_request(
            f'{resource.kind} in version "{resource.version}" cannot be handled as a '
            f"{resource.kind}: a field has the wrong type; check lists and objects ({error})"
        ) from error


def _admit_custom(
    resource: Resource, custom: CustomKind, document: Document, old: Any = ABSENT
) -> None:
    version = custom.version_of(document)
    admitted, _ = version.admit(document)
    document.clear()
    document.update(admitted)
    errors = list(metadata_errors(resource, document["metadata"]))
    _refuse(resource, document, errors + version.validator.errors(document, old))


def _errors(resource: Resource, document: Document) -> list[FieldError]:
    if resource.plural == CRD_PLURAL:
        default_definition(document)
        return definition_errors(document)
    return object_errors(resource, document) + list(policy_errors(resource, document))


def _refuse(resource: Resource, document: Document, errors: list[FieldError]) -> None:
    if errors:
        raise invalid(resource, document["metadata"]["name"], errors)


def _complete(resource: Resource, document: Document, store: Store) -> None:
    if resource.plural == "pods":
        _set_priority(resource, document, store)
    elif resource.plural == "persistentvolumeclaims":
        _set_storage_class(document, store)


def _set_priority(resource: Resource, pod: Document, store: Store) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName")
    classes = store.list("priorityclasses", group="scheduling.k8s.io")
    if name:
        chosen = next((c for c in classes if c["metadata"]["name"] == name), None)
        if chosen is None:
            why = f"no PriorityClass with name {name} was found"
            raise forbidden(resource, pod["metadata"]["name"], why)
    else:
        chosen = next((c for c in classes if c.get("globalDefault")), None)
    priority = chosen["value"] if chosen else 0
    stated = spec.get("priority")
    if stated not in (None, priority):
        why = (
            f"the integer value of priority ({stated}) must not be provided in pod spec; priority "
            f"admission controller computed {priority} from the given PriorityClass name"
        )
        raise forbidden(resource, pod["metadata"]["name"], why)
    spec["priority"] = priority
    if chosen:
        spec["priorityClassName"] = chosen["metadata"]["name"]
        spec["preemptionPolicy"] = chosen.get("preemptionPolicy", "PreemptLowerPriority")


def _set_storage_class(claim: Document, store: Store) -> None:
    if claim["spec"].get("storageClassName") is not None:
        return
    for entry in store.list("storageclasses", group="storage.k8s.io"):
        if (entry["metadata"].get("annotations") or {}).get(DEFAULT_CLASS) == "true":
            claim["spec"]["storageClassName"] = entry["metadata"]["name"]
            return
