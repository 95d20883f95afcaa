"""Network interfaces, connection tracking and CPU options of a v1 node class (EC-14)."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from shared.api.crd.model import ApiModel, Rule
from shared.api.schema.scalars import DURATION_PATTERN, LONGEST_TEXT, duration_seconds, worded

LARGEST_INDEX = 2**31 - 1
Index = Annotated[int, Field(ge=0, le=LARGEST_INDEX)]


def _between(least: int, most: int) -> tuple[PlainValidator, WithJsonSchema]:
    """Annotations for a duration of whole seconds, written as ``350s`` or 350 and stored as an int."""
    (form, _) = worded(DURATION_PATTERN, f"{least}s")

    def seconds(written: Any) -> int:
        if isinstance(written, bool) or not isinstance(written, int | str):
            raise ValueError(f"must be a duration such as {least}s")
        amount = written
        if isinstance(written, str):
            amount = int(duration_seconds(form.func(written)) or 0)  # type: ignore[call-arg]
        if not least <= int(amount) <= most:
            raise ValueError(f"must be from {least} to {most} seconds")
        return int(amount)

    schema = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": DURATION_PATTERN,
        "maxLength": LONGEST_TEXT,
        "x-kubernetes-int-or-string": True,
    }
    return PlainValidator(seconds), WithJsonSchema(schema)


def _range_rule(name: str, least: int, most: int) -> Rule:
    """The bounds of ``_between`` for the API server; the field reports them when it is read."""
    field = f"self.{name}"
    written = f"duration(string({field}))"
    cel = (
        f"!has({field}) || (type({field}) == int ? {field} >= {least} && {field} <= {most} : "
        f"{written} >= duration('{least}s') && {written} <= duration('{most}s'))"
    )
    return Rule(f"{name} must be from {least} to {most} seconds", cel)


class NetworkInterface(ApiModel):
    """One network interface that every instance gets."""

    network_card_index: Index = 0
    """Index of the network card of the instance."""
    device_index: Index = 0
    """Index of the device on the network card."""
    interface_type: Literal["interface", "efa-only"] = "interface"
    """interface carries IP traffic; efa-only carries the traffic of an Elastic Fabric Adapter and no IP."""


class ConnectionTracking(ApiModel):
    """Idle timeouts of the connection tracking of security groups; shorter timeouts keep the table small."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        _range_rule("tcpEstablishedTimeout", 60, 432_000),
        _range_rule("udpStreamTimeout", 60, 180),
        _range_rule("udpTimeout", 30, 60),
    )

    tcp_established_timeout: Annotated[int, *_between(60, 432_000)] | None = None
    """For established TCP connections: 60s to 432000s (5 days)."""
    udp_stream_timeout: Annotated[int, *_between(60, 180)] | None = None
    """For UDP flows with more than one request and response: 60s to 180s."""
    udp_timeout: Annotated[int, *_between(30, 60)] | None = None
    """For UDP flows with traffic in one direction, or one request and response: 30s to 60s."""


class EnclaveOptions(ApiModel):
    """AWS Nitro Enclaves: isolated virtual machines inside the instances."""

    enabled: bool | None = None
    """Whether enclaves can be started on the instance. Types that cannot are not used for it."""


class CpuOptions(ApiModel):
    """CPU options of the instances."""

    nested_virtualization: Literal["enabled", "disabled"] | None = None
    """Whether the instance supports nested virtualization."""
