"""What is wrong with the expressions in a class's kubelet settings (EC-11). Pure."""

from __future__ import annotations

from collections.abc import Iterable

from shared.domain.instance_types.evaluation import expression_fault
from shared.domain.instance_types.expressions import parted
from shared.domain.instance_types.size_settings import SizeSettings
from shared.domain.instance_types.sizes import resolved
from shared.domain.instance_types.types import InstanceType
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject

FIELD = "spec.kubelet"


def expressions_of(node_class: NodeClass) -> list[tuple[str, str]]:
    """(field, expression) of each; none of a class whose generation has no kubelet settings."""
    if not node_class.api.class_has_kubelet:
        return []
    _, found = parted(node_class.kubelet)
    return [(f"{FIELD}.{field}", text) for field, text in found.named()]


def invalid_expressions(node_class: NodeClass) -> list[InvalidObject]:
    """Those that can be evaluated for no type, whatever it has."""
    faults = ((field, expression_fault(text)) for field, text in expressions_of(node_class))
    return [InvalidObject(fault, field=field) for field, fault in faults if fault]


def failing_expression(
    node_class: NodeClass, types: Iterable[InstanceType]
) -> InvalidObject | None:
    """The first expression that fails, with the first of these types for which it does."""
    try:
        settings = SizeSettings.of_class(node_class)
        for kind in types:
            resolved(kind, settings)
    except InvalidObject as error:
        within = error.field if error.field.startswith(FIELD) else f"{FIELD}.{error.field}"
        return InvalidObject(error.fault, field=within)
    return None
