"""The structural schema of a model, for a CustomResourceDefinition and ``kubectl explain``.

pydantic generates JSON Schema (references, ``null``, titles); API servers accept a narrower dialect (apiextensions v1),
in which every node has its type in place. A declaration that the dialect cannot express, such as a union of two
objects, raises ValueError with the field when CRDs are generated, never when an object is read.
"""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import ModelSchema

from shared.api.faults import Path, field_text

Schema = dict[str, Any]

EXTENSION = "x-kubernetes-"
INT_OR_STRING = "x-kubernetes-int-or-string"
PRESERVE = "x-kubernetes-preserve-unknown-fields"
VALIDATIONS = "x-kubernetes-validations"
KEPT = frozenset(
    [
        "type",
        "format",
        "enum",
        "pattern",
        "minimum",
        "maximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "required",
    ]
)
CONVERTED = frozenset(
    [
        "description",
        "properties",
        "items",
        "additionalProperties",
        "const",
        "default",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "anyOf",
    ]
)
DROPPED = frozenset({"title", "propertyNames", "examples", "deprecated"})
"""Keywords that the dialect lacks; the models still check the names of maps."""
SPEC_IDS = re.compile(r" ?\((?:[A-Z]+-\d+(?:, |\.\.)?)+\)")
"""Spec ids such as ``(NP-02, NP-03)`` in a docstring, which are removed from descriptions for users."""
LARGEST_INT32 = 2**31 - 1
NOT_OURS = frozenset({"builtins", "pydantic"})
"""Packages whose classes declare none of our fields."""
DEEPEST = 40
"""Levels; only a model that contains itself is deeper."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The schema of ``model`` without references. Raises ValueError with a field that the dialect cannot express."""
    declared = model.model_json_schema(by_alias=True, schema_generator=_Declared)
    return _node(declared, declared.get("$defs", {}), ())


class _Declared(GenerateJsonSchema):
    """pydantic's schema with attribute docstrings, CEL rules and the preservation of unknown fields added."""

    def model_schema(self, schema: ModelSchema) -> Schema:
        model = schema["cls"]
        described = attribute_docstrings(model)
        rules = [rule for rule in getattr(model, "RULES", ()) if rule.cel]
        found: Schema = dict(super().model_schema(schema))
        for name, text in described.items():
            field = model.model_fields.get(name)
            if field is not None:
                found["properties"][field.alias or name].setdefault("description", text)
        if rules:
            found[VALIDATIONS] = [{"rule": r.cel, "message": _one_line(r.message)} for r in rules]
        if getattr(model, "PRESERVE_UNKNOWN", False):
            found[PRESERVE] = True
        return found


def attribute_docstrings(model: type) -> dict[str, str]:
    """The docstring below each attribute of a class and of its base classes, by the attribute's name.

    pydantic's own option does this for every class on import, which takes a sixth of the time of ``dovetail validate``.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one.__module__.partition(".")[0] not in NOT_OURS:
            found |= _docstrings_of(one)
    return found


@functools.cache
def _docstrings_of(one: type) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(below.value.value)
        for field, below in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
        and isinstance(below.value.value, str)
    }


def _node(declared: Schema, definitions: Schema, at: Path) -> Schema:
    """One node and everything below it."""
    if len(at) > DEEPEST:
        raise ValueError(f"{field_text(at)}: is nested too deeply; does a model contain itself?")
    resolved = _in_place(declared, definitions)
    node = {name: copy.deepcopy(resolved[name]) for name in resolved if name in KEPT}
    node |= {name: copy.deepcopy(resolved[name]) for name in resolved if name.startswith(EXTENSION)}
    node |= dict(_united(resolved, at))
    node |= dict(_children(resolved, definitions, at))
    node |= dict(_values(resolved))
    _refuse_unknown(resolved, at)
    if not node.keys() & {"type", INT_OR_STRING}:
        node[PRESERVE] = True
    return node


def _in_place(declared: Schema, definitions: Schema) -> Schema:
    """The schema with references and ``null`` resolved; keywords of the field override those of its type."""
    resolved = {name: value for name, value in declared.items() if name != "$defs"}
    while True:
        options = [one for one in resolved.get("anyOf", ()) if one != {"type": "null"}]
        if "$ref" in resolved:
            target = definitions[resolved.pop("$ref").removeprefix("#/$defs/")]
        elif len(options) == 1:
            del resolved["anyOf"]
            (target,) = options
        else:
            return {**resolved, "anyOf": options} if options else resolved
        resolved = {**target, **resolved}


def _united(resolved: Schema, at: Path) -> Iterator[tuple[str, Any]]:
    """The only union that the dialect allows: integer or string."""
    if "anyOf" not in resolved:
        return
    if {one.get("type") for one in resolved["anyOf"]} != {"integer", "string"}:
        raise ValueError(
            f"{field_text(at)}: a structural schema cannot express a union of these types"
        )
    yield "anyOf", [{"type": "integer"}, {"type": "string"}]
    yield INT_OR_STRING, True


def _children(resolved: Schema, definitions: Schema, at: Path) -> Iterator[tuple[str, Any]]:
    if "properties" in resolved:
        fields = resolved["properties"].items()
        yield "properties", {name: _node(one, definitions, (*at, name)) for name, one in fields}
    if "items" in resolved:
        yield "items", _node(resolved["items"], definitions, (*at, 0))
    values = resolved.get("additionalProperties")
    if values is True or values == {}:
        yield PRESERVE, True
    elif values:
        yield "additionalProperties", _node(values, definitions, (*at, "*"))


def _values(resolved: Schema) -> Iterator[tuple[str, Any]]:
    """Descriptions, constants, defaults, exclusive bounds and integer formats."""
    if resolved.get("description"):
        yield "description", _one_line(SPEC_IDS.sub("", resolved["description"]))
    if "const" in resolved:
        yield "enum", [resolved["const"]]
    default = _without_nothing(resolved.get("default"))
    if not _is_nothing(default):
        yield "default", default
    for bound, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if opened in resolved:
            yield bound, resolved[opened]
            yield opened, True
    if resolved.get("type") == "integer":
        yield (
            "format",
            "int32" if resolved.get("maximum", LARGEST_INT32 + 1) <= LARGEST_INT32 else "int64",
        )


def _without_nothing(default: Any) -> Any:
    """``default`` without its empty parts, for which an API server would report a wrong type."""
    if isinstance(default, dict):
        parts = {name: _without_nothing(part) for name, part in default.items()}
        return {name: part for name, part in parts.items() if not _is_nothing(part)}
    return [_without_nothing(part) for part in default] if isinstance(default, list) else default


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _refuse_unknown(resolved: Schema, at: Path) -> None:
    known = KEPT | CONVERTED | DROPPED
    strange = sorted(
        name for name in resolved if name not in known and not name.startswith(EXTENSION)
    )
    if strange:
        raise ValueError(
            f"{field_text(at)}: a structural schema cannot express {', '.join(strange)}"
        )


def _one_line(text: str) -> str:
    return " ".join(text.split())
