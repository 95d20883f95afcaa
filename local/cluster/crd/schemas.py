"""Structural schemas of custom resources: pruning, defaulting, validation.

``openAPIV3Schema`` is translated once into JSON Schema (``nullable``, ``x-kubernetes-int-or-string``, boolean exclusive
bounds) and checked with jsonschema; pruning and defaulting use the original, as in apiextensions' ``schema/pruning``
and ``schema/defaulting``. Rules (``x-kubernetes-validations``) are evaluated in ``cel.py`` after the schema itself is
satisfied. An update is not refused for a value that it does not change (ratcheting), so an object older than its schema
can still be labelled and deleted. Go's RE2 and Python's ``re`` differ in rare cases of ``pattern``; a pattern that
Python cannot compile is ignored.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from typing import Any, cast

import jsonschema

from local.cluster.api.errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    required,
    too_long,
    too_many,
    unsupported_value,
    wrong_type,
)
from local.cluster.crd.cel import ABSENT, ROOT, broken_rules
from local.cluster.crd.cel_rules import compile_rules

Schema = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
INT_OR_STRING = "x-kubernetes-int-or-string"
EMBEDDED = "x-kubernetes-embedded-resource"
OBJECT_FIELDS = ("apiVersion", "kind", "metadata")
COPIED = (
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "required",
)


def prune(
    value: Any, schema: Schema, path: str = "", *, root: bool = True
) -> tuple[Any, list[str]]:
    """``value`` without fields that the schema does not know, and the paths of those fields."""
    if isinstance(value, list):
        return _pruned_list(value, schema.get("items") or {}, path)
    if not isinstance(value, dict):
        return value, []
    kept: dict[str, Any] = {}
    dropped: list[str] = []
    for name, entry in value.items():
        below = f"{path}.{name}" if path else name
        part = _field_schema(schema, name)
        if (root or schema.get(EMBEDDED)) and name in OBJECT_FIELDS:
            kept[name] = entry
        elif part is not None:
            kept[name], lost = prune(entry, part, below, root=False)
            dropped += lost
        elif schema.get(PRESERVE):
            kept[name] = entry
        else:
            dropped.append(below)
    return kept, dropped


def _pruned_list(values: list[Any], schema: Schema, path: str) -> tuple[list[Any], list[str]]:
    if _are_scalars(values):
        return values, []
    pairs = [prune(v, schema, f"{path}[{i}]", root=False) for i, v in enumerate(values)]
    return [kept for kept, _ in pairs], [lost for _, dropped in pairs for lost in dropped]


def _are_scalars(values: list[Any]) -> bool:
    """Whether the values need no pruning or defaults; a machine names 600 instance types, so the check saves time."""
    return not any(isinstance(value, (dict, list)) for value in values)


def _field_schema(schema: Schema, name: str) -> Schema | None:
    found = (schema.get("properties") or {}).get(name)
    if found is not None:
        return cast("Schema", found)
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        return additional
    return {PRESERVE: True} if additional is True else None


def with_defaults(value: Any, schema: Schema) -> Any:
    """``value`` with every missing field that has a ``default``, at any depth.

    A null that the schema does not allow counts as missing: a real server drops it before any other step.
    """
    if isinstance(value, list):
        if _are_scalars(value):
            return value
        return [with_defaults(entry, schema.get("items") or {}) for entry in value]
    if not isinstance(value, dict):
        return value
    filled = {name: entry for name, entry in value.items() if not _is_missing(name, entry, schema)}
    for name, part in (schema.get("properties") or {}).items():
        if name not in filled and "default" in part:
            filled[name] = copy.deepcopy(part["default"])
    for name, entry in filled.items():
        if isinstance(entry, (dict, list)) and (part := _field_schema(schema, name)) is not None:
            filled[name] = with_defaults(entry, part)
    return filled


def _is_missing(name: str, entry: Any, schema: Schema) -> bool:
    if entry is not None:
        return False
    additional = schema.get("additionalProperties")
    part = (schema.get("properties") or {}).get(name, additional)
    return isinstance(part, dict) and not part.get("nullable")


def translated(schema: Schema) -> Schema:
    """The JSON Schema (2020-12) that accepts what this structural schema accepts."""
    result: Schema = {name: schema[name] for name in COPIED if name in schema}
    if "pattern" in result and not _compiles(result["pattern"]):
        del result["pattern"]
    if schema.get(INT_OR_STRING):
        result["type"] = ["integer", "string"]
    elif schema.get("type"):
        result["type"] = [schema["type"]]
    if schema.get("nullable") and "type" in result:
        result["type"] = [*result["type"], "null"]
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(name) is True and bound in result:
            result[name] = result.pop(bound)
    _translate_parts(schema, result)
    return result


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _translate_parts(schema: Schema, result: Schema) -> None:
    if "properties" in schema:
        result["properties"] = {n: translated(p) for n, p in schema["properties"].items()}
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            result[name] = translated(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        if name in schema and not schema.get(INT_OR_STRING):
            result[name] = [translated(part) for part in schema[name]]


def check_schema(schema: Schema) -> None:
    """Raises jsonschema.SchemaError, TypeError or AttributeError for an invalid schema. Slow: call it once per
    definition.
    """
    jsonschema.Draft202012Validator.check_schema(translated(schema))


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """The keyword ``items``. Valid texts are recognized without one validator per entry."""
    if not (
        isinstance(instance, list)
        and set(map(type, instance)) <= {str}
        and _are_valid_texts(instance, items)
    ):
        yield from _GENERAL_ITEMS(validator, items, instance, schema)


def _are_valid_texts(texts: list[str], schema: Any) -> bool:
    """Whether all texts are certainly valid; False for a schema with more than the usual keywords of texts."""
    if not schema.keys() <= {"type", "maxLength", "minLength", "pattern"}:
        return False
    if "string" not in schema.get("type", ("string",)):
        return False
    shortest, longest = min(map(len, texts), default=0), max(map(len, texts), default=0)
    if texts and shortest < schema.get("minLength", 0):
        return False
    if longest > schema.get("maxLength", longest):
        return False
    pattern = schema.get("pattern")
    return pattern is None or all(map(re.compile(pattern).search, texts))


_GENERAL_ITEMS = jsonschema.Draft202012Validator.VALIDATORS["items"]
_Checker = jsonschema.validators.extend(  # type: ignore[no-untyped-call]
    jsonschema.Draft202012Validator, {"items": _items}
)


class Validator:
    """Checks objects against one structural schema.

    Invalid rules are left out: the code that stores a definition reports ``rule_errors``, whose fields begin at
    ``path``, after ``check_schema``.
    """

    def __init__(self, schema: Schema, path: str = "") -> None:
        self._schema = schema
        whole = translated(schema)
        parts = whole.pop("properties", {})
        self._checker = _Checker({**whole, "properties": dict.fromkeys(parts, True)})
        self._parts = {name: _Checker(part) for name, part in parts.items()}
        self._rules, self.rule_errors = compile_rules(schema, path)

    def errors(self, document: dict[str, Any], old: Any = ABSENT) -> list[FieldError]:
        """All errors of ``document``, which replaces ``old``, in order of the fields' paths."""
        found = [
            error
            for problem in self._problems(document, old)
            if not _unchanged(document, old, problem.absolute_path)
            for error in _field_errors(problem)
        ]
        found += list(_duplicates(document, self._schema, ""))
        found.sort(key=lambda error: error.field)
        if self._rules is None:
            return found
        if any(error.reason in SHAPELESS for error in found):
            return [*found, invalid_value(ROOT, None, UNCHECKED)]
        return [*found, *broken_rules(self._rules, document, old)]

    def _problems(self, document: dict[str, Any], old: Any) -> Iterator[Any]:
        """The object's own errors, then those of its parts; parts that an update does not change are skipped."""
        yield from self._checker.iter_errors(document)
        for name, checker in self._parts.items():
            if name not in document or _unchanged(document, old, [name]):
                continue
            for problem in checker.iter_errors(document[name]):
                problem.path.appendleft(name)
                yield problem


SHAPELESS = {
    "FieldValueRequired",
    "FieldValueNotSupported",
    "FieldValueTooLong",
    "FieldValueTooMany",
    "FieldValueTypeInvalid",
}
"""Errors after which rules are not evaluated: rules rely on types, and their cost on sizes."""
UNCHECKED = (
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation"
)


def _unchanged(document: Any, old: Any, path: Any) -> bool:
    """Whether the value at ``path``, or a value that contains it, is the same in ``old``."""
    for part in path:
        if not isinstance(document, dict) or not isinstance(old, dict):
            break
        document, old = document[part], old.get(part, ABSENT)
    return old is not ABSENT and bool(document == old)


def field_path(parts: Any, *more: str) -> str:
    """A path in Kubernetes' form, such as ``spec.requirements[0].key``."""
    text = ""
    for part in [*parts, *more]:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


BOUNDS = {
    "minimum": "should be greater than or equal to {}",
    "maximum": "should be less than or equal to {}",
    "exclusiveMinimum": "should be greater than {}",
    "exclusiveMaximum": "should be less than {}",
    "minLength": "should be at least {} chars long",
    "minItems": "should have at least {} items",
    "minProperties": "should have at least {} properties",
    "pattern": "should match '{}'",
    "multipleOf": "should be a multiple of {}",
}


def _field_errors(problem: Any) -> Iterator[FieldError]:
    path, rule = field_path(problem.absolute_path), problem.validator
    value, expected = problem.instance, problem.validator_value
    if rule == "required":
        missing = [
            name for name in expected if name not in value and f"'{name}'" in problem.message
        ]
        yield from (required(field_path(problem.absolute_path, name)) for name in missing)
    elif rule == "enum":
        yield unsupported_value(path, value, list(expected))
    elif rule == "type":
        kinds = ",".join(kind for kind in expected if kind != "null")
        shown = _type_name(value)
        yield wrong_type(path, shown, f'{path} in body must be of type {kinds}: "{shown}"')
    elif rule == "maxLength":
        yield too_long(path, expected)
    elif rule in ("maxItems", "maxProperties"):
        yield too_many(path, len(value), expected)
    elif rule in BOUNDS:
        yield invalid_value(path, value, f"{path} in body {BOUNDS[rule].format(expected)}")
    else:
        yield invalid_value(path, value, f"{path} in body must validate the schema ({rule})")


def _type_name(value: Any) -> str:
    names = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return names.get(type(value), "null")


def _duplicates(value: Any, schema: Schema, path: str) -> Iterator[FieldError]:
    if isinstance(value, dict):
        for name, entry in value.items():
            if not isinstance(entry, (dict, list)):
                continue
            part = _field_schema(schema, name)
            if part is not None:
                yield from _duplicates(entry, part, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        yield from _duplicate_entries(value, schema, path)
        if _are_scalars(value):
            return
        for index, entry in enumerate(value):
            yield from _duplicates(entry, schema.get("items") or {}, f"{path}[{index}]")


def _duplicate_entries(values: list[Any], schema: Schema, path: str) -> Iterator[FieldError]:
    kind = schema.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    keys = schema.get("x-kubernetes-list-map-keys") or []
    seen: list[Any] = []
    for index, entry in enumerate(values):
        mark = (
            {key: entry.get(key) for key in keys}
            if kind == "map" and isinstance(entry, dict)
            else entry
        )
        if mark in seen:
            yield duplicate_value(f"{path}[{index}]", mark)
        seen.append(mark)
