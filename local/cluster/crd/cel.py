"""The rules of custom resources: ``x-kubernetes-validations`` in CEL, at any node of a structural schema.

``cel_rules.compile_rules`` builds the tree of rules once, when the definition is stored; ``broken_rules`` evaluates it
against an object. As on a real server, an evaluation that fails breaks the rule, a value that an update does not change
is not validated again (ratcheting), and rules with ``oldSelf`` need an old value. Differences from a real server: an
unchanged value is not checked against its transition rules either, and ``==`` on set and map lists depends on their
order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import cel

from local.cluster.api.errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    required,
)
from local.cluster.crd.cel_values import FAILURES, Schema, cel_value
from shared.domain.devices.cel_functions import Function

ABSENT: Any = object()
"""Marks a missing old value: the object is new, or its list does not identify the old entry."""
ROOT = "<nil>"
"""The path that Kubernetes shows for an error of the whole object."""
REASONS = ("FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate")
LONGEST_MESSAGE = 5 * 1024

# The refusal reports functions that fail; the library would write them to the log as well.
logging.getLogger("cel").setLevel(logging.CRITICAL)


@dataclass(frozen=True)
class Rule:
    """One compiled rule. ``message`` describes a broken rule when ``messageExpression`` gives no text."""

    program: cel.Program
    functions: dict[str, Function]
    """The functions that the rule calls: binding all functions would take longer than most rules."""
    text: str
    message: str
    explains: cel.Program | None
    field_path: str
    reason: str
    optional_old: bool
    is_transition: bool
    """A transition rule, which needs an old value."""


@dataclass(frozen=True)
class RuleNode:
    """A node of a schema with rules at it or below it."""

    schema: Schema
    is_root: bool
    rules: tuple[Rule, ...]
    fields: Mapping[str, RuleNode]
    values: RuleNode | None
    entries: RuleNode | None


def broken_rules(
    node: RuleNode, value: Any, old: Any = ABSENT, path: str = ""
) -> Iterator[FieldError]:
    """Every rule at and below ``node`` that ``value`` breaks; ``old`` is what it replaces."""
    if value is None or (old is not ABSENT and value == old):
        return
    if node.rules:
        yield from _broken_here(node, value, old, path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for name, part in value.items():
            below, shown = node.fields.get(name), f"{path}.{name}"
            if below is None and node.values:
                below, shown = node.values, f"{path}[{name}]"
            if below is not None:
                yield from broken_rules(below, part, before.get(name, ABSENT), shown)
    elif isinstance(value, list) and node.entries:
        for index, entry in enumerate(value):
            earlier = _counterpart(entry, old, node.schema)
            yield from broken_rules(node.entries, entry, earlier, f"{path}[{index}]")


def _counterpart(entry: Any, old: Any, schema: Schema) -> Any:
    """The entry of the old list that ``entry`` replaces; known only for lists with keys."""
    if schema.get("x-kubernetes-list-type") != "map" or not isinstance(old, list):
        return ABSENT
    keys = schema.get("x-kubernetes-list-map-keys") or []
    same = (e for e in old if isinstance(e, dict) and all(e.get(k) == entry.get(k) for k in keys))
    return next(same, ABSENT)


def _broken_here(node: RuleNode, value: Any, old: Any, path: str) -> Iterator[FieldError]:
    current = _seen(value, node)
    before = None if old is ABSENT or old is None else _seen(old, node)
    for rule in node.rules:
        variables = {"self": current}
        if rule.optional_old:
            known = cel.OptionalValue.none() if before is None else cel.OptionalValue.of(before)
            variables["oldSelf"] = known
        elif before is not None:
            variables["oldSelf"] = before
        elif rule.is_transition:
            continue
        fault = _fault(rule, variables)
        if fault is not None:
            yield _refusal(rule, fault, path, node.schema.get("type") or "")


def _seen(value: Any, node: RuleNode) -> Any:
    if not node.is_root:
        return cel_value(value, node.schema)
    names = {k: v for k, v in value["metadata"].items() if k in ("name", "generateName")}
    return cel_value({**value, "metadata": names}, node.schema)


def _fault(rule: Rule, variables: dict[str, Any]) -> str | None:
    """The error text; None when the rule holds."""
    context = cel.Context(variables, rule.functions)
    try:
        holds = rule.program.execute(context)
    except FAILURES as error:
        return f"{_reason(error)} evaluating rule: {rule.text}"
    if holds is True:
        return None
    return _explained(rule, context) if holds is False else f"must be true or false: {rule.text}"


def _explained(rule: Rule, context: cel.Context) -> str:
    if rule.explains is None:
        return rule.message
    try:
        text = rule.explains.execute(context)
    except FAILURES:
        return rule.message
    good = isinstance(text, str) and text.strip() and "\n" not in text.strip()
    return text.strip() if good and len(text) <= LONGEST_MESSAGE else rule.message


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"no such key: {error.args[0]}"
    # The rest of the library's text is advice for its callers.
    return str(error).partition(". Check function arguments")[0].partition(": the operation is")[0]


def _refusal(rule: Rule, fault: str, path: str, kind: str) -> FieldError:
    field = f"{path}{rule.field_path}".removeprefix(".") or ROOT
    if rule.reason == "FieldValueForbidden":
        return forbidden_field(field, fault)
    if rule.reason == "FieldValueRequired":
        return required(field, fault)
    if rule.reason == "FieldValueDuplicate":
        return duplicate_value(field, kind)
    return invalid_value(field, kind, fault)
