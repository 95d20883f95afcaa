"""Filters and paging of describe calls: values are joined with OR, filters with AND; ``*`` and ``?`` are wildcards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from local.aws.ec2.instances import STATE_CODES, Instance
from local.aws.ec2.refusal import RequestRefused

Item = TypeVar("Item")

INSTANCE_FILTERS: Mapping[str, Callable[[Instance], Sequence[str]]] = {
    "architecture": lambda i: (i.facts.architecture,),
    "availability-zone": lambda i: (i.zone,),
    "client-token": lambda i: (i.client_token,),
    "image-id": lambda i: (i.image_id,),
    "instance-id": lambda i: (i.instance_id,),
    "instance-lifecycle": lambda i: (i.lifecycle,),
    "instance-state-code": lambda i: (str(STATE_CODES[i.state]),),
    "instance-state-name": lambda i: (i.state,),
    "instance-type": lambda i: (i.instance_type,),
    "private-dns-name": lambda i: (i.private_dns_name,),
    "private-ip-address": lambda i: (i.private_ip,),
    "reservation-id": lambda i: (i.reservation_id,),
    "subnet-id": lambda i: (i.subnet_id,),
    "tag-key": lambda i: tuple(i.tags),
    "tag-value": lambda i: tuple(i.tags.values()),
    "vpc-id": lambda i: (i.vpc_id,),
}


def matches_any(values: Sequence[str], patterns: Sequence[str]) -> bool:
    """Whether one of ``values`` matches one of ``patterns``."""
    if not any("*" in pattern or "?" in pattern for pattern in patterns):
        return any(value in patterns for value in values)
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def filtered(
    items: Sequence[Item],
    filters: Sequence[Mapping[str, Any]],
    values_of: Callable[[str], Callable[[Item], Sequence[str]]],
) -> list[Item]:
    """The items that pass every filter. ``values_of`` gives a filter's values, or raises RequestRefused."""
    found = list(items)
    for row in filters:
        values = values_of(str(row.get("Name")))
        patterns = [str(value) for value in row.get("Values") or []]
        found = [item for item in found if matches_any(values(item), patterns)]
    return found


def instance_values(name: str) -> Callable[[Instance], Sequence[str]]:
    """The values of an instance that the filter compares. Raises RequestRefused for an unknown filter."""
    if name.startswith("tag:"):
        key = name.removeprefix("tag:")
        return lambda i: (i.tags[key],) if key in i.tags else ()
    if name not in INSTANCE_FILTERS:
        raise RequestRefused("InvalidParameterValue", f"The filter '{name}' is invalid")
    return INSTANCE_FILTERS[name]


def page(
    items: Sequence[Item], parameters: Mapping[str, Any], limit: int
) -> tuple[Sequence[Item], str | None]:
    """One page of an unchanging list, and the token of the next page. Raises RequestRefused."""
    start = offset_of(parameters.get("NextToken"))
    size = page_size(parameters.get("MaxResults"), limit)
    more = start + size < len(items)
    return items[start : start + size], str(start + size) if more else None


def offset_of(token: Any) -> int:
    """The number in a page token; 0 without one. Raises RequestRefused."""
    if not token:
        return 0
    if not str(token).isdigit():
        raise RequestRefused("InvalidParameterValue", f"Unable to parse pagination token {token}")
    return int(token)


def page_size(max_results: Any, limit: int) -> int:
    """Rows per page, at most ``limit``. Raises RequestRefused for less than one."""
    size = limit if max_results is None else int(max_results)
    if size < 1:
        raise RequestRefused("InvalidParameterValue", f"Value ( {size} ) for maxResults is invalid")
    return min(size, limit)
