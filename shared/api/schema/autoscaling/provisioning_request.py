"""Schema of autoscaling.x-k8s.io/v1 ProvisioningRequest (GAT-04)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, ClassVar

from pydantic import Field
from pydantic.types import StringConstraints

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.kinds import Column, KindInfo, Resource, StatusCondition
from shared.api.schema.scalars import worded

NAME_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
Name = Annotated[str, *worded(NAME_PATTERN, "batch-1", 253)]
MOST_POD_SETS = 32
MOST_PODS = 5000
"""Of one request: each is planned like a pod."""


def _check_size(raw: Json) -> Iterable[tuple[Path, str]]:
    listed = raw.get("podSets")
    counts = (
        [one.get("count") for one in listed if isinstance(one, dict)]
        if isinstance(listed, list)
        else []
    )
    total = sum(count for count in counts if isinstance(count, int))
    if total > MOST_PODS:
        yield ("podSets",), f"{total} pods are asked for; {MOST_PODS} is the most of one request"


class Reference(ApiModel):
    """An object in the same namespace."""

    name: Name
    """Name of the object."""


class PodSet(ApiModel):
    """Pods of one shape."""

    pod_template_ref: Reference
    """The PodTemplate that describes one of the pods."""
    count: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """Number of the pods."""


class ProvisioningRequestSpec(ApiModel):
    """For which pods capacity is asked, and how. It never changes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule("spec is immutable; delete the object and create another one", "self == oldSelf"),
        Rule(f"at most {MOST_PODS} pods", "", _check_size),
    )

    pod_sets: Annotated[list[PodSet], Field(min_length=1, max_length=MOST_POD_SETS)]
    """The pods, by shape."""
    provisioning_class_name: Name
    """check-capacity.autoscaling.x-k8s.io: is there room on nodes that run?
    best-effort-atomic-scale-up.autoscaling.x-k8s.io: machines for all pods, or none. Objects of other classes are
    ignored."""
    parameters: Annotated[
        dict[str, Annotated[str, StringConstraints(max_length=255)]], Field(max_length=100)
    ] = {}
    """ValidUntilSeconds: how long is tried, from the creation of the object on. noRetry of check-capacity: "true" to
    fail at once if there is no room; partialCapacityCheck: each pod set by itself, "checkOnly" or "bookPartial"."""


class ProvisioningRequestStatus(ApiModel):
    """What came of the request."""

    conditions: list[StatusCondition] = []
    """Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked."""
    provisioning_class_details: dict[str, str] = {}
    """schedulablePodSets: the templates of the pod sets for which a check found room, as a JSON list."""


class ProvisioningRequest(Resource):
    """A ProvisioningRequest asks for capacity for a group of pods before they are created, as Kueue does."""

    INFO: ClassVar[KindInfo] = KindInfo(
        group="autoscaling.x-k8s.io",
        version="v1",
        kind="ProvisioningRequest",
        plural="provisioningrequests",
        short_names=("provreq", "provreqs"),
        categories=(),
        columns=(
            Column("Accepted", '.status.conditions[?(@.type=="Accepted")].status'),
            Column("Provisioned", '.status.conditions[?(@.type=="Provisioned")].status'),
            Column("Failed", '.status.conditions[?(@.type=="Failed")].status'),
            Column("Age", ".metadata.creationTimestamp", "date"),
        ),
        namespaced=True,
        also_served=("v1beta1",),
    )

    spec: ProvisioningRequestSpec
    """For which pods capacity is asked, and how. It never changes."""
    status: ProvisioningRequestStatus = ProvisioningRequestStatus()
    """What came of the request."""
