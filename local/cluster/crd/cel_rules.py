"""Compiles the rules of a schema and finds their errors when a definition is stored.

The library parses without type checks. Other errors that a real server finds are searched in the text as far as
possible: unknown functions and variables, fields of ``self`` that the schema does not have, ``oldSelf`` where no old
value exists. A rule that compares a number with text is refused by a real server with the definition, and here only
when it runs. Refused because the library cannot run them: optional fields (``self.?a``, ``[?0]``), comprehensions with
two variables, ``cel.bind`` and ``optMap``. Kubernetes' limits on the cost of rules are not computed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import cel

from local.cluster.api.errors import FieldError, invalid_value, required, unsupported_value
from local.cluster.crd.cel import REASONS, Rule, RuleNode
from local.cluster.crd.cel_values import Schema, escaped
from shared.domain.devices.cel_functions import FUNCTIONS, NAMES

RULES = "x-kubernetes-validations"
_TEXTS = ("rule", "message", "messageExpression", "fieldPath", "reason")


@dataclass(frozen=True)
class _Place:
    """A position in a definition. ``correlated``: old and new values can be matched here."""

    path: str
    is_root: bool = False
    correlated: bool = True

    def below(self, part: str, *, correlated: bool = True) -> _Place:
        return _Place(f"{self.path}.{part}", correlated=self.correlated and correlated)


def compile_rules(schema: Schema, path: str) -> tuple[RuleNode | None, list[FieldError]]:
    """The rules in ``schema`` (None: there are none) and their errors, with fields below ``path``."""
    errors: list[FieldError] = []
    return _node(schema, _Place(path, is_root=True), errors), errors


def _node(schema: Schema, place: _Place, errors: list[FieldError]) -> RuleNode | None:
    fields = {
        name: _node(part, place.below(f"properties[{name}]"), errors)
        for name, part in (schema.get("properties") or {}).items()
    }
    kept = {name: node for name, node in fields.items() if node is not None}
    additional, items = schema.get("additionalProperties"), schema.get("items")
    values = entries = None
    if isinstance(additional, dict):
        values = _node(additional, place.below("additionalProperties"), errors)
    if isinstance(items, dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        entries = _node(items, place.below("items", correlated=keyed), errors)
    rules = tuple(_rules(schema, place, errors))
    if not (rules or kept or values or entries):
        return None
    return RuleNode(schema, place.is_root, rules, kept, values, entries)


def _rules(schema: Schema, place: _Place, errors: list[FieldError]) -> Iterator[Rule]:
    written = schema.get(RULES) or []
    if not isinstance(written, list):
        errors.append(invalid_value(f"{place.path}.{RULES}", written, "must be a list of rules"))
        return
    for index, entry in enumerate(written):
        at = f"{place.path}.{RULES}[{index}]"
        if not isinstance(entry, dict) or not all(
            isinstance(entry.get(n, ""), str) for n in _TEXTS
        ):
            errors.append(invalid_value(at, entry, "must be an object whose fields are text"))
            continue
        found = list(_rule_errors(entry, schema, at, place))
        errors += found
        if not found:
            yield _rule(entry)


def _rule(entry: Mapping[str, Any]) -> Rule:
    text, program = entry["rule"].strip(), _program(entry["rule"].strip())
    optional = bool(entry.get("optionalOldSelf"))
    explains = (
        _program(entry["messageExpression"].strip()) if entry.get("messageExpression") else None
    )
    called = {*program.functions(), *(explains.functions() if explains else ())}
    return Rule(
        program,
        {name: do for name, do in FUNCTIONS.items() if name.rpartition(".")[2] in called},
        (entry.get("message") or text).strip(),
        (entry.get("message") or f"failed rule: {text}").strip(),
        explains,
        _appended(entry.get("fieldPath") or ""),
        entry.get("reason") or REASONS[0],
        optional,
        "oldSelf" in program.variables() and not optional,
    )


def _rule_errors(
    entry: Mapping[str, Any], schema: Schema, at: str, place: _Place
) -> Iterator[FieldError]:
    """The errors of one rule that a real server would report."""
    text, explains, path = (entry.get(n) or "" for n in ("rule", "messageExpression", "fieldPath"))
    if not text.strip():
        yield required(f"{at}.rule", "rule is not specified")
    else:
        yield from _expression_errors(f"{at}.rule", text, schema, place)
        if _mentions_old(text) and not place.correlated:
            why = "oldSelf cannot be used on the uncorrelatable portion of the schema"
            yield invalid_value(f"{at}.rule", text, why)
    if explains:
        yield from _expression_errors(f"{at}.messageExpression", explains, schema, place)
    if "\n" in entry.get("message", "").strip():
        yield invalid_value(
            f"{at}.message", entry["message"], "message must not contain line breaks"
        )
    if entry.get("reason") not in (None, *REASONS):
        yield unsupported_value(f"{at}.reason", entry["reason"], list(REASONS))
    if path and not _leads_somewhere(path, schema):
        yield invalid_value(f"{at}.fieldPath", path, "fieldPath must be a valid path")


def _expression_errors(
    field: str, text: str, schema: Schema, place: _Place
) -> Iterator[FieldError]:
    try:
        program = _program(text.strip())
    except ValueError as error:
        why = str(error).partition(": ")[2] or str(error)
        yield invalid_value(field, text, f"compilation failed: {why}")
        return
    for name in _undeclared(text, program):
        yield invalid_value(field, text, f"compilation failed: undeclared reference to '{name}'")
    for name in _undefined(text, schema, is_root=place.is_root):
        yield invalid_value(field, text, f"compilation failed: undefined field '{name}'")


@lru_cache(maxsize=2048)
def _program(text: str) -> cel.Program:
    """The compiled text, cached because a definition is compiled several times while it is stored. Raises ValueError
    for a syntax error.
    """
    return cel.compile(text)


def _mentions_old(text: str) -> bool:
    try:
        return "oldSelf" in _program(text.strip()).variables()
    except ValueError:
        return False


_LITERAL = re.compile(r'"""(?s:.*?)"""|\'\'\'(?s:.*?)\'\'\'|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_BOUND = re.compile(r"\.\s*(?:all|exists|exists_one|filter|map)\s*\(\s*(\w+)\s*,")
_SELECTED = re.compile(r"(?<![\w.])self((?:\s*\.\s*[A-Za-z_]\w*(?!\w|\s*\())+)")
_TYPES = {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"}
_KNOWN = {"self", "oldSelf", "optional", "sets", "strings", *_TYPES}


def _without_literals(text: str) -> str:
    return _LITERAL.sub('""', text)


def _undeclared(text: str, program: cel.Program) -> list[str]:
    """Names of unknown variables and functions, which the library would report only when the rule runs."""
    bound = set(_BOUND.findall(_without_literals(text)))
    variables = set(program.variables()) - bound - _KNOWN
    functions = {name for name in program.functions() if name[0].isalpha()} - NAMES
    return sorted(variables | functions)


def _undefined(text: str, schema: Schema, *, is_root: bool) -> list[str]:
    """Fields that rules select from ``self`` and that the schema does not have."""
    missing = []
    for chain in _SELECTED.findall(_without_literals(text)):
        node: Schema | None = _with_object_fields(schema) if is_root else schema
        for name in re.findall(r"\w+", chain):
            if node is None:
                break
            known = {escaped(n): part for n, part in (node.get("properties") or {}).items()}
            if name not in known and _is_closed(node):
                missing.append(name)
            additional = node.get("additionalProperties")
            node = known.get(name, additional if isinstance(additional, dict) else None)
    return missing


def _is_closed(schema: Schema) -> bool:
    is_open = schema.get("additionalProperties") or schema.get(
        "x-kubernetes-preserve-unknown-fields"
    )
    return bool(schema.get("type")) and not is_open


def _with_object_fields(schema: Schema) -> Schema:
    # Rules can read only the name of the metadata.
    text: Schema = {"type": "string"}
    metadata = {"type": "object", "properties": {"name": text, "generateName": text}}
    outer = {"apiVersion": text, "kind": text, "metadata": metadata}
    return {**schema, "properties": {**(schema.get("properties") or {}), **outer}}


_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]")


def _leads_somewhere(path: str, schema: Schema) -> bool:
    if "".join(m[0] for m in _STEP.finditer(path)) != path:
        return False
    node: Any = schema
    for dotted, quoted in _STEP.findall(path):
        additional = node.get("additionalProperties")
        node = (node.get("properties") or {}).get(dotted or quoted, additional)
        if not isinstance(node, dict):
            return False
    return True


def _appended(path: str) -> str:
    """A fieldPath as it is appended to the path of its rule."""
    return _STEP.sub(lambda step: f".{step[1]}" if step[1] else f"[{step[2]}]", path)
