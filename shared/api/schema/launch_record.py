"""Schema of dovetail.sh/v1alpha1 LaunchRecord: one CreateFleet call, recorded before it is made."""

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
    """A machine that the launch is for."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the Machine or NodeClaim."""
    uid: Annotated[str, Field(min_length=1)]
    """Its uid, which distinguishes it from a later object with the same name."""
    kind: Literal["Machine", "NodeClaim"] | None = None
    """Its kind; Machine when absent."""


class LaunchRecordSpec(ApiModel):
    """One intended CreateFleet call; never changed after it is written."""

    machines: Annotated[list[LaunchedMachine], Field(min_length=1, max_length=MOST_MACHINES)]
    """The machines that the instances are for, sorted by name."""
    client_token: Annotated[str, Field(min_length=1, max_length=LONGEST_TOKEN)]
    """The idempotency token, also an instance tag."""
    attempt: Annotated[int, Field(ge=0)]
    """Number of definite failures of the same machines; part of the client token."""
    request: dict[str, Any]
    """The exact parameters of CreateFleet, with a fixed launch template version."""
    images: Annotated[dict[str, str], Field(max_length=MOST_TEMPLATES)] = {}
    """Launch template id to the image it starts, which is not part of EC2's response."""
    reservations: Annotated[dict[str, str], Field(max_length=MOST_TEMPLATES)] = {}
    """Launch template id to the capacity reservation it starts in."""
    placement_group: Annotated[str, Field(max_length=100)] | None = None
    """Id of the placement group that the instances start in."""
    epoch: Annotated[int, Field(ge=0)] | None = None
    """Fencing epoch of the scheduler that requested the launch."""
    created_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the intent was recorded."""


class LaunchCondition(StatusCondition):
    """An observation about the launch."""

    severity: str | None = None
    """How serious a False status is; absent means error."""


class LaunchRecordStatus(ApiModel):
    """Progress of the launch."""

    conditions: list[LaunchCondition] | None = None
    """Latest observations of the controllers."""


class LaunchRecord(Resource):
    """A LaunchRecord records one CreateFleet call before it is made, so that after a crash the call is repeated with
    the same token."""

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
    """One intended CreateFleet call; never changed after it is written."""
    status: LaunchRecordStatus | None = None
    """Progress of the launch."""
