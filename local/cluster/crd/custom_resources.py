"""Custom kinds: the content of a CustomResourceDefinition, prepared for use.

A definition is compiled once, when it is stored; then the kind is served at once and the definition gets its
conditions. All served versions share one stored form (conversion strategy None: only apiVersion differs). A definition
whose names are already used is stored with ``NamesAccepted=False`` and is not served.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema
import orjson

from local.cluster.api.errors import FieldError, invalid_value, required
from local.cluster.builtin.resources import Resource
from local.cluster.control_plane.conditions import with_conditions
from local.cluster.crd.schemas import (
    PRESERVE,
    Schema,
    Validator,
    check_schema,
    prune,
    with_defaults,
)
from local.cluster.storage.lifecycle import REPLICAS, ScalePaths
from local.cluster.storage.watches import Document


@dataclass(frozen=True)
class CustomVersion:
    """One version of a custom kind. ``columns`` are its additionalPrinterColumns."""

    resource: Resource
    schema: Schema
    validator: Validator
    columns: tuple[dict[str, Any], ...]
    scale: ScalePaths
    served: bool

    def admit(self, document: Document) -> tuple[Document, list[str]]:
        """The document pruned and defaulted, and the paths of unknown fields."""
        kept, dropped = prune(document, self.schema)
        return with_defaults(kept, self.schema), dropped


class CustomKind:
    """The compiled content of one definition."""

    def __init__(self, definition: Document) -> None:
        spec = definition["spec"]
        self.versions = {v["name"]: _version(spec, v, i) for i, v in enumerate(spec["versions"])}
        stored = next(v["name"] for v in spec["versions"] if v.get("storage"))
        self.storage = self.versions[stored].resource

    def served(self) -> list[Resource]:
        """One resource for every served version."""
        return [version.resource for version in self.versions.values() if version.served]

    def version_of(self, document: Document) -> CustomVersion:
        """The version of a document; the stored version when that is unknown."""
        name = str(document.get("apiVersion", "")).rpartition("/")[2]
        return self.versions.get(name) or self.versions[self.storage.version]


def _version(spec: Document, version: Document, index: int) -> CustomVersion:
    names = spec["names"]
    schema = (version.get("schema") or {}).get("openAPIV3Schema") or {PRESERVE: True}
    if spec.get("preserveUnknownFields"):
        schema = {**schema, PRESERVE: True}
    resource = Resource(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec.get("scope") == "Namespaced",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(sorted(version.get("subresources") or {})),
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or f"{names['kind']}List",
        custom=True,
    )
    columns = tuple(version.get("additionalPrinterColumns") or ())
    scale = _scale_paths((version.get("subresources") or {}).get("scale") or {})
    served = bool(version.get("served"))
    validator = _validator(schema, _schema_path(index))
    return CustomVersion(resource, schema, validator, columns, scale, served)


def _validator(schema: Schema, path: str) -> Validator:
    """The validator, cached by content: a definition is compiled when it is stored, when it is served and at every
    start.

    Raises jsonschema.SchemaError, TypeError or AttributeError for an invalid schema.
    """
    return _made_validator(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS), path)


@lru_cache(maxsize=64)
def _made_validator(text: bytes, path: str) -> Validator:
    schema: Schema = orjson.loads(text)
    check_schema(schema)
    return Validator(schema, path)


def _schema_path(index: int) -> str:
    return f"spec.versions[{index}].schema.openAPIV3Schema"


def _scale_paths(scale: Document) -> ScalePaths:
    """JSON paths such as ``.status.nodes``; the API allows only dots and names."""
    texts = (scale.get("specReplicasPath"), scale.get("statusReplicasPath"))
    desired, present = (tuple(str(text or "").split("."))[1:] for text in texts)
    return ScalePaths(desired or REPLICAS.desired, present or REPLICAS.present)


def definition_errors(definition: Document) -> list[FieldError]:
    """The errors of a CustomResourceDefinition."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    errors = [required(f"spec.{name}") for name in ("group", "scope") if not spec.get(name)]
    errors += [required(f"spec.names.{name}") for name in ("plural", "kind") if not names.get(name)]
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if not errors and definition["metadata"]["name"] != expected:
        text = f'must be spec.names.plural+"."+spec.group, that is {expected}'
        errors.append(invalid_value("metadata.name", definition["metadata"]["name"], text))
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        text = "must have exactly one version marked as storage version"
        errors.append(invalid_value("spec.versions", [v.get("name") for v in versions], text))
    for index, version in enumerate(versions):
        errors += _schema_errors(version, _schema_path(index))
    return errors


def _schema_errors(version: Document, path: str) -> list[FieldError]:
    schema = (version.get("schema") or {}).get("openAPIV3Schema")
    if not isinstance(schema, dict):
        return [required(path, "schemas are required")]
    try:
        return _validator(schema, path).rule_errors
    except (jsonschema.SchemaError, TypeError, AttributeError) as error:
        return [invalid_value(path, version.get("name"), f"not a schema: {str(error)[:200]}")]


def default_definition(definition: Document) -> None:
    """Complete a definition in place: singular, listKind, conversion."""
    spec = definition.get("spec") or {}
    names = spec.get("names") or {}
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def names_conflict(definition: Document, served: list[Resource]) -> str | None:
    """The reason why the definition's names cannot be used, or None."""
    spec = definition["spec"]
    names = spec["names"]
    others = [r for r in served if r.group == spec["group"] and r.plural != names["plural"]]
    if any(other.kind == names["kind"] for other in others):
        return f'"{names["kind"]}" is already in use'
    taken = {name for other in others for name in (*other.short_names, other.singular_name)}
    clash = sorted({*(names.get("shortNames") or ()), names["plural"]} & taken)
    return f'"{clash[0]}" is already in use' if clash else None


def established(definition: Document, refusal: str | None, now: str) -> Document:
    """The definition with the status of a kind that is served, or refused because of its names."""
    accepted = "the initial names have been accepted"
    conditions = [
        _condition("NamesAccepted", refusal, "NoConflicts", "NamesConflict", "no conflicts found"),
        _condition("Established", refusal, "InitialNamesAccepted", "NotAccepted", accepted),
    ]
    before, spec = (definition.get("status") or {}).get("conditions"), definition["spec"]
    status: Document = {
        "conditions": with_conditions(before, conditions, now),
        "acceptedNames": {} if refusal else spec["names"],
        "storedVersions": [v["name"] for v in spec["versions"] if v.get("storage")],
    }
    return {**definition, "status": status}


def _condition(kind: str, refusal: str | None, good: str, bad: str, text: str) -> Document:
    status, reason = ("False", bad) if refusal else ("True", good)
    return {"type": kind, "status": status, "reason": reason, "message": refusal or text}
