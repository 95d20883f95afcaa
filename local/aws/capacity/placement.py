"""Placement groups as far as they bound a launch: a spread group takes seven instances in each zone.

EC2's racks are not modelled: what a cluster or partition group has no room for is stated by a test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from local.aws.ec2.instances import Instance

MOST_SPREAD = 7
"""EC2's limit of instances in one zone of a spread group."""
Groups = Mapping[tuple[str, str], Mapping[str, Any]]
"""Region and name -> the group's row in DescribePlacementGroups."""


def find_group(groups: Groups, region: str, named: tuple[str, str]) -> Mapping[str, Any] | None:
    """The group with this name or id; None when a launch names none, and for an unknown one."""
    name, identity = named
    if name:
        return groups.get((region, name))
    found = (row for (home, _), row in groups.items() if home == region)
    return next((row for row in found if identity and row["GroupId"] == identity), None)


def spread_room(group_id: str, zone: str, instances: Iterable[Instance]) -> int:
    """How many more instances the zone takes of this spread group. One that is shutting down still has its rack."""
    there = sum(
        one.zone == zone and one.state != "terminated" and one.placement_group[1] == group_id
        for one in instances
    )
    return max(0, MOST_SPREAD - there)
