"""Selector terms of node classes as EC2 filters (T-10, EC-01..03).

Terms are alternatives; the fields of one term must all match. A tag's value is exact, contains ``*`` wildcards, or is
``*`` alone (the tag exists). Each term is one Describe call; all ids share one call, and so do terms that differ in one
value only.

What may go wrong: an empty term would match everything in the region, so it raises ``InvalidObject``. EC2 also
treats ``?`` as a wildcard, which T-10 does not mention. A comma is part of a value here: v1alpha1's lists of values
become terms when the object is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import InvalidObject

DEFAULT_OWNERS = ("self", "amazon")
VALUES_LIMIT = 200
"""EC2's limit of values in one filter."""
PRESENCE = "tag-key"
"""The only filter that may occur several times in one call."""

Filters = list[dict[str, Any]]


class Query(msgspec.Struct, frozen=True):
    """Arguments of a Describe call. ``owners`` is for images; it is empty for a selection by id."""

    filters: Filters
    owners: tuple[str, ...] = ()


class Subject(msgspec.Struct, frozen=True):
    """The kind of resource to select, with EC2's filter names. ``owned``: True for images, which have owners."""

    field: str
    """The field of the node class's spec, for messages."""
    id_filter: str
    name_filter: str = ""
    owned: bool = False


SUBNETS = Subject("subnetSelectorTerms", "subnet-id")
SECURITY_GROUPS = Subject("securityGroupSelectorTerms", "group-id", "group-name")
IMAGES = Subject("amiSelectorTerms", "image-id", "name", owned=True)


def split_values(text: str) -> list[str]:
    """``"a, b,,a"`` -> ``["a", "b"]``."""
    parts = (part.strip() for part in text.split(","))
    return list(dict.fromkeys(part for part in parts if part))


def queries(terms: Iterable[SelectorTerm], subject: Subject) -> list[Query]:
    """The Describe calls that together select what ``terms`` select, without duplicates.

    Raises InvalidObject naming a term that selects everything, or that uses a field which this subject does not have.
    """
    ids: list[str] = []
    found: list[Query] = []
    for index, term in enumerate(terms):
        if term == SelectorTerm(id=term.id) and term.id:
            ids.append(term.id)
        else:
            found.append(_query(term, subject, f"{subject.field}[{index}]"))
    return [*_by_ids(ids, subject), *_merged(found)]


def _by_ids(ids: Sequence[str], subject: Subject) -> list[Query]:
    unique = list(dict.fromkeys(ids))
    return [
        Query([{"Name": subject.id_filter, "Values": unique[start : start + VALUES_LIMIT]}])
        for start in range(0, len(unique), VALUES_LIMIT)
    ]


def _merged(found: list[Query]) -> list[Query]:
    """Fewer calls with the same selection: queries that differ in the values of one filter only become one.

    v1alpha1's lists of values arrive as the product of all alternatives; merging filter by filter restores one call.
    """
    names = {one["Name"] for query in found for one in query.filters} - {PRESENCE}
    for name in sorted(names):
        groups: dict[bytes, Query] = {}
        for query in found:
            rest = [one for one in query.filters if one["Name"] != name]
            varied = name if len(rest) < len(query.filters) else ""
            key = msgspec.json.encode((query.owners, rest, varied))
            groups[key] = _joined(groups.get(key), query, name)
        found = list(groups.values())
    return found


def _joined(first: Query | None, second: Query, name: str) -> Query:
    if first is None:
        return second
    added = [value for one in second.filters if one["Name"] == name for value in one["Values"]]
    filters = [
        {**one, "Values": list(dict.fromkeys([*one["Values"], *added]))}
        if one["Name"] == name
        else one
        for one in first.filters
    ]
    return Query(filters, first.owners)


def _query(term: SelectorTerm, subject: Subject, field: str) -> Query:
    if term.name and not subject.name_filter:
        raise InvalidObject("cannot be used here: this kind has no name", field=f"{field}.name")
    if term.owner and not subject.owned:
        raise InvalidObject("is only for images", field=f"{field}.owner")
    filters = [_exact(subject.id_filter, term.id)] if term.id else []
    filters += [_exact(subject.name_filter, term.name)] if term.name else []
    filters += [tag_filter(key, term.tags[key], f"{field}.tags") for key in sorted(term.tags)]
    if not filters and not term.owner:
        raise InvalidObject("must not be empty: it would select everything", field=field)
    return Query(filters, _owners(term, subject))


def _owners(term: SelectorTerm, subject: Subject) -> tuple[str, ...]:
    """The owners of an image query (LCH-08). An id needs no owner: it is unique, and may be an image shared with us."""
    if not subject.owned or (term.id and not term.owner):
        return ()
    return tuple(split_values(term.owner)) or DEFAULT_OWNERS


def _exact(name: str, value: str) -> dict[str, Any]:
    return {"Name": name, "Values": [value]}


def tag_filter(key: str, value: str, field: str = "tags") -> dict[str, Any]:
    """A filter for one tag; ``*`` as value means that the key exists. Raises InvalidObject for an empty key."""
    if not key:
        raise InvalidObject("has an empty tag key", field=field)
    return _exact(PRESENCE, key) if value == "*" else _exact(f"tag:{key}", value)


def tag_filters(tags: Mapping[str, str], keys: tuple[str, ...] = ()) -> Filters:
    """Filters for tags and for keys that must exist, to find Dovetail's own resources (LCH-83)."""
    return [tag_filter(key, tags[key]) for key in sorted(tags)] + [
        tag_filter(key, "*") for key in keys
    ]
