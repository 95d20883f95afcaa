"""The changes of a pool that may place a pod. Each allows machines that the pool excludes today."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from shared.api.label_rules import reserved_v1, reserved_v1alpha5
from shared.api.schema.requirements import requirement_objects
from shared.domain import labels as keys
from shared.domain.expressions import PREFER_NO_SCHEDULE, Expression, Taint
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import format_amount
from shared.domain.workloads.pods import Pod
from shared.simulation.changes.edits import Action, Edit, of_pool

Change = Callable[[NodePool], NodePool]
RAISE, LABEL, WIDEN, VARY, UNTAINT, OPEN = 15, 22, 25, 26, 35, 40
"""Weights: a limit protects a budget, an opened requirement changes what all pods of the pool may get."""


def pool_edits(pool: NodePool, pod: Pod) -> Iterator[Edit]:
    """All edits, the same for the same input, in no particular order."""
    for resource in sorted(pool.limits):
        yield without_limit(pool, resource)
    for taint in pool.taints:
        if taint.effect != PREFER_NO_SCHEDULE:
            yield _untainted(pool, taint)
    yield from _requirements(pool, _wanted(pod))


def without_limit(pool: NodePool, resource: str) -> Edit:
    """No limit for the resource."""
    limit = format_amount(resource, pool.limits[resource])
    text = f"remove the limit of {limit} for {resource}"
    return dataclasses.replace(_limiting(pool, resource, None, "remove", text), resource=resource)


def higher_limit(pool: NodePool, resource: str, amount: int) -> Edit:
    """A limit of ``amount``, in the resource's own unit."""
    limit, higher = (format_amount(resource, one) for one in (pool.limits[resource], amount))
    text = f"raise the limit for {resource} from {limit} to {higher}"
    return _limiting(pool, resource, amount, "set", text)


def _limiting(pool: NodePool, resource: str, amount: int | None, action: Action, text: str) -> Edit:
    def change(one: NodePool) -> NodePool:
        others = {name: limit for name, limit in one.limits.items() if name != resource}
        return replace(one, limits=others if amount is None else {**others, resource: amount})

    field = f"{pool.api.limits_path}.{resource}"
    value = None if amount is None else format_amount(resource, amount)
    return _edit(pool, field, action, value, text, RAISE, change)


def _untainted(pool: NodePool, taint: Taint) -> Edit:
    def change(one: NodePool) -> NodePool:
        return replace(one, taints=tuple(held for held in one.taints if held != taint))

    field = f"{pool.api.machines_path}.taints"
    text = f"remove the taint {taint.text()}"
    return _edit(pool, field, "remove", pool.taints.index(taint), text, UNTAINT, change)


def _wanted(pod: Pod) -> dict[str, str]:
    """Label -> the value that the pod asks for; of several the first."""
    wanted = dict(pod.node_selector)
    for expression in pod.required_terms[0] if pod.required_terms else ():
        if expression.operator == "In" and expression.values:
            wanted.setdefault(expression.key, expression.values[0])
    return wanted


def _requirements(pool: NodePool, wanted: dict[str, str]) -> Iterator[Edit]:
    stated = {one.key for one in pool.requirements}
    for key in sorted(stated):
        yield _opened(pool, key)
        if any(one.key == key and one.min_values for one in pool.requirements):
            yield _varied(pool, key)
    for key in sorted(wanted):
        if key in stated:
            yield _widened(pool, key, wanted[key])
        elif _may_label(pool, key):
            yield _labelled(pool, key, wanted[key])


def _opened(pool: NodePool, key: str) -> Edit:
    """``Exists`` instead of nothing: v1alpha5 has defaults for keys that a Provisioner does not state."""
    text = f"allow every value of {key}"
    return _requiring(pool, key, (Expression(key, "Exists"),), text, OPEN)


def _varied(pool: NodePool, key: str) -> Edit:
    held = (one for one in pool.requirements if one.key == key)
    fewer = tuple(Expression(key, one.operator, one.values) for one in held)
    return _requiring(pool, key, fewer, f"remove minValues of {key}", VARY)


def _widened(pool: NodePool, key: str, value: str) -> Edit:
    held = [one for one in pool.requirements if one.key == key]
    listed = dict.fromkeys(v for one in held if one.operator == "In" for v in one.values)
    wide = Expression(key, "In", (*listed, value) if value not in listed else tuple(listed))
    return _requiring(pool, key, (wide,), f"allow {value} for {key}", WIDEN)


def _requiring(
    pool: NodePool, key: str, expressions: tuple[Expression, ...], text: str, weight: int
) -> Edit:
    def change(one: NodePool) -> NodePool:
        others = tuple(held for held in one.requirements if held.key != key)
        return replace(one, requirements=(*others, *expressions))

    field = f"{pool.api.machines_path}.requirements"
    return _edit(pool, field, "set", requirement_objects(expressions), text, weight, change)


def _may_label(pool: NodePool, key: str) -> bool:
    """Whether nodes may have the label because of the pool: not one that AWS, Kubernetes or Karpenter determines."""
    reserved = reserved_v1 if pool.api.labels_node_class else reserved_v1alpha5
    return key not in keys.WELL_KNOWN and key != pool.label_key and not reserved(key)


def _labelled(pool: NodePool, key: str, value: str) -> Edit:
    def change(one: NodePool) -> NodePool:
        return replace(one, labels={**one.labels, key: value})

    text = f"label its nodes {key}={value}"
    return _edit(pool, pool.api.labels_path, "add", {key: value}, text, LABEL, change)


def _edit(
    pool: NodePool, field: str, action: Action, value: Any, text: str, weight: int, change: Change
) -> Edit:
    name = f"{pool.kind} {pool.name}"
    return Edit(name, field, action, value, text, weight, of_pool(pool.key, change))
