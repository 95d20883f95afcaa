"""The structural schema of a model: what a CustomResourceDefinition holds and ``kubectl explain`` shows.

pydantic writes JSON Schema (references, ``null``, titles); API servers take a narrower dialect (apiextensions v1), in
which every node has its type in place. What may go wrong: a declaration that the dialect cannot say, such as a union of
two objects; that raises ValueError with the field, when CRDs are generated, never when an object is read.
"""

from __future__ import annotations

import ast
import copy
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
"""The dialect has no room for these; readers of objects still check the names of maps."""
SPEC_IDS = re.compile(r" ?\((?:[A-Z]+-\d+(?:, |\.\.)?)+\)")
"""``(NP-02, NP-03)`` at the end of a docstring tells developers something, and users nothing."""
LARGEST_INT32 = 2**31 - 1
NOT_OURS = frozenset({"builtins", "pydantic"})
"""Packages whose classes describe no field of ours."""
DEEPEST = 40
"""No kind nests this deep: a model that contains itself does."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The schema of ``model``, complete in itself. Raises ValueError with the field that the dialect cannot say."""
    declared = model.model_json_schema(by_alias=True, schema_generator=_Declared)
    return _node(declared, declared.get("$defs", {}), ())


class _Declared(GenerateJsonSchema):
    """pydantic's schema with what only the class of an object knows: its rules, and whether it is open."""

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
    """The string below each attribute of a class and of those it stands on, by the attribute's name.

    pydantic can do that itself, for every class when it is imported: a sixth of what ``dovetail validate`` takes.
    """
    found: dict[str, str] = {}
    for one in reversed(model.__mro__):
        if one.__module__.partition(".")[0] not in NOT_OURS:
            found |= _docstrings_of(one)
    return found


def _docstrings_of(one: type) -> dict[str, str]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(one))).body
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(said.value.value)
        for field, said in itertools.pairwise(body.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(said, ast.Expr)
        and isinstance(said.value, ast.Constant)
        and isinstance(said.value.value, str)
    }


def _node(declared: Schema, definitions: Schema, at: Path) -> Schema:
    """One node and everything below it."""
    if len(at) > DEEPEST:
        raise ValueError(f"{field_text(at)}: is nested too deeply; does a model contain itself?")
    said = _in_place(declared, definitions)
    node = {name: copy.deepcopy(said[name]) for name in said.keys() & KEPT}
    node |= {name: copy.deepcopy(said[name]) for name in said if name.startswith(EXTENSION)}
    node |= dict(_united(said, at))
    node |= dict(_children(said, definitions, at))
    node |= dict(_values(said))
    _refuse_unknown(said, at)
    if not node.keys() & {"type", INT_OR_STRING}:
        node[PRESERVE] = True
    return node


def _in_place(declared: Schema, definitions: Schema) -> Schema:
    """Without reference and ``null``; what is said at the field wins over what is said at its type."""
    said = {name: value for name, value in declared.items() if name != "$defs"}
    while True:
        options = [one for one in said.get("anyOf", ()) if one != {"type": "null"}]
        if "$ref" in said:
            target = definitions[said.pop("$ref").removeprefix("#/$defs/")]
        elif len(options) == 1:
            del said["anyOf"]
            (target,) = options
        else:
            return {**said, "anyOf": options} if options else said
        said = {**target, **said}


def _united(said: Schema, at: Path) -> Iterator[tuple[str, Any]]:
    """The one union that the dialect knows."""
    if "anyOf" not in said:
        return
    if {one.get("type") for one in said["anyOf"]} != {"integer", "string"}:
        raise ValueError(f"{field_text(at)}: a structural schema cannot say a union of these types")
    yield "anyOf", [{"type": "integer"}, {"type": "string"}]
    yield INT_OR_STRING, True


def _children(said: Schema, definitions: Schema, at: Path) -> Iterator[tuple[str, Any]]:
    if "properties" in said:
        fields = said["properties"].items()
        yield "properties", {name: _node(one, definitions, (*at, name)) for name, one in fields}
    if "items" in said:
        yield "items", _node(said["items"], definitions, (*at, 0))
    values = said.get("additionalProperties")
    if values is True or values == {}:
        yield PRESERVE, True
    elif values:
        yield "additionalProperties", _node(values, definitions, (*at, "*"))


def _values(said: Schema) -> Iterator[tuple[str, Any]]:
    """Texts, constants, defaults, open bounds and the width of integers."""
    if said.get("description"):
        yield "description", _one_line(SPEC_IDS.sub("", said["description"]))
    if "const" in said:
        yield "enum", [said["const"]]
    default = _without_nothing(said.get("default"))
    if not _is_nothing(default):
        yield "default", default
    for bound, opened in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if opened in said:
            yield bound, said[opened]
            yield opened, True
    if said.get("type") == "integer":
        yield (
            "format",
            "int32" if said.get("maximum", LARGEST_INT32 + 1) <= LARGEST_INT32 else "int64",
        )


def _without_nothing(default: Any) -> Any:
    """A default without the parts that mean "absent" to a reader, in which an API server would find a wrong type."""
    if isinstance(default, dict):
        parts = {name: _without_nothing(part) for name, part in default.items()}
        return {name: part for name, part in parts.items() if not _is_nothing(part)}
    return [_without_nothing(part) for part in default] if isinstance(default, list) else default


def _is_nothing(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _refuse_unknown(said: Schema, at: Path) -> None:
    known = KEPT | CONVERTED | DROPPED
    strange = sorted(name for name in said if name not in known and not name.startswith(EXTENSION))
    if strange:
        raise ValueError(f"{field_text(at)}: a structural schema cannot say {', '.join(strange)}")


def _one_line(text: str) -> str:
    return " ".join(text.split())
