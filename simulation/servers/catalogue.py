"""The instance types of the simulated region: enough for every rule of the planner, few enough to be read quickly."""

from __future__ import annotations

from moto.ec2.models.instance_types import (
    INSTANCE_TYPE_OFFERINGS,
    INSTANCE_TYPES,
    InstanceTypeBackend,
)

from simulation.settings import REGION

TYPES = frozenset(
    {
        *(f"m5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")),
        *(f"c5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "9xlarge")),
        *(f"r5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge")),
        *(f"m6i.{size}" for size in ("large", "xlarge", "2xlarge")),
        *(f"c6i.{size}" for size in ("large", "xlarge", "2xlarge")),
        *(f"m6g.{size}" for size in ("medium", "large", "xlarge", "2xlarge", "4xlarge")),
        *(f"c6g.{size}" for size in ("large", "xlarge", "2xlarge")),
        *(f"t3.{size}" for size in ("small", "medium", "large")),
        "i3.large",
        "g4dn.xlarge",
        "g5.xlarge",
    }
)
"""Both architectures, three proportions of memory, burstable types, local disks and GPUs."""


def reduce_catalogue() -> None:
    """Remove all other types from moto's data, for the whole life of this process."""
    for name in [name for name in INSTANCE_TYPES if name not in TYPES]:
        del INSTANCE_TYPES[name]
    # moto keeps a list of its own beside the table, and answers DescribeInstanceTypes from it.
    listed = InstanceTypeBackend.instance_types
    listed[:] = [one for one in listed if one["InstanceType"] in TYPES]
    for regions in INSTANCE_TYPE_OFFERINGS.values():
        rows = [row for row in regions.get(REGION, ()) if row["InstanceType"] in TYPES]
        regions.clear()
        regions[REGION] = rows
