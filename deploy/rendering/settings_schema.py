"""The chart's schema of values: ``values.schema.yaml`` with the settings of the code. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from shared import settings
from shared.settings.types import NUMBER, Form

Schema = dict[str, Any]
SERVICES: dict[str, type[settings.ServiceSettings]] = {
    "watcher": settings.WatcherSettings,
    "scheduler": settings.SchedulerSettings,
    "launcher": settings.LauncherSettings,
    "terminator": settings.TerminatorSettings,
    "interruption": settings.InterruptionSettings,
    "console": settings.ConsoleSettings,
}
OF_THE_CHART = frozenset(
    {
        # Secrets come from Secrets, and the credentials for the API server from the ServiceAccount.
        *("redis_url", "mirror_key", "kubeconfig", "scheduler_token"),
        # Follow from the release and from the ports of its pods.
        *(
            "system_namespace",
            "status_host",
            "status_port",
            "probe_host",
            "probe_port",
            "node_name",
        ),
        # Roles name the Leases; karpenter.lease has a role too.
        *("leader_election_name", "leader_election_namespace", "karpenter_lease"),
    }
)
"""Settings that are no values, because other parts of the chart must agree with them."""
ANY = ["string", "number", "boolean"]
BOOLEAN = "^(?i:true|t|yes|y|on|1|false|f|no|n|off|0)$"
Word = tuple[str, Callable[[Any, Any], Any]]
BOUNDS: dict[str, Word] = {
    **{"ge": ("minimum", max), "gt": ("exclusiveMinimum", max)},
    **{"le": ("maximum", min), "lt": ("exclusiveMaximum", min)},
}
LENGTHS: dict[str, Word] = {"min_length": ("minLength", max), "max_length": ("maxLength", min)}


def values_schema(source: str) -> Schema:
    """The JSON schema of the values from the text of ``values.schema.yaml``."""
    schema: Schema = yaml.safe_load(source)
    definitions = schema["$defs"]
    definitions["settings"] = _settings(*SERVICES.values())
    service = definitions.pop("service")
    for name, kind in SERVICES.items():
        definitions[f"{name}Settings"] = _settings(kind)
        own = {"settings": {**service["properties"]["settings"], "$ref": f"#/$defs/{name}Settings"}}
        definitions[name] = {**service, "properties": {**service["properties"], **own}}
    console: Schema = definitions["console"]["properties"]
    console["enabled"] = {"type": "boolean", "description": "Whether there is a console."}
    _close(schema)
    return schema


def _close(schema: Any) -> None:
    """Let every object with properties refuse all others."""
    if isinstance(schema, list):
        for one in schema:
            _close(one)
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
            schema.setdefault("additionalProperties", False)
        for one in schema.values():
            _close(one)


def _settings(*kinds: type[settings.ServiceSettings]) -> Schema:
    found = {
        name.upper(): _setting(field)
        for kind in kinds
        for name, field in kind.model_fields.items()
        if name not in OF_THE_CHART
    }
    return {"type": "object", "properties": dict(sorted(found.items()))}


def _setting(field: FieldInfo) -> Schema:
    """What the service takes, so that Helm and not a service at its start refuses the rest; bounds of numbers in quotes
    are left to the service. Words are strings: YAML's ``off`` is false.
    """
    shape = _words(field) or _number(field) or {"type": ANY, **_found(field, LENGTHS)}
    return {**shape, "description": field.description or ""}


def _words(field: FieldInfo) -> Schema:
    """Of a setting with given words or one pattern; {} for another one."""
    if get_origin(field.annotation) is Literal:
        return {"type": "string", "enum": [*get_args(field.annotation)]}
    if _numeric(field):
        return {}
    patterns = [one.pattern for one in field.metadata if getattr(one, "pattern", None)]
    lengths = _found(field, LENGTHS)
    return {"type": "string", "pattern": patterns[-1], **lengths} if patterns else {}


def _number(field: FieldInfo) -> Schema:
    """Of a number or a boolean, also in quotes; {} for another one."""
    kind = _numeric(field)
    if kind is bool:
        return {
            **{"type": ["boolean", "string", "integer"], "pattern": BOOLEAN},
            **{"minimum": 0, "maximum": 1},
        }
    forms = [one.pattern for one in field.metadata if isinstance(one, Form)]
    bounds = _found(field, BOUNDS)
    if kind is int:
        sign = "" if {"minimum", "exclusiveMinimum"} & bounds.keys() else "-?"
        return {"type": ["integer", "string"], "pattern": f"^{sign}[0-9]+$", **bounds}
    if kind is float:
        return {"type": ["number", "string"], "pattern": (*forms, f"^{NUMBER}$")[0], **bounds}
    return {}


def _numeric(field: FieldInfo) -> type | None:
    kinds = {field.annotation, *get_args(field.annotation)}
    return next((kind for kind in (bool, int, float) if kind in kinds), None)


def _found(field: FieldInfo, words: dict[str, Word]) -> Schema:
    """Constraints of the field and of its type by the schema's words; of two the narrower counts."""
    found: Schema = {}
    for one in field.metadata:
        for name, (word, narrower) in words.items():
            limit = getattr(one, name, None)
            if limit is not None:
                found[word] = narrower(limit, found.get(word, limit))
    return found
