"""Placement groups, which moto lacks. The emulator has no racks: of the strategies only ``spread`` bounds launches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from local.aws.capacity.placement import find_group
from local.aws.ec2.filters import matches_any
from local.aws.ec2.refusal import RequestRefused
from local.aws.emulator import Emulator
from local.aws.moto.state import new_id

Group = dict[str, Any]
_FIELDS = {"group-name": "GroupName", "group-id": "GroupId", "state": "State"}


def create_placement_group(
    emulator: Emulator, region: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Create a group, which is available at once."""
    name, groups = str(parameters.get("GroupName") or ""), emulator.placement_groups
    if (region, name) in groups:
        raise RequestRefused(
            "InvalidPlacementGroup.Duplicate", f"The Placement Group '{name}' already exists."
        )
    group: Group = {
        "GroupName": name,
        "GroupId": new_id("pg-"),
        "State": "available",
        "Strategy": parameters.get("Strategy") or "cluster",
        "PartitionCount": parameters.get("PartitionCount"),
    }
    groups[region, name] = group
    return {"PlacementGroup": group}


def describe_placement_groups(
    emulator: Emulator, region: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The groups by names, ids and filters. An unknown name is an error; a group that a filter excludes is not."""
    found = [g for (home, _), g in sorted(emulator.placement_groups.items()) if home == region]
    found = _named(found, "GroupName", parameters.get("GroupNames") or [])
    found = _named(found, "GroupId", parameters.get("GroupIds") or [])
    for row in parameters.get("Filters") or []:
        field, values = _FIELDS.get(row["Name"], ""), row.get("Values") or []
        found = [group for group in found if matches_any([str(group.get(field))], values)]
    return {"PlacementGroups": found}


def delete_placement_group(
    emulator: Emulator, region: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """Delete a group at once."""
    name = str(parameters.get("GroupName") or "")
    if emulator.placement_groups.pop((region, name), None) is None:
        raise _unknown(name)
    return {}


def placement_group(
    emulator: Emulator, region: str, placement: Mapping[str, Any]
) -> tuple[str, str]:
    """Name and id of the group that a launch names; empty for none. Raises RequestRefused for an unknown group."""
    named = str(placement.get("GroupName") or ""), str(placement.get("GroupId") or "")
    if not any(named):
        return named
    group = find_group(emulator.placement_groups, region, named)
    if group is None:
        raise _unknown(named[0] or named[1])
    return str(group["GroupName"]), str(group["GroupId"])


def _named(groups: Iterable[Group], field: str, names: list[str]) -> list[Group]:
    by_name = {group[field]: group for group in groups}
    for name in names:
        if name not in by_name:
            raise _unknown(name)
    return [by_name[name] for name in names or by_name]


def _unknown(name: str) -> RequestRefused:
    return RequestRefused(
        "InvalidPlacementGroup.Unknown", f"The Placement Group '{name}' is unknown."
    )
