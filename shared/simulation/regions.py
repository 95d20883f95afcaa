"""Finds the AWS region of objects by the zones that they name.

With the catalogue of another region no pod that needs a zone could get a machine, and the verdicts would not show why.
Only zone names such as ``eu-west-1b`` count: the names of local zones and of custom zones have no region.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from shared.domain import labels as keys

ZONE_NAME = re.compile(r"([a-z]{2}(?:-[a-z]{1,12}){1,3}-[0-9])[a-z]")
ZONE_KEYS = frozenset(
    {keys.ZONE, "failure-domain.beta.kubernetes.io/zone", "topology.ebs.csi.aws.com/zone"}
)


_NAMING = ZONE_KEYS | {"key", "subnets"}
"""Keys of objects that may name a zone."""


def regions_in(documents: Iterable[object]) -> frozenset[str]:
    """The regions of the zones in labels, node selectors, requirements and resolved subnets. Never raises."""
    matches = (ZONE_NAME.fullmatch(zone) for zone in _zones(documents))
    return frozenset(match[1] for match in matches if match)


def only_region(documents: Iterable[object]) -> str:
    """The region, if the documents name exactly one; else empty."""
    found = regions_in(documents)
    return next(iter(found)) if len(found) == 1 else ""


def region_mismatch(region: str, documents: Iterable[object]) -> str:
    """The fault when the documents name only zones of other regions than the catalogue's; else empty."""
    found = regions_in(documents)
    if not region or not found or region in found:
        return ""
    named = ", ".join(sorted(found))
    return f"the inputs name zones of {named}, but the catalogue is of {region}; set the region to {min(found)}"


def _zones(documents: Iterable[object]) -> Iterator[str]:
    """All zone names. Each object is visited once, since YAML aliases may repeat it or nest it in itself."""
    waiting, seen = list(documents), set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or not isinstance(one, dict | list):
            continue
        seen.add(id(one))
        inside: Iterable[object] = one
        if isinstance(one, dict):
            if not _NAMING.isdisjoint(one):
                yield from _named(one)
            inside = one.values()
        waiting += [value for value in inside if isinstance(value, dict | list)]


def _named(one: Mapping[Any, Any]) -> Iterator[str]:
    key = one.get("key")
    listed = one.get("values") if isinstance(key, str) and key in ZONE_KEYS else None
    found = [*(listed if isinstance(listed, list) else []), *(one.get(key) for key in ZONE_KEYS)]
    subnets = one.get("subnets")
    for subnet in subnets if isinstance(subnets, list) else []:
        found.append(subnet.get("zone") if isinstance(subnet, Mapping) else None)
    yield from (zone for zone in found if isinstance(zone, str))
