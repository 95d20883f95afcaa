"""Schema of dovetail.sh/v1alpha1 DeviceTemplate (DRA-04)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from shared.api.crd.model import ApiModel
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.requirements import V1Requirement
from shared.api.schema.scalars import worded
from shared.api.schema.v1.node_pool import MOST_REQUIREMENTS

MOST_DRIVERS, MOST_DEVICES, MOST_COUNTER_SETS = 16, 128, 32
DRIVER_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


class TemplateDriver(ApiModel):
    """The devices that one driver publishes on a node."""

    driver: Annotated[str, *worded(DRIVER_PATTERN, "gpu.nvidia.com", 63)]
    """Name of the driver, such as gpu.nvidia.com."""
    devices: Annotated[list[dict[str, Any]], Field(max_length=MOST_DEVICES)] = []
    """Devices as in spec.devices of a ResourceSlice; none when the driver publishes nothing on these nodes."""
    shared_counters: Annotated[list[dict[str, Any]], Field(max_length=MOST_COUNTER_SETS)] = []
    """Counter sets as in spec.sharedCounters of a ResourceSlice."""


class DeviceTemplateSpec(ApiModel):
    """Which instance types are described, and what they have."""

    requirements: Annotated[list[V1Requirement], Field(max_length=MOST_REQUIREMENTS)]
    """Instance types that are described; all of them when empty."""
    drivers: Annotated[list[TemplateDriver], Field(min_length=1, max_length=MOST_DRIVERS)]
    """Their devices by driver, instead of those that are built in."""


class DeviceTemplateStatus(ApiModel):
    """Observed state of the template."""

    conditions: list[StatusCondition] = []
    """Not written at present."""


class DeviceTemplate(Resource):
    """A DeviceTemplate describes the devices that machines will have, for pods with resource claims."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="dovetail.sh",
        version="v1alpha1",
        kind="DeviceTemplate",
        plural="devicetemplates",
        columns=(Column("Age", ".metadata.creationTimestamp", "date"),),
    )

    spec: DeviceTemplateSpec
    """Which instance types are described, and what they have."""
    status: DeviceTemplateStatus = DeviceTemplateStatus()
    """Observed state of the template."""
