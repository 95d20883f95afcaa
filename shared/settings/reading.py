"""Reading of settings: environment variables take precedence over the ConfigMap, and that over the defaults.

A wrong variable prevents the start, with a message that names it. ``shared.runtime.live_settings`` fetches the
ConfigMap.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings

from shared.errors import ConfigurationError
from shared.settings.services.base import Environment, ServiceSettings

AT_START = ("cluster_name", "mirror_key")
"""Streams, tags, Leases and the mirror use these, so a change takes effect only at the next start."""

Settings = TypeVar("Settings", bound=BaseSettings)


def read(
    kind: type[Settings], configured: Mapping[str, object] | None = None, **overrides: Any
) -> Settings:
    """The settings of one service. Raises ConfigurationError that names every wrong variable.

    ``configured``: values by field, for fields that the environment does not set; fields of other services are ignored.
    """
    try:
        return kind(**_below_environment(kind, configured or {}), **overrides)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']).upper()}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        )
        raise ConfigurationError(
            f"wrong settings: {faults}. See --help for all variables"
        ) from error


def _below_environment(
    kind: type[BaseSettings], configured: Mapping[str, object]
) -> dict[str, Any]:
    """The part of ``configured`` that the environment does not override."""
    environment = Environment(kind)()
    lower: dict[str, Any] = {
        name: value
        for name, value in configured.items()
        if name in kind.model_fields and name not in environment
    }
    if "feature_gates" in configured and "feature_gates" in environment:
        # Precedence applies to each gate separately; of two values of one gate the later counts.
        lower["feature_gates"] = f"{configured['feature_gates']},{environment['feature_gates']}"
    return lower


def read_early(kind: type[Settings], **overrides: Any) -> Settings:
    """The settings before the ConfigMap is read: they are needed to reach it, and wrong variables are refused early.

    ``cluster_name`` may be a placeholder. Raises ConfigurationError that names every wrong or missing variable.
    """
    with suppress(ConfigurationError):
        return read(kind, {"cluster_name": "unknown"}, **overrides)
    return read(kind, **overrides)


def apply(settings: ServiceSettings, fresh: ServiceSettings) -> list[str]:
    """Copy the values of ``fresh`` into ``settings``, except AT_START. Returns the names of changed settings.

    All parts of a service share one settings object, so they see the change at the same time.
    """
    changed = [
        name
        for name in type(settings).model_fields
        if name not in AT_START and getattr(settings, name) != getattr(fresh, name)
    ]
    # Bypasses pydantic: the model is frozen, and only this function may change it.
    vars(settings).update({name: getattr(fresh, name) for name in changed})
    return changed


def text_of(setting: str, name: str) -> str:
    """The setting itself, or what the file holds whose absolute path it is. Raises ConfigurationError."""
    if not setting.startswith("/"):
        return setting
    try:
        return Path(setting).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name}: cannot read {setting}: {error}") from error


def describe(kind: type[BaseSettings]) -> str:
    """One line per variable: name, default, meaning."""
    lines = []
    for name, field in kind.model_fields.items():
        default = "required" if field.is_required() else f"default {field.default!r}"
        lines.append(f"  {name.upper():30} {default}. {field.description or ''}".rstrip())
    return "\n".join(lines)


_STATUS = "STATUS_HOST and STATUS_PORT: one server for metrics, health and readiness"
_LOGS = "logs are JSON lines on standard output"
_NO_WEBHOOK = "there is no admission webhook"
INSTEAD: Mapping[str, str] = {
    "CPU_REQUESTS": "worker pools have fixed bounds",
    "DISABLE_CONTROLLER_WARMUP": "there is nothing to warm up",
    "DISABLE_WEBHOOK": _NO_WEBHOOK,
    "EKS_CONTROL_PLANE": "the cluster is asked for unless CLUSTER_ENDPOINT is set",
    "ENABLE_PROFILING": "there are no profiles of a Go program",
    "HEALTH_PROBE_PORT": _STATUS,
    "KARPENTER_SERVICE": "names Karpenter's own Service; nothing is to be done",
    "LEADER_ELECT": "DISABLE_LEADER_ELECTION",
    "LOG_ERROR_OUTPUT_PATHS": _LOGS,
    "LOG_OUTPUT_PATHS": _LOGS,
    "LOGGING_CONFIG": _LOGS,
    "MEMORY_LIMIT": "set the container's limit",
    "METRICS_PORT": _STATUS,
    "WEBHOOK_METRICS_PORT": _NO_WEBHOOK,
    "WEBHOOK_PORT": _NO_WEBHOOK,
}
"""Name -> the replacement in Dovetail, or why there is none."""


def without_meaning(variables: Mapping[str, str]) -> dict[str, str]:
    """The names of such settings among ``variables``, with their replacement. Pure.

    Values with ``://`` are ignored: a Service ``metrics`` in the cluster sets METRICS_PORT to an address in every pod.
    """
    return {
        name: INSTEAD[name]
        for name in sorted(INSTEAD.keys() & variables.keys())
        if variables[name] and "://" not in variables[name]
    }
