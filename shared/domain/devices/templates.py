"""The devices of each instance type: what DeviceTemplates say, and for other drivers what is built in."""

from __future__ import annotations

from collections.abc import Iterable

from shared.domain.devices.families import usual_devices
from shared.domain.devices.records import DeviceTemplate, DriverDevices
from shared.domain.instance_types.types import Catalogue, InstanceType
from shared.domain.requirements import Requirements
from shared.errors import InvalidObject


def devices_by_type(
    catalogue: Catalogue, templates: Iterable[DeviceTemplate]
) -> dict[str, tuple[DriverDevices, ...]]:
    """Instance type -> its devices by driver, for types with any. Of several templates that describe one driver of a
    type, the first by name counts."""
    read = _read(templates)
    found = {kind.name: _devices(kind, read) for kind in catalogue.types}
    return {name: devices for name, devices in found.items() if devices}


def devices_of(
    kind: InstanceType, templates: Iterable[DeviceTemplate]
) -> tuple[DriverDevices, ...]:
    """The devices of one instance type, by driver."""
    return _devices(kind, _read(templates))


def _read(templates: Iterable[DeviceTemplate]) -> list[tuple[DeviceTemplate, Requirements]]:
    read = [(one, wanted) for one in templates if (wanted := _requirements(one)) is not None]
    return sorted(read, key=lambda one: one[0].name)


def _requirements(template: DeviceTemplate) -> Requirements | None:
    """None for a template with an expression that cannot be read; the API server refuses those."""
    try:
        return Requirements.of(template.requirements)
    except InvalidObject:
        return None


def _devices(
    kind: InstanceType, templates: list[tuple[DeviceTemplate, Requirements]]
) -> tuple[DriverDevices, ...]:
    by_driver = {one.driver: one for one in usual_devices(kind)}
    described: dict[str, DriverDevices] = {}
    for template, wanted in templates:
        if template_selects(wanted, kind):
            for one in template.drivers:
                described.setdefault(one.driver, one)
    by_driver |= described
    return tuple(by_driver[name] for name in sorted(by_driver) if by_driver[name].devices)


def template_selects(wanted: Requirements, kind: InstanceType) -> bool:
    """Does the type have a value that each requirement allows?"""
    return all(
        any(map(one.has, kind.labels[one.key])) if kind.labels.get(one.key) else one.accepts_absence
        for one in wanted
    )
