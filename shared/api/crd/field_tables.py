"""The field reference in Markdown: fields, types, defaults and limits of every kind, generated from its schema.

Pure; ``deploy/generate_crds.py`` writes ``docs/reference.md`` with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from shared.api.crd.definitions import root_schema
from shared.api.crd.structural import INT_OR_STRING, LARGEST_INT32, PRESERVE, VALIDATIONS, Schema
from shared.api.schema.kinds import KindInfo, Resource
from shared.api.schema.scalars import (
    DURATION_OR_NEVER_PATTERN,
    DURATION_PATTERN,
    QUANTITY_PATTERN,
)

HEAD = """\
<!-- Generated from shared/api/schema by make crds: do not edit. -->
# Field reference

The fields of every kind. `[]` is an entry of a list, `.*` a value of a map; **bold** fields are required if the object
that contains them is present. `kubectl explain KIND.FIELD` shows the same text.
"""
HEADING = "| Field | Type | Default | Meaning |\n|---|---|---|---|\n"
OUTER = ("apiVersion", "kind", "metadata")
KNOWN_PATTERNS = {DURATION_PATTERN: "duration", DURATION_OR_NEVER_PATTERN: "duration or Never"}
LONGEST_PATTERN = 50
"""Characters; longer patterns are not shown, because the description is easier to read."""
SIZES = (
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " entries"),
    ("minProperties", "maxProperties", " entries"),
)


class Field(NamedTuple):
    """One field, with its path below the object."""

    path: str
    schema: Schema
    required: bool


def reference_text(kinds: Iterable[type[Resource]]) -> str:
    """The whole document, LF at the end of every line."""
    listed = list(kinds)
    links = [
        f"- [{kind.INFO.kind}](#{kind.INFO.kind.lower()}), {kind.INFO.api_version}"
        for kind in listed
    ]
    return "\n".join([HEAD, *links, "", *(_chapter(kind) for kind in listed)])


def _chapter(kind: type[Resource]) -> str:
    schema = root_schema(kind)
    found = [field for field in fields_of(schema) if field.path.partition(".")[0] not in OUTER]
    parts = [
        f"## {kind.INFO.kind}\n",
        f"{_prose(schema['description'])}\n",
        f"{_names(kind.INFO)}\n",
        HEADING + "".join(_row(field) for field in found),
    ]
    rules = list(_rules(schema, found))
    if rules:
        parts.append("The API server also checks, on every write:\n\n" + "".join(rules))
    return "\n".join(parts)


def _names(info: KindInfo) -> str:
    names = ", ".join(f"`{name}`" for name in (info.plural, *info.short_names))
    scope = "namespaced" if info.namespaced else "cluster-scoped"
    return f"apiVersion `{info.api_version}`, {scope}; names in kubectl: {names}."


def fields_of(schema: Schema, path: str = "") -> Iterator[Field]:
    """Every field below ``schema``: parents first; within an object required fields first, then by name."""
    required = set(schema.get("required", ()))
    properties = schema.get("properties", {})
    for name in sorted(properties, key=lambda one: (one not in required, one)):
        field = Field(f"{path}.{name}".removeprefix("."), properties[name], name in required)
        yield field
        yield from fields_of(field.schema, field.path)
    if "items" in schema:
        yield from fields_of(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from fields_of(schema["additionalProperties"], f"{path}.*")


def _row(field: Field) -> str:
    path = f"**`{field.path}`**" if field.required else f"`{field.path}`"
    cells = (path, type_words(field.schema), _default(field.schema), _meaning(field.schema))
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(schema: Schema) -> str:
    """The default, or "" for an object, whose fields have their own defaults."""
    default = schema.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{_plain(default)}`"


def _plain(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def type_words(schema: Schema) -> str:
    """``list of string`` rather than the nesting of the schema."""
    if schema.get(INT_OR_STRING):
        return "quantity" if schema.get("pattern") == QUANTITY_PATTERN else "integer or string"
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {type_words(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {type_words(schema['additionalProperties'])}"
    if kind == "object" and schema.get(PRESERVE) and "properties" not in schema:
        return "any object"
    return KNOWN_PATTERNS.get(
        schema.get("pattern", ""), schema.get("format", kind) if kind == "string" else kind
    )


def _meaning(schema: Schema) -> str:
    limits = "; ".join(_limits(schema))
    limits = limits[:1].upper() + limits[1:]
    return " ".join(
        part
        for part in (_prose(schema.get("description", "")), f"{limits}." if limits else "")
        if part
    )


def _prose(text: str) -> str:
    """``text`` with ``<`` escaped, because Markdown treats ``<zone>`` as markup."""
    return text.replace("<", "&lt;")


def _limits(schema: Schema) -> Iterator[str]:
    innermost = schema.get("items") or schema.get("additionalProperties") or {}
    for one, where in ((schema, ""), (innermost, "each ")):
        yield from (where + limit for limit in _own_limits(one))


def _own_limits(schema: Schema) -> Iterator[str]:
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{_plain(value)}`" for value in schema["enum"])
    pattern = schema.get("pattern", "")
    if schema.get(INT_OR_STRING) or pattern in KNOWN_PATTERNS:
        return
    yield from _amounts(schema)
    for least, most, unit in SIZES:
        yield from _between(schema.get(least), schema.get(most), unit)
    if pattern and len(pattern) <= LONGEST_PATTERN:
        yield f"matches `{pattern}`"


def _amounts(schema: Schema) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high == LARGEST_INT32:
        high = None
    if schema.get("exclusiveMinimum"):
        yield f"more than {low}"
        low = None
    if schema.get("exclusiveMaximum"):
        yield f"less than {high}"
        high = None
    yield from _between(low, high, "")


def _between(low: float | None, high: float | None, unit: str) -> Iterator[str]:
    if low is not None and high is not None:
        yield f"{low} to {high}{unit}"
    elif high is not None:
        yield f"at most {high}{unit}"
    elif low == 1 and unit:
        yield "not empty"
    elif low is not None:
        yield f"at least {low}{unit}"


def _rules(schema: Schema, found: Iterable[Field]) -> Iterator[str]:
    for path, node in (("", schema), *_nodes(found)):
        for rule in node.get(VALIDATIONS, ()):
            yield f"- {f'`{path}`: ' if path else ''}{_prose(rule['message'])}\n"


def _nodes(found: Iterable[Field]) -> Iterator[tuple[str, Schema]]:
    """Fields, and the entries of lists and maps below them, which may have rules."""
    for field in found:
        path, node = field.path, field.schema
        yield path, node
        while "items" in node or "additionalProperties" in node:
            path, node = (
                (f"{path}[]", node["items"])
                if "items" in node
                else (f"{path}.*", node["additionalProperties"])
            )
            yield path, node
