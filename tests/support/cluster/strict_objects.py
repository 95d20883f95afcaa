"""Objects against the API of Kubernetes, as kubeconform does: unknown fields, missing ones, and values of other types.

The classes of ``kubernetes_asyncio`` are generated from the OpenAPI document of Kubernetes. The kinds of the Prometheus
operator are described here, as far as the chart uses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from jsonschema import Draft202012Validator

Document = dict[str, Any]
SCALARS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "bool": (bool,),
    "float": (int, float),
    "datetime": (str,),
    "object": (object,),
}
LIST, MAP = re.compile(r"list\[(.+)\]"), re.compile(r"dict\(str, (.+)\)")
GROUPS = {
    "v1": "V1",
    "apps/v1": "V1",
    "policy/v1": "V1",
    "networking.k8s.io/v1": "V1",
    "rbac.authorization.k8s.io/v1": "V1",
    "admissionregistration.k8s.io/v1": "V1",
    "apiextensions.k8s.io/v1": "V1",
}
"""Prefix of the classes of a group and version."""
RENAMED = {"V1Subject": "RbacV1Subject"}


def faults(document: Document) -> list[str]:
    """What an API server that checks strictly would refuse, with the path of the field."""
    kind = f"{document.get('apiVersion')}/{document.get('kind')}"
    if kind in MONITORING:
        found = Draft202012Validator(MONITORING[kind]).iter_errors(document)
        return [f"{error.json_path}: {error.message}" for error in found]
    prefix = GROUPS.get(str(document.get("apiVersion")))
    if prefix is None or _model(f"{prefix}{document['kind']}") is None:
        return [f"{kind} is not known"]
    return list(_faults_of(document, f"{prefix}{document['kind']}", str(document["kind"])))


def _model(kind: str) -> Any:
    """The class; None for an unknown one. By its module, because `shared.kube` imports the package without classes."""
    name = re.sub(r"([a-z\d])([A-Z])", r"\1_\2", re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", kind))
    try:
        module = import_module(f"kubernetes_asyncio.client.models.{name.lower()}")
    except ModuleNotFoundError:
        return None
    return getattr(module, kind)


def _faults_of(value: Any, kind: str, path: str) -> Iterator[str]:
    listed, mapped = LIST.fullmatch(kind), MAP.fullmatch(kind)
    if kind in SCALARS:
        if not isinstance(value, SCALARS[kind]) or (kind == "int" and isinstance(value, bool)):
            yield f"{path}: {value!r} is no {kind}"
    elif listed:
        if not isinstance(value, list):
            yield f"{path}: no list"
            return
        for number, one in enumerate(value):
            yield from _faults_of(one, listed[1], f"{path}[{number}]")
    elif mapped:
        if not isinstance(value, dict):
            yield f"{path}: no map"
            return
        for name, one in value.items():
            yield from _faults_of(one, mapped[1], f"{path}.{name}")
    else:
        yield from _faults_of_object(value, kind, path)


def _faults_of_object(value: Any, kind: str, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: no object"
        return
    model = _model(RENAMED.get(kind, kind))
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    yield from (f"{path}.{name} is unknown" for name in value if name not in names)
    known = {names[name]: one for name, one in value.items() if name in names}
    try:
        model(**known)
    except ValueError as error:  # a required field, or a value out of its range
        yield f"{path}: {error}"
    for attribute, one in known.items():
        name = model.attribute_map[attribute]
        yield from _faults_of(one, model.openapi_types[attribute], f"{path}.{name}")


def _object(required: tuple[str, ...] = (), **properties: Any) -> Document:
    return {
        "type": "object",
        "properties": properties,
        "required": [*required],
        "additionalProperties": False,
    }


_TEXT = {"type": "string", "minLength": 1}
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION = {"type": "string", "pattern": "^(0|([0-9]+(y|w|d|h|m|s|ms))+)$"}


def _kind(kind: str, spec: Document) -> Document:
    metadata = _object(("name", "namespace"), name=_TEXT, namespace=_TEXT, labels=_TEXTS)
    return _object(
        ("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": "monitoring.coreos.com/v1"},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


_ENDPOINTS = {
    "type": "array",
    "minItems": 1,
    "items": _object(("port",), port=_TEXT, path=_TEXT, interval=_DURATION),
}
_EXPRESSION = _object(
    ("key", "operator"),
    key=_TEXT,
    operator={"enum": ["In", "NotIn", "Exists", "DoesNotExist"]},
    values={"type": "array", "items": _TEXT},
)
_SELECTOR = _object(matchLabels=_TEXTS, matchExpressions={"type": "array", "items": _EXPRESSION})
_RULE = {
    **_object(
        ("expr",),
        **{"record": _TEXT, "alert": _TEXT, "expr": {"type": ["string", "integer"]}},
        **{"for": _DURATION, "keep_firing_for": _DURATION},
        **{"labels": _TEXTS, "annotations": _TEXTS},
    ),
    "oneOf": [{"required": ["record"]}, {"required": ["alert"]}],
}
_RULE_GROUP = _object(
    ("name",), name=_TEXT, interval=_DURATION, limit={"type": "integer"},
    rules={"type": "array", "items": _RULE},
)  # fmt: skip
MONITORING = {
    "monitoring.coreos.com/v1/PodMonitor": _kind(
        "PodMonitor",
        _object(
            ("selector", "podMetricsEndpoints"), selector=_SELECTOR, podMetricsEndpoints=_ENDPOINTS
        ),
    ),
    "monitoring.coreos.com/v1/ServiceMonitor": _kind(
        "ServiceMonitor",
        _object(("selector", "endpoints"), selector=_SELECTOR, endpoints=_ENDPOINTS),
    ),
    "monitoring.coreos.com/v1/PrometheusRule": _kind(
        "PrometheusRule", _object(groups={"type": "array", "items": _RULE_GROUP})
    ),
}
"""After the CRDs of the Prometheus operator."""
