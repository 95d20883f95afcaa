"""Block devices and metadata options, as both generations of node classes have them (T-08, T-09, EC-12, EC-13).

Fields of only one generation are added in a subclass beside that generation's kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.scalars import Text, quantity
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

MOST_VOLUMES = 50
SMALLEST_BYTES = 10**9
LARGEST_BYTES = 64 * 2**40
"""EBS sells volumes from 1 GB to 64 TiB."""
LARGEST_RATE = 2**31 - 1
Rate = Annotated[int, Field(ge=1, le=LARGEST_RATE)]
Switch = Literal["enabled", "disabled"]


def _check_origin(raw: Json) -> Iterable[tuple[Path, str]]:
    if raw.get("volumeSize") is None and not raw.get("snapshotID"):
        yield (), "needs volumeSize or snapshotID"


def _check_size(raw: Json) -> Iterable[tuple[Path, str]]:
    size = _bytes(raw.get("volumeSize"))
    if size is not None and not SMALLEST_BYTES <= size <= LARGEST_BYTES:
        yield ("volumeSize",), "must be from 1G to 64T; write a unit, for example 30Gi"


def _bytes(size: object) -> Decimal | None:
    """The size in bytes; None for an invalid quantity, which the field's own type reports."""
    if isinstance(size, bool) or not isinstance(size, int | str):
        return None
    try:
        return parse_quantity(size, field="")
    except InvalidObject:
        return None


VolumeSize = Annotated[
    Any,
    PlainValidator(quantity),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": r"^\+?([0-9]{10,14}|[0-9]{1,14}(\.[0-9]*)?([KMGTPE]i|[kMGTPE]|[eE]\+?[0-9]+))$",
            "minimum": SMALLEST_BYTES,
            "maximum": LARGEST_BYTES,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
"""A quantity in bytes. The pattern refuses sizes below 1G that have no unit, such as 20, which mean bytes."""


class EbsVolume(ApiModel):
    """The EBS volume behind a device."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "needs volumeSize or snapshotID",
            "has(self.volumeSize) || (has(self.snapshotID) && self.snapshotID != '')",
            _check_origin,
        ),
        Rule("volumeSize must be from 1G to 64T", check=_check_size),
    )

    delete_on_termination: bool | None = None
    """Whether the volume is deleted with its instance."""
    encrypted: bool | None = None
    """Whether the volume is encrypted."""
    iops: Rate | None = None
    """Provisioned I/O operations per second (io1, io2, gp3)."""
    kms_key_id: Text | None = Field(default=None, alias="kmsKeyID")
    """Id or ARN of the KMS key that encrypts the volume."""
    snapshot_id: Text | None = Field(default=None, alias="snapshotID")
    """Id of the snapshot that the volume is created from."""
    throughput: Rate | None = None
    """Provisioned throughput in MiB per second (gp3)."""
    volume_size: VolumeSize | None = None
    """Size, from 1G to 64T, such as 30Gi. Required unless snapshotID is set."""
    volume_type: Literal["standard", "io1", "io2", "gp2", "sc1", "st1", "gp3"] | None = None
    """Type of the volume."""


class BlockDevice(ApiModel):
    """A device of the node and the volume behind it."""

    device_name: Annotated[str, Field(min_length=1, max_length=128)]
    """Name of the device, such as /dev/xvda."""
    ebs: EbsVolume
    """The EBS volume behind the device."""
    root_volume: bool | None = None
    """Whether this is the root volume, which holds the kubelet's data."""


class MetadataOptions(ApiModel):
    """Access to the instance metadata service."""

    http_endpoint: Switch | None = None
    """Whether the service answers; enabled when absent."""
    http_protocol_ipv6: Switch | None = Field(default=None, alias="httpProtocolIPv6")
    """Whether it answers over IPv6; disabled when absent."""
    http_put_response_hop_limit: Annotated[int, Field(ge=1, le=64)] | None = None
    """How many network hops a session token may travel."""
    http_tokens: Literal["required", "optional"] | None = None
    """Whether a session token is required; required when absent."""
