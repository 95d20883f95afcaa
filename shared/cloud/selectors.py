"""Selectors of node templates as EC2 filters (T-10, EC-01..03).

A selector is a map of tag keys to values; all entries must match. A value is exact, holds ``*``
wildcards, is ``*`` alone (the tag exists), or lists alternatives with commas. Special keys:
``aws-ids`` or ``aws::ids`` (ids, alone in the selector), ``aws::name`` (name of an image or
security group), ``aws::owners`` (images).

What may go wrong: an empty selector would match everything in the region, so it raises
``InvalidObject``. EC2 also reads ``?`` as a wildcard, which T-10 does not mention.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from shared.errors import InvalidObject

ID_KEYS = ("aws-ids", "aws::ids")
NAME_KEY = "aws::name"
OWNERS_KEY = "aws::owners"
DEFAULT_OWNERS = ("self", "amazon")
VALUES_LIMIT = 200
"""EC2's limit of values in one filter."""

Filters = list[dict[str, Any]]


class Query(msgspec.Struct, frozen=True):
    """Arguments of a Describe call. ``owners`` is for images; empty when ids are selected."""

    filters: Filters
    owners: tuple[str, ...] = ()


def split_values(text: str) -> list[str]:
    """``"a, b,,a"`` -> ``["a", "b"]``."""
    parts = (part.strip() for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def query(
    selector: Mapping[str, str],
    *,
    id_filter: str,
    name_filter: str | None = None,
    owned: bool = False,
    field: str = "selector",
) -> Query:
    """EC2 filters for ``selector``.

    ``id_filter``: EC2's name of the id filter (``subnet-id``). ``name_filter``: where ``aws::name``
    is allowed. ``owned``: ``aws::owners`` is allowed and defaults to self,amazon. Raises
    InvalidObject naming the entry.
    """
    if not selector:
        raise InvalidObject("must not be empty: it would select everything", field=field)
    ids = [key for key in ID_KEYS if key in selector]
    if ids:
        if len(selector) > 1:
            raise InvalidObject("must be the only key of the selector", field=f"{field}.{ids[0]}")
        return Query(filters=[_filter(id_filter, selector[ids[0]], f"{field}.{ids[0]}")])
    rest = dict(selector)
    owners = _owners(rest.pop(OWNERS_KEY, None), owned=owned, field=f"{field}.{OWNERS_KEY}")
    filters = [
        _entry_filter(key, rest[key], name_filter=name_filter, field=f"{field}.{key}")
        for key in sorted(rest)
    ]
    return Query(filters=filters, owners=owners)


def _owners(text: str | None, *, owned: bool, field: str) -> tuple[str, ...]:
    if text is None:
        return DEFAULT_OWNERS if owned else ()
    if not owned:
        raise InvalidObject("is only for image selectors", field=field)
    owners = split_values(text)
    if not owners:
        raise InvalidObject("must name an owner, for example self", field=field)
    return tuple(owners)


def _entry_filter(key: str, value: str, *, name_filter: str | None, field: str) -> dict[str, Any]:
    if not key:
        raise InvalidObject("has an empty tag key", field=field)
    if key == NAME_KEY:
        if name_filter is None:
            raise InvalidObject("cannot be used here: this kind has no name", field=field)
        return _filter(name_filter, value, field)
    if value == "*":
        return {"Name": "tag-key", "Values": [key]}
    # An empty tag value is a legal exact match; a list of nothing (",") is not.
    return _filter(f"tag:{key}", value, field) if value else {"Name": f"tag:{key}", "Values": [""]}


def _filter(name: str, text: str, field: str) -> dict[str, Any]:
    values = split_values(text)
    if not 0 < len(values) <= VALUES_LIMIT:
        raise InvalidObject(f"must hold 1 to {VALUES_LIMIT} values", field=field)
    return {"Name": name, "Values": values}


def tag_filters(tags: Mapping[str, str], keys: tuple[str, ...] = ()) -> Filters:
    """Exact tags and keys that must exist, for finding our own resources (LCH-83)."""
    exact = [{"Name": f"tag:{key}", "Values": [tags[key]]} for key in sorted(tags)]
    return exact + [{"Name": "tag-key", "Values": [key]} for key in keys]
