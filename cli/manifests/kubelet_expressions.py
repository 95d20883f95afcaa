"""CEL expressions in the kubelet settings of an EC2NodeClass, for ``dovetail validate`` (EC-11)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from shared.api.faults import Fault, Path
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject

_PART = re.compile(r"[^.\[\]]+")


def expression_faults(document: Mapping[str, Any]) -> list[Fault]:
    """Those that cannot be evaluated, or fail for one of AWS's types, of an object without other faults."""
    node_class = _with_expressions(document)
    if node_class is None or find_spec("cel") is None:  # images of some services are without it
        return []
    from shared.cloud.catalogue.bundled import bundled_catalogue  # 1,300 types, for few files
    from shared.domain.instance_types.expression_checks import (
        failing_expression,
        invalid_expressions,
    )

    found = invalid_expressions(node_class)
    if not found:
        failing = failing_expression(node_class, bundled_catalogue().types)
        found = [failing] if failing else []
    return [Fault(_path(error.field), error.fault) for error in found]


def expression_notes(document: Mapping[str, Any]) -> list[Fault]:
    """That the services evaluate them only if asked to."""
    node_class = _with_expressions(document)
    if node_class is None:
        return []
    from shared.domain.instance_types.expression_checks import expressions_of

    message = "is a CEL expression, which needs AWS_FEATURE_GATES=NodeClassCEL=true"
    return [Fault(_path(field), message) for field, _ in expressions_of(node_class)]


def _with_expressions(document: Mapping[str, Any]) -> NodeClass | None:
    spec = document.get("spec")
    kubelet = spec.get("kubelet") if isinstance(spec, Mapping) else None
    if document.get("kind") != "EC2NodeClass" or not isinstance(kubelet, Mapping):
        return None
    from shared.api.v1.ec2_node_classes import parse_ec2_node_class
    from shared.domain.instance_types.expressions import parted

    if not parted(kubelet)[1]:
        return None
    try:
        return parse_ec2_node_class(document).record
    except InvalidObject:
        return None


def _path(field: str) -> Path:
    """``spec.kubelet.kubeReserved[cpu]`` -> its parts."""
    return tuple(_PART.findall(field))
