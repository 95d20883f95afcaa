"""dovetail.sh/v1alpha1 LaunchRecord: the intent of one CreateFleet call, written before the call."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from shared.api.crd.model import ApiModel
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition

MOST_MACHINES = 1000
MOST_TEMPLATES = 100
LONGEST_TOKEN = 64
"""EC2's limit of client tokens."""


class LaunchedMachine(ApiModel):
    """One machine."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the Machine or NodeClaim."""
    uid: Annotated[str, Field(min_length=1)]
    """Its uid: a later object of that name is another one."""
    kind: Literal["Machine", "NodeClaim"] | None = None
    """Its kind; a Machine when absent."""


class LaunchRecordSpec(ApiModel):
    """One intended CreateFleet call. Never changed after it is written."""

    machines: Annotated[list[LaunchedMachine], Field(min_length=1, max_length=MOST_MACHINES)]
    """The machines that the instances are for, sorted by name."""
    client_token: Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN)]
    """The idempotency token, also an instance tag."""
    attempt: Annotated[int, Field(ge=0)]
    """Counts definite failures of the same machines; part of the client token."""
    request: dict[str, Any]
    """The exact parameters of CreateFleet, launch template version pinned."""
    images: Annotated[dict[str, str], Field(max_length=MOST_TEMPLATES)] = {}
    """Launch template id to the image it starts, which EC2 does not say in its answer."""
    reservations: Annotated[dict[str, str], Field(max_length=MOST_TEMPLATES)] = {}
    """Launch template id to the capacity reservation it starts in."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Fencing epoch of the scheduler that asked."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the intent was recorded."""


class LaunchCondition(StatusCondition):
    """One observation about the launch."""

    severity: str | None = None
    """How a False status should be read; absent means error."""


class LaunchRecordStatus(ApiModel):
    """How far the launch got."""

    conditions: list[LaunchCondition] | None = None
    """What the controllers observed last."""


class LaunchRecord(Resource):
    """A LaunchRecord is the intent of one CreateFleet call, written before the call: after a crash the call is
    repeated with the same token."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="dovetail.sh",
        version="v1alpha1",
        kind="LaunchRecord",
        plural="launchrecords",
        categories=("dovetail",),
        columns=(
            Column("Token", ".spec.clientToken"),
            Column("Attempt", ".spec.attempt", type="integer"),
            Column("Age", ".metadata.creationTimestamp", type="date"),
        ),
    )

    spec: LaunchRecordSpec
    """One intended CreateFleet call. Never changed after it is written."""
    status: LaunchRecordStatus | None = None
    """How far the launch got."""
