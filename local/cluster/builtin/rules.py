"""Validation of built-in objects: the checks of Kubernetes' ``pkg/apis/*/validation`` that manifests most often fail.

Plain functions from an object to the list of its errors. Only the rules that matter to scheduling and to workloads are
here, so this server may accept an object that a real API server refuses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from local.cluster.api.authorization import role_checks
from local.cluster.api.errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    required,
    unsupported_value,
)
from local.cluster.builtin.resources import Resource
from local.cluster.storage.selectors import selector_matches
from local.cluster.storage.watches import Document
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL_NAME = re.compile(
    r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
)
_LABEL_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")

SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', "
    "and must start and end with an alphanumeric character (e.g. 'example.com', regex used for "
    "validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
QUANTITY_RULE = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
FREE_NAMES = frozenset({"clusterroles", "clusterrolebindings", "roles", "rolebindings"})
WORKLOADS = frozenset({"daemonsets", "deployments", "replicasets", "statefulsets"})
SPREAD_ACTIONS = ["DoNotSchedule", "ScheduleAnyway"]
OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"]
CONTAINER_RESOURCES = frozenset({"cpu", "memory", "ephemeral-storage"})
HUGE_PAGES = "hugepages-"


class MalformedQuantity(ValueError):
    """The API server finds the error while it decodes the object, so it answers 400 and names no field."""


def quantity(text: Any) -> Decimal | None:
    """The exact value of a quantity; None when it is malformed."""
    try:
        return parse_quantity(text, field="quantity")
    except InvalidObject:
        return None


def metadata_errors(resource: Resource, metadata: Document) -> Iterator[FieldError]:
    """The errors in an object's name and labels."""
    name = metadata["name"]
    if resource.plural not in FREE_NAMES and not _SUBDOMAIN.match(name):
        yield invalid_value("metadata.name", name, SUBDOMAIN_RULE)
    yield from label_errors("metadata.labels", metadata.get("labels") or {})


def label_errors(path: str, labels: Document) -> Iterator[FieldError]:
    """The errors in label names and values."""
    for name, value in labels.items():
        if not _LABEL_NAME.match(name):
            yield invalid_value(path, name, LABEL_NAME_RULE)
        if not isinstance(value, str) or not _LABEL_VALUE.match(value):
            yield invalid_value(path, value, LABEL_RULE)


def pod_spec_errors(spec: Document, path: str) -> Iterator[FieldError]:
    """The errors in containers and topology spread constraints."""
    containers = spec.get("containers")
    if not isinstance(containers, list) or not containers:
        yield required(f"{path}.containers")
        return
    for field in ("initContainers", "containers"):
        seen: set[str] = set()
        for index, container in enumerate(spec.get(field) or []):
            yield from _container_errors(container, f"{path}.{field}[{index}]", seen)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints") or []):
        yield from _spread_errors(constraint, f"{path}.topologySpreadConstraints[{index}]")


def _container_errors(container: Document, path: str, seen: set[str]) -> Iterator[FieldError]:
    for field in ("name", "image"):
        if not container.get(field):
            yield required(f"{path}.{field}")
    name = container.get("name", "")
    if name in seen:
        yield duplicate_value(f"{path}.name", name)
    seen.add(name)
    yield from _resource_errors(container.get("resources") or {}, f"{path}.resources")


def _resource_errors(resources: Document, path: str) -> Iterator[FieldError]:
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, amount in amounts.items():
            yield from _amount_errors(name, amount, f"{path}.{part}[{name}]")
            if part == "requests":
                yield from _over_limit(name, amount, limits, path)


def _amount_errors(name: str, amount: Any, path: str) -> Iterator[FieldError]:
    number = quantity(amount)
    if number is None:
        raise MalformedQuantity(QUANTITY_RULE)
    if number < 0:
        yield invalid_value(path, amount, "must be greater than or equal to 0")
    if "/" not in name and name not in CONTAINER_RESOURCES and not name.startswith(HUGE_PAGES):
        yield invalid_value(path, name, "must be a standard resource for containers")


def _over_limit(name: str, amount: Any, limits: Document, path: str) -> Iterator[FieldError]:
    """Errors of a request above its limit; what cannot be overcommitted needs a request equal to its limit."""
    divisible = not name.startswith(HUGE_PAGES) and ("/" not in name or "kubernetes.io/" in name)
    if name not in limits:
        if not divisible:
            text = "Limit must be set for non overcommitable resources"
            yield required(f"{path}.limits", text)
        return
    request, limit = quantity(amount), quantity(limits[name])
    if request is None or limit is None or request == limit or (divisible and request < limit):
        return
    relation = "less than or equal to" if divisible else "equal to"
    text = f"must be {relation} {name} limit of {limits[name]}"
    yield invalid_value(f"{path}.requests", amount, text)


def _spread_errors(constraint: Document, path: str) -> Iterator[FieldError]:
    skew = constraint.get("maxSkew")
    if not isinstance(skew, int) or skew < 1:
        yield invalid_value(f"{path}.maxSkew", skew, "must be greater than zero")
    if not constraint.get("topologyKey"):
        yield required(f"{path}.topologyKey", "can not be empty")
    action = constraint.get("whenUnsatisfiable")
    if action not in SPREAD_ACTIONS:
        yield unsupported_value(f"{path}.whenUnsatisfiable", action, SPREAD_ACTIONS)


def _selector_errors(selector: Any, path: str) -> Iterator[FieldError]:
    for index, term in enumerate((selector or {}).get("matchExpressions") or []):
        if term.get("operator") not in OPERATORS:
            field = f"{path}.matchExpressions[{index}].operator"
            yield unsupported_value(field, term.get("operator"), OPERATORS)


def _workload_errors(spec: Document) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if not selector:
        yield required("spec.selector")
        return
    yield from _selector_errors(selector, "spec.selector")
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not any(_selector_errors(selector, "")) and not selector_matches(selector, labels):
        text = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, text)
    replicas = spec.get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        yield invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
    yield from pod_spec_errors(template.get("spec") or {}, "spec.template.spec")
    restart = (template.get("spec") or {}).get("restartPolicy", "Always")
    if restart != "Always":
        yield unsupported_value("spec.template.spec.restartPolicy", restart, ["Always"])


def _job_errors(spec: Document) -> Iterator[FieldError]:
    template_spec = (spec.get("template") or {}).get("spec") or {}
    yield from pod_spec_errors(template_spec, "spec.template.spec")
    restart = template_spec.get("restartPolicy")
    if restart not in ("OnFailure", "Never"):
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')


def _budget_errors(spec: Document) -> Iterator[FieldError]:
    both = spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None
    if both:
        yield invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    yield from _selector_errors(spec.get("selector"), "spec.selector")


def object_errors(resource: Resource, document: Document) -> list[FieldError]:
    """All errors of a built-in object."""
    errors = list(metadata_errors(resource, document["metadata"]))
    spec = document.get("spec") or {}
    if resource.plural == "pods":
        errors += pod_spec_errors(spec, "spec")
    elif resource.plural in WORKLOADS:
        errors += _workload_errors(spec)
    elif resource.plural == "jobs":
        errors += _job_errors(spec)
    elif resource.plural == "poddisruptionbudgets":
        errors += _budget_errors(spec)
    elif resource.plural in role_checks.ROLES:
        errors += role_checks.role_errors(document, namespaced=resource.namespaced)
    elif resource.plural in role_checks.BINDINGS:
        errors += role_checks.binding_errors(document, namespaced=resource.namespaced)
    return errors


POD_MUTABLE = (
    "activeDeadlineSeconds",
    "tolerations",
    "terminationGracePeriodSeconds",
    "schedulingGates",
)
POD_RULE = (
    "pod updates may not change fields other than `spec.containers[*].image`, "
    "`spec.initContainers[*].image`, `spec.activeDeadlineSeconds`, `spec.tolerations` (only "
    "additions to "
    "existing tolerations), `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it "
    "was "
    "previously negative)"
)


def change_errors(resource: Resource, old: Document, new: Document) -> list[FieldError]:
    """Errors of an update that changes immutable fields."""
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if resource.plural == "pods" and _fixed_part(before) != _fixed_part(after):
        return [_pod_change(before, after)]
    if resource.plural in WORKLOADS and before.get("selector") != after.get("selector"):
        return [invalid_value("spec.selector", after.get("selector"), "field is immutable")]
    provider = before.get("providerID")
    if resource.plural == "nodes" and provider and provider != after.get("providerID"):
        text = "node updates may not change a providerID once it is set"
        return [forbidden_field("spec.providerID", text)]
    if resource.plural in role_checks.BINDINGS:
        changed = role_checks.reference_changed(old, new)
        return [changed] if changed else []
    return []


def status_errors(resource: Resource, old: Document, new: Document) -> list[FieldError]:
    """Errors of a status update that changes fields which are fixed."""
    if resource.plural != "pods" or not (old.get("spec") or {}).get("nodeName"):
        return []
    nominated = (new.get("status") or {}).get("nominatedNodeName")
    if not nominated or nominated == (old.get("status") or {}).get("nominatedNodeName"):
        return []
    text = "may not be set on a pod that is bound to a node"
    return [forbidden_field("status.nominatedNodeName", text)]


def _fixed_part(spec: Document) -> Document:
    fixed = {name: value for name, value in spec.items() if name not in POD_MUTABLE}
    for field in ("containers", "initContainers"):
        if field in fixed:
            fixed[field] = [{**container, "image": None} for container in fixed[field] or []]
    return fixed


def _pod_change(before: Document, after: Document) -> FieldError:
    if before.get("nodeName") != after.get("nodeName"):
        return forbidden_field("spec.nodeName", "a pod is assigned through its binding subresource")
    return forbidden_field("spec", POD_RULE)
