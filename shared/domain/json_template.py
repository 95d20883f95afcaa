"""JSON documents with variables, such as the notifications of a webhook."""

from __future__ import annotations

import json


def json_object(value: object) -> object:
    """``value`` unchanged. Raises ValueError for text that is not a JSON object, so that a start fails early."""
    try:
        document = json.loads(str(value))
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError('must be a JSON object such as {"text": "$machines"}')
    return value
