"""How settings are read: environment variables first, then what the ConfigMap says, then the default.

A wrong variable stops the start with a message that names it. Where the ConfigMap comes from, and how often, is the
business of ``shared.runtime.live_settings``.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource

from shared.errors import ConfigurationError
from shared.settings.services import ServiceSettings

AT_START = ("cluster_name", "mirror_key")
"""Streams, tags, leases and the mirror carry these: a change waits for the next start."""

Settings = TypeVar("Settings", bound=BaseSettings)


def read(
    kind: type[Settings], configured: Mapping[str, object] | None = None, **overrides: Any
) -> Settings:
    """The settings of one service. Raises ConfigurationError that names every wrong variable.

    ``configured``: values by field that count where the environment says nothing; fields of other services are skipped.
    """
    try:
        return kind(**_lower(kind, configured or {}), **overrides)
    except ValidationError as error:
        faults = "; ".join(
            f"{'.'.join(str(part) for part in fault['loc']).upper()}: "
            f"{fault['msg'].removeprefix('Value error, ')}"
            for fault in error.errors()
        )
        raise ConfigurationError(
            f"wrong settings: {faults}. See --help for all variables"
        ) from error


def _lower(kind: type[BaseSettings], configured: Mapping[str, object]) -> dict[str, Any]:
    """What counts of ``configured`` beside the environment."""
    said = EnvSettingsSource(kind)()
    lower: dict[str, Any] = {
        name: value
        for name, value in configured.items()
        if name in kind.model_fields and name not in said
    }
    if "feature_gates" in configured and "feature_gates" in said:
        # Each gate ranks by itself, and of two words on one gate the later counts.
        lower["feature_gates"] = f"{configured['feature_gates']},{said['feature_gates']}"
    return lower


def read_early(kind: type[Settings], **overrides: Any) -> Settings:
    """The settings before the ConfigMap is known: enough to reach it, and to refuse wrong variables without it.

    ``cluster_name`` may be a stand-in. Raises ConfigurationError that names every wrong or missing variable.
    """
    with suppress(ConfigurationError):
        return read(kind, {"cluster_name": "unknown"}, **overrides)
    return read(kind, **overrides)


def apply(settings: ServiceSettings, fresh: ServiceSettings) -> list[str]:
    """Make ``settings`` say what ``fresh`` says, but for those of AT_START. Returns the names that changed.

    Every part of a service holds the same object, so all of them see the change at once.
    """
    changed = [
        name
        for name in type(settings).model_fields
        if name not in AT_START and getattr(settings, name) != getattr(fresh, name)
    ]
    # Past pydantic's back: the object is frozen for everybody but this function.
    vars(settings).update({name: getattr(fresh, name) for name in changed})
    return changed


def describe(kind: type[BaseSettings]) -> str:
    """One line per variable: name, default, meaning."""
    lines = []
    for name, field in kind.model_fields.items():
        default = "required" if field.is_required() else f"default {field.default!r}"
        lines.append(f"  {name.upper():30} {default}. {field.description or ''}".rstrip())
    return "\n".join(lines)
