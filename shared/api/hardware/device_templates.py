"""dovetail.sh/v1alpha1 DeviceTemplate -> domain record (DRA-04)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.core.metadata import read_metadata
from shared.api.crd.model import read
from shared.api.faults import Fault, Parsed
from shared.api.hardware.device_claims import read_counter_sets, read_devices
from shared.api.schema.requirements import expressions_of
from shared.api.schema.v1.device_template import DeviceTemplateSpec, TemplateDriver
from shared.domain.devices.records import DeviceTemplate, DriverDevices
from shared.errors import InvalidObject

Json = Mapping[str, Any]


def parse_device_template(raw: Json) -> Parsed[DeviceTemplate]:
    """The template, or every fault of its spec. Never raises."""
    spec, faults = read(DeviceTemplateSpec, raw.get("spec"), at=("spec",))
    if spec is None:
        return Parsed(None, tuple(faults))
    drivers = []
    for index, one in enumerate(spec.drivers):
        try:
            drivers.append(_driver(one))
        except InvalidObject as error:
            faults.append(Fault(("spec", "drivers", index), str(error)))
    faults += _repeated([one.driver for one in spec.drivers])
    if faults:
        return Parsed(None, tuple(faults))
    meta = read_metadata(raw)
    requirements = expressions_of(spec.requirements)
    return Parsed(DeviceTemplate(meta.uid, meta.name, requirements, tuple(drivers)))


def _driver(written: TemplateDriver) -> DriverDevices:
    """Raises InvalidObject with the field below the driver."""
    devices = read_devices(written.devices, written.driver, "devices")
    names = [one.name for one in devices]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        message = f"two devices have the name {repeated!r}; give each a name of its own"
        raise InvalidObject(message, field="devices")
    counters = read_counter_sets(written.shared_counters, "sharedCounters")
    for device in devices:
        for name in sorted(device.consumes.keys() - counters.keys()):
            message = f"device {device.name!r} consumes the counter set {name!r}, which is not in sharedCounters"
            raise InvalidObject(message, field="devices")
    return DriverDevices(written.driver, devices, counters)


def _repeated(drivers: list[str]) -> list[Fault]:
    return [
        Fault(("spec", "drivers", index, "driver"), "is described twice; put its devices together")
        for index, name in enumerate(drivers)
        if name in drivers[:index]
    ]
