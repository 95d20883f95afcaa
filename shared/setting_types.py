"""Kinds of values that settings have beside numbers and texts, as pydantic reads them.

What is wrong is handed back for pydantic to refuse with the field's name, or refused by its own parser.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from shared.domain.durations import go_duration_seconds
from shared.domain.feature_gates import FeatureGates, parse_feature_gates
from shared.domain.json_template import json_object
from shared.domain.tags import parse_tags


def parse_duration(value: object) -> object:
    """Seconds of a Go duration such as ``1s``, ``250ms`` or ``1m30s``; plain numbers are seconds.

    Anything else is handed back for pydantic to refuse with the field's name.
    """
    seconds = go_duration_seconds(value) if isinstance(value, str) else None
    return value if seconds is None else seconds


def _gates(value: object) -> object:
    return parse_feature_gates(value) if isinstance(value, str) else value


def _tags(value: object) -> object:
    return parse_tags(value) if isinstance(value, str) else value


SHORTEST_KEY = 16


def _key(value: str) -> str:
    """Without the line end that a file gives it."""
    key = value.strip()
    if key and len(key) < SHORTEST_KEY:
        raise ValueError(
            f"has {len(key)} characters, and needs {SHORTEST_KEY}: take what `openssl rand -hex 16` prints"
        )
    return key


SecretKey = Annotated[str, AfterValidator(_key)]
WebhookTemplate = Annotated[str, AfterValidator(json_object)]
Duration = Annotated[float, BeforeValidator(parse_duration), Field(ge=0, le=30 * 24 * 3600)]
Gates = Annotated[FeatureGates, NoDecode, BeforeValidator(_gates)]
Tags = Annotated[dict[str, str], NoDecode, BeforeValidator(_tags)]
