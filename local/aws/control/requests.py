"""Bodies of the control endpoint's POST requests, and its error. Unknown fields are refused, so that typing errors
show.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

from local.aws.capacity.stated import ICE, MESSAGES, Statement
from local.aws.http.faults import DROPPED, Fault, Mode, Occurrence

CHOSEN_LIMIT = 10_000
"""Most instances that one request may name or select."""


class ControlError(Exception):
    """A request that cannot be served; ``field`` and ``fix`` name the value to change."""

    def __init__(self, error: str, field: str, fix: str, status: int = 400) -> None:
        super().__init__(error)
        self.body = {"error": error, "field": field, "fix": fix}
        self.status = status


Answer = dict[str, Any] | None
"""What a handler adds to the answer ``{"ok": true}``."""


class ControlRequest(BaseModel):
    """camelCase on the wire, without unknown fields."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


Handler = tuple[type[ControlRequest] | None, Callable[[Any], Answer]]
"""The request of a path, None when the path has none, and the function that carries it out."""


def _known_code(code: str) -> str:
    if code not in MESSAGES:
        raise ValueError(f"use one of {', '.join(sorted(MESSAGES))}")
    return code


class CapacityRequest(ControlRequest):
    """``available`` null removes the limit; ``code`` is the answer of an exhausted pool. Type, zone and placement
    group may contain ``*`` and ``?``; without a placement group every launch meets the statement.
    """

    instance_type: str = Field(min_length=1, max_length=100)
    zone: str = Field(min_length=1, max_length=100)
    capacity_type: Literal["spot", "on-demand", "*"]
    available: int | None = Field(ge=0)
    code: str = ICE
    percent: float = Field(100.0, gt=0, le=100)
    seed: int = 0
    placement_group: str = Field("", max_length=255)

    _code = field_validator("code")(_known_code)

    def statement(self) -> Statement:
        """The statement for the stated capacity."""
        return Statement(**self.model_dump())


class FleetsRequest(ControlRequest):
    """The next ``count`` fleets give at most ``give`` instances."""

    give: int = Field(ge=0, le=10_000)
    count: int = Field(1, ge=1, le=10_000)
    code: str = ICE

    _code = field_validator("code")(_known_code)


class QuotasRequest(ControlRequest):
    """vCPUs that all live instances may have together; null removes a quota, and absent fields are not changed."""

    on_demand_vcpus: int | None = Field(None, ge=0)
    spot_vcpus: int | None = Field(None, ge=0)


class SubnetsRequest(ControlRequest):
    """Set the number of free addresses of one subnet, or of all subnets of a zone."""

    subnet_id: str | None = None
    zone: str | None = None
    free_addresses: int = Field(ge=0, le=65_536)

    @model_validator(mode="after")
    def _names_subnets(self) -> SubnetsRequest:
        if (self.subnet_id is None) == (self.zone is None):
            raise ValueError("give either subnetId or zone")
        return self


class ReservationRequest(ControlRequest):
    """A new capacity reservation."""

    instance_type: str
    zone: str
    count: int = Field(ge=1, le=1_000)
    criteria: Literal["open", "targeted"] = "targeted"
    kind: Literal["default", "capacity-block"] = "default"
    interruptible: bool = False
    ends_in_seconds: float | None = Field(None, gt=0, le=365 * 86_400)
    tags: dict[str, str] = Field(default={}, max_length=50)


class TemplatesRequest(ControlRequest):
    """Delete the launch templates whose names match, as an outside user would."""

    delete: str = Field(min_length=1, max_length=200)


class FaultRequest(ControlRequest):
    """``status`` 0 closes the connection without an answer; ``body`` replaces the whole answer, as a proxy between
    client and AWS would, with any status. Without ``count``, ``seconds`` and ``callsPerSecond`` the fault happens once.
    """

    action: str = Field(min_length=1, max_length=100)
    code: str = Field("InternalError", max_length=200)
    message: str = Field("An internal error has occurred", max_length=2000)
    status: int = Field(500, ge=DROPPED, le=599)
    count: int | None = Field(None, ge=1, le=10_000)
    skip: int = Field(0, ge=0, le=10_000)
    seconds: float | None = Field(None, gt=0, le=86_400)
    calls_per_second: float | None = Field(None, ge=0, le=10_000)
    burst: int = Field(1, ge=0, le=10_000)
    percent: float = Field(100.0, gt=0, le=100)
    seed: int = 0
    delay_seconds: float = Field(0.0, ge=0, le=300)
    mode: Mode = "before"
    body: str | None = Field(None, max_length=10_000)

    @model_validator(mode="after")
    def _is_an_error(self) -> Self:
        if self.status != DROPPED and self.status < 400 and self.body is None:
            raise ValueError("status: use 0 (no answer), 400 to 599, or any status with a body")
        return self

    def fault(self) -> Fault:
        """The fault that the request describes."""
        return Fault(self.code, self.message, self.status, self.mode, self.delay_seconds, self.body)

    def occurrence(self) -> Occurrence:
        """The calls that the fault applies to."""
        bounded = (self.count, self.seconds, self.calls_per_second)
        once = all(limit is None for limit in bounded)
        return Occurrence(
            count=1 if once else self.count,
            skip=self.skip,
            seconds=self.seconds,
            calls_per_second=self.calls_per_second,
            burst=self.burst,
            percent=self.percent,
            seed=self.seed,
        )


class Where(ControlRequest):
    """Selects live instances: all that match, or a share of them drawn from ``seed``."""

    zone: str = "*"
    instance_type: str = "*"
    capacity_type: Literal["spot", "on-demand", "*"] = "*"
    percent: float = Field(100.0, gt=0, le=100)
    seed: int = 0


class Chosen(ControlRequest):
    """The instances of a request, by id or by ``where``."""

    instance_id: str | None = None
    instance_ids: list[str] = Field(default=[], max_length=CHOSEN_LIMIT)
    where: Where | None = None

    def ids(self) -> list[str]:
        """The named ids."""
        return self.instance_ids or ([self.instance_id] if self.instance_id else [])


class InterruptionRequest(Chosen):
    """``foreign`` permits ids that this emulator does not know, for another cluster's instances. ``copies`` above 1:
    the queue delivers each message that many times, with the same id.
    """

    kind: Literal[
        "spot", "rebalance", "state-change", "health", "capacity-reservation", "autoscaling"
    ]
    heartbeat_timeout_seconds: float = Field(3600.0, ge=1, le=7200)
    """Only for autoscaling: heartbeat timeout of the hook, when a group is created for the instance."""
    notice_seconds: float | None = Field(None, ge=0, le=3600)
    state: Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"] = (
        "stopping"
    )
    foreign: bool = False
    copies: int = Field(1, ge=1, le=10)
    service: str | None = None
    event_type_code: str | None = None
    event_type_category: str | None = None

    def health_overrides(self) -> dict[str, str]:
        """Fields of the Health event's detail that the request replaces."""
        names = {"service", "event_type_code", "event_type_category"}
        return self.model_dump(include=names, exclude_none=True, by_alias=True)


class MessagesRequest(ControlRequest):
    """A message put directly into the queue: a known ``malformed`` one, or ``body``."""

    malformed: str | None = None
    body: str | None = Field(None, min_length=1, max_length=262_144)
    count: int = Field(1, ge=1, le=1_000)

    @model_validator(mode="after")
    def _has_a_body(self) -> MessagesRequest:
        if (self.malformed is None) == (self.body is None):
            raise ValueError("give either malformed or body")
        return self


Check = Literal["ok", "impaired", "insufficient-data", "initializing", "not-applicable"]
EventCode = Literal[
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
]


class StatusesRequest(Chosen):
    """The answer of DescribeInstanceStatus from now on (INT-30); all ok and no event restores health.

    ``impairedForSeconds``: how long the impaired checks have been failing.
    """

    instance: Check = "ok"
    system: Check = "ok"
    ebs: Check = "ok"
    impaired_for_seconds: float = Field(300.0, ge=0, le=86_400)
    event: EventCode | None = None
    event_in_seconds: float = Field(86_400.0, ge=0, le=30 * 86_400)


class LifecycleRequest(Chosen):
    """The metadata service's answer at autoscaling/target-lifecycle-state; null: 404."""

    target_lifecycle_state: str | None = Field(None, max_length=100)


class ZonalShiftRequest(ControlRequest):
    """Start or end a shift of the cluster away from a zone."""

    zone: str = Field(min_length=1, max_length=100)
    active: bool = True


class ClockRequest(ControlRequest):
    """Advance the emulator's clock."""

    step_seconds: float = Field(gt=0, le=30 * 86_400)


class SettingsRequest(ControlRequest):
    """Timings in seconds; absent fields are not changed. A lag without a seed is the same for every instance."""

    instance_pending_seconds: float | None = Field(None, ge=0, le=3600)
    instance_shutting_down_seconds: float | None = Field(None, ge=0, le=3600)
    interruption_notice_seconds: float | None = Field(None, ge=0, le=3600)
    terminated_visible_seconds: float | None = Field(None, ge=0, le=86400)
    describe_lag_seconds: float | None = Field(None, ge=0, le=600)
    describe_lag_seed: int | None = None
    tag_lag_seconds: float | None = Field(None, ge=0, le=600)
    template_lag_seconds: float | None = Field(None, ge=0, le=600)

    def changes(self) -> dict[str, Any]:
        """Only the fields that the request contains; a seed of null means no seed."""
        given = self.model_dump(exclude_unset=True)
        return {k: v for k, v in given.items() if v is not None or k == "describe_lag_seed"}
