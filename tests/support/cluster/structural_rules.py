"""What an API server refuses in the schema of a CustomResourceDefinition, as far as we can come near it.

The words are those of apiextensions v1: structural schemas, their defaults, and CEL rules that type-check and are
cheap enough to run. Each function yields one sentence for every node at fault.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import cel

from local.cluster.crd.schemas import Validator, prune
from shared.api.crd.structural import INT_OR_STRING, PRESERVE, VALIDATIONS

Schema = dict[str, Any]

ALLOWED = {
    *("type", "format", "description", "default", "enum", "pattern", "required", "nullable"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("properties", "additionalProperties", "items", "anyOf"),
    *(INT_OR_STRING, PRESERVE, VALIDATIONS),
    *("x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type"),
}
TYPES = {"object", "array", "string", "integer", "number", "boolean"}
EITHER = [{"type": "integer"}, {"type": "string"}]
BOUND_OF = {"array": "maxItems", "object": "maxProperties", "string": "maxLength"}
NAMED = re.compile(r"\bself((?:\.[A-Za-z_]\w*)+)(\()?")
PRESENCE = re.compile(r"\bhas\([^()]*\)")
RESERVED = re.compile(
    r"\bself\.(?:\w+\.)*(true|false|null|in|as|break|const|continue|else|for|function|if|import|let|loop|package"
    r"|namespace|return|var|void|while)\b"
)
ACROSS_TIME = "oldSelf"
MATCHES = re.compile(r"\b(self[.\w]*)\.matches\('([^']*)'\)")
COST_LIMIT = 10_000_000
"""What a rule may cost, by the API server's estimate, over all entries of the lists and maps around it."""


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node with its path, the root first."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".removeprefix("."))
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}.*")


def structure_faults(schema: Schema) -> Iterator[str]:
    """Nodes that are not structural."""
    for path, node in nodes(schema):
        yield from (f"{path}: {fault}" for fault in _node_faults(node))


def _node_faults(node: Schema) -> Iterator[str]:
    if strange := sorted(node.keys() - ALLOWED):
        yield f"has {', '.join(strange)}"
    kind = node.get("type")
    if kind not in TYPES and not node.keys() & {INT_OR_STRING, PRESERVE}:
        yield "has no type"
    if node.get("anyOf", EITHER) != EITHER or ("anyOf" in node) != (INT_OR_STRING in node):
        yield "has a union"
    if {"properties", "additionalProperties"} <= node.keys():
        yield "is a map and an object with fields"
    if ("items" in node) != (kind == "array"):
        yield "is a list without entries, or entries without a list"
    if strange := sorted({*node.get("required", ())} - node.get("properties", {}).keys()):
        yield f"requires {', '.join(strange)}, which it has not"
    yield from _bound_faults(node)


def _bound_faults(node: Schema) -> Iterator[str]:
    for bound, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if opened in node and (node[opened] is not True or bound not in node):
            yield f"has {opened} that is no mark of {bound}"
    if re.search(r"\(\?[=!<]|\\[1-9]", node.get("pattern", "")):
        yield "has a pattern that RE2 does not know"


def default_faults(schema: Schema) -> Iterator[str]:
    """Defaults that the schema itself refuses or would cut."""
    for path, node in nodes(schema):
        if "default" in node:
            errors = [
                str(error) for error in Validator({**node, "default": None}).errors(node["default"])
            ]
            _, dropped = prune(node["default"], node, root=False)
            yield from (f"{path}: {problem}" for problem in (*errors, *dropped))


def rule_faults(schema: Schema) -> Iterator[str]:
    """CEL that does not compile, names no field, or looks back where an API server cannot."""
    for path, node in nodes(schema):
        for rule in node.get(VALIDATIONS, ()):
            yield from (
                f"{path}: {rule['rule']}: {fault}" for fault in _rule_faults(rule, node, path)
            )


def _rule_faults(rule: dict[str, str], node: Schema, path: str) -> Iterator[str]:
    try:
        cel.compile(rule["rule"])
    except ValueError as error:
        yield str(error)
    if RESERVED.search(rule["rule"]):
        yield "a reserved word must be written as __word__"
    if ACROSS_TIME in rule["rule"] and "[]" in path:
        yield "entries of a list cannot be compared with what they were"
    for text, target in _named(rule["rule"], node):
        if target is None:
            yield f"self{text} is no field"


def cost_faults(schema: Schema) -> Iterator[str]:
    """Lists, maps and texts without a bound that a rule walks, or that hold the object it is run on."""
    for path, node in nodes(schema):
        for rule in node.get(VALIDATIONS, ()):
            yield from (f"{path}: {fault}" for fault in _around(schema, path))
            walked = _named(PRESENCE.sub("", rule["rule"]), node)
            yield from (f"{path}{text}: no bound" for text, at in walked if at and _open(at))
            if (
                cost := _cost_of_patterns(rule["rule"], node) * _entries(schema, path)
            ) > COST_LIMIT:
                yield f"{path}: patterns cost {cost}, more than {COST_LIMIT}"


def _cost_of_patterns(rule: str, node: Schema) -> int:
    """For patterns alone: a tenth of the text's bytes, four to a character, by a quarter of the pattern."""
    cost = 0
    for text, pattern in MATCHES.findall(rule):
        ((_, target),) = _named(text, node) if "." in text else (("", node),)
        longest = 4 * (target or {}).get("maxLength", 0)
        cost += math.ceil(longest / 10) * math.ceil(len(pattern) / 4)
    return cost


def _entries(schema: Schema, path: str) -> int:
    """How often a rule at ``path`` is run at most, where every list and map around it has a bound."""
    counts = [
        node.get(BOUND_OF[node["type"]], 1)
        for above, node in nodes(schema)
        if path.startswith((f"{above}[]", f"{above}.*"))
    ]
    return math.prod(counts)


def _around(schema: Schema, path: str) -> Iterator[str]:
    for above, node in nodes(schema):
        inside = path.startswith((f"{above}[]", f"{above}.*"))
        if inside and _open(node):
            yield f"is run for every entry of {above}, which has no bound"


def _open(node: Schema) -> bool:
    kind = node.get("type", "")
    if kind == "object" and "additionalProperties" not in node:
        return False
    return kind in BOUND_OF and BOUND_OF[kind] not in node and "enum" not in node


def _named(rule: str, node: Schema) -> Iterator[tuple[str, Schema | None]]:
    """The fields that ``self.a.b`` in the rule names; None where there is no such field."""
    for text, call in NAMED.findall(rule):
        names = text.split(".")[1:]
        names = names[:-1] if call else names
        target: Schema | None = node
        for name in names:
            if (
                target is not None
                and "properties" not in target
                and "additionalProperties" in target
            ):
                target = target["additionalProperties"]
            elif target is not None:
                target = target.get("properties", {}).get(name)
        yield text, target
