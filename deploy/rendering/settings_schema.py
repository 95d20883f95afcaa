"""The chart's schema of values: ``values.schema.yaml`` with the settings of the code. Pure."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo

from shared import settings

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
    """Words are strings, so that YAML's ``off``, which is false, is refused here and not by a service at its start."""
    schema: Schema = {"type": ANY, "description": field.description or ""}
    if get_origin(field.annotation) is Literal:
        schema = {**schema, "type": "string", "enum": [*get_args(field.annotation)]}
    patterns = [one.pattern for one in field.metadata if getattr(one, "pattern", None)]
    if patterns:
        schema = {**schema, "type": "string", "pattern": patterns[0]}
    return schema
