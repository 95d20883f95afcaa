"""Types of settings beyond numbers and strings, for pydantic.

A parser returns an invalid value unchanged, so that pydantic refuses it with the field's name, or raises ValueError.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import NoDecode

from shared.domain.durations import PATTERN, go_duration_seconds
from shared.domain.feature_gates import (
    AWS_GATES_PATTERN,
    GATES_PATTERN,
    AwsFeatureGates,
    FeatureGates,
    parse_aws_feature_gates,
    parse_feature_gates,
)
from shared.domain.tags import parse_tags

STORE_PATTERN = "^(|/.*|s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/[^ ]*)?)$"
"""Of the address of a store: a directory or a bucket; empty: none."""


@dataclass(frozen=True)
class Form:
    """A regular expression, of Python and Go, that all text matches that a parser takes: for the chart's schema."""

    pattern: str


NUMBER = r"([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?"
"""Of a number of zero or more as text."""
_JSON_OBJECT = r"\s*\{(?s:.*)\}\s*"
_REGION = re.compile("^[a-z]{2,5}(-[a-z]+)+-[0-9]{1,2}$")


def json_object(value: object) -> object:
    """``value`` unchanged. Raises ValueError for text that is not a JSON object, so that a start fails early."""
    try:
        document = json.loads(str(value))
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError('must be a JSON object such as {"text": "$machines"}')
    return value


def parse_duration(value: object) -> object:
    """Seconds of a Go duration such as ``1s``, ``250ms`` or ``1m30s``; plain numbers are seconds."""
    seconds = go_duration_seconds(value) if isinstance(value, str) else None
    return value if seconds is None else seconds


def _gates(value: object) -> object:
    return parse_feature_gates(value) if isinstance(value, str) else value


def _aws_gates(value: object) -> object:
    return parse_aws_feature_gates(value) if isinstance(value, str) else value


def _tags(value: object) -> object:
    return parse_tags(value) if isinstance(value, str) else value


SHORTEST_KEY = 16


def _key(value: str) -> str:
    """The key without the line end of a file. Raises ValueError for a short key."""
    key = value.strip()
    if key and len(key) < SHORTEST_KEY:
        raise ValueError(
            f"has {len(key)} characters but needs {SHORTEST_KEY}; use the output of `openssl rand -hex 16`"
        )
    return key


def _region(value: str) -> str:
    """The name of a region. Raises ValueError, for a zone too: AWS would only say that a host is not found."""
    if not _REGION.match(value):
        zone = _REGION.match(value[:-1])
        meant = f"{value[:-1]}; {value} is a zone" if zone else "for example eu-central-1"
        raise ValueError(f"must be the name of a region, {meant}")
    return value


_KEY_FORM = rf"^\s*(\S(?s:.{{{SHORTEST_KEY - 2},}})\S)?\s*$"
SecretKey = Annotated[str, AfterValidator(_key), Form(_KEY_FORM)]
WebhookTemplate = Annotated[str, AfterValidator(json_object), Form(f"^{_JSON_OBJECT}$")]
Region = Annotated[str, AfterValidator(_region), Form(_REGION.pattern)]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    Field(ge=0, le=30 * 24 * 3600),
    Form(f"^({PATTERN}|{NUMBER})$"),
]
Gates = Annotated[FeatureGates, NoDecode, BeforeValidator(_gates), Form(GATES_PATTERN)]
AwsGates = Annotated[
    AwsFeatureGates, NoDecode, BeforeValidator(_aws_gates), Form(AWS_GATES_PATTERN)
]
Tags = Annotated[dict[str, str], NoDecode, BeforeValidator(_tags), Form(rf"^(\s*|{_JSON_OBJECT})$")]
CountTerminating = Annotated[
    bool,
    Field(
        description="Count terminating machines, except the largest, towards the limits of their pool until their "
        "instance is terminated; false: count none of them, as Karpenter does."
    ),
]
"""Scheduler and launcher must count in the same way."""
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
"""Requests per second, on average."""
