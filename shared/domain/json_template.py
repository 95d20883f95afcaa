"""A JSON document with places to fill in, such as the posts of a webhook."""

from __future__ import annotations

import json


def json_object(value: object) -> object:
    """The text as it is. Raises ValueError for what is no JSON object: better than a first post that fails."""
    try:
        document = json.loads(str(value))
    except ValueError as error:
        raise ValueError(f"must be JSON: {error}") from error
    if not isinstance(document, dict):
        raise ValueError('must be a JSON object such as {"text": "$machines"}')
    return value
