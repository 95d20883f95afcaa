"""``dovetail cloud``: interruptions of instances, results of DescribeInstanceStatus, and zonal shifts."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.cloud.capacity import CapacityType
from cli.cloud.control import cloud_control, given, said
from cli.stack.running_stack import StackOption
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError


class Kind(StrEnum):
    """Kinds of events."""

    SPOT = "spot"
    REBALANCE = "rebalance"
    HEALTH = "health"
    STATE = "state"
    RESERVATION = "reservation"
    ASG = "asg"
    MALFORMED = "malformed"


class State(StrEnum):
    """Instance states."""

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    SHUTTING_DOWN = "shutting-down"
    TERMINATED = "terminated"


class Check(StrEnum):
    """Results of a status check."""

    OK = "ok"
    IMPAIRED = "impaired"
    INSUFFICIENT_DATA = "insufficient-data"
    INITIALIZING = "initializing"


class EventCode(StrEnum):
    """Scheduled events of EC2."""

    INSTANCE_REBOOT = "instance-reboot"
    SYSTEM_REBOOT = "system-reboot"
    SYSTEM_MAINTENANCE = "system-maintenance"
    INSTANCE_RETIREMENT = "instance-retirement"
    INSTANCE_STOP = "instance-stop"


WIRE_KINDS = {
    Kind.STATE: "state-change",
    Kind.RESERVATION: "capacity-reservation",
    Kind.ASG: "autoscaling",
}

IdsArgument = Annotated[
    list[str] | None, typer.Argument(help="Instance ids, as `dovetail cloud instances` shows.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Every live instance.")]
ZoneOption = Annotated[str | None, typer.Option(help="Live instances of this zone (* and ?).")]
TypeOption = Annotated[
    str | None, typer.Option("--type", help="Live instances of this type (* and ?).")
]
MarketOption = Annotated[
    CapacityType | None, typer.Option("--capacity-type", help="Live instances of this market.")
]
PercentOption = Annotated[
    float | None, typer.Option(help="Only this percentage of them, at least one.")
]
SeedOption = Annotated[
    int, typer.Option(help="Seed of the random choice; the same seed gives the same choice.")
]


def interrupt(
    kind: Annotated[Kind, typer.Argument(help="Kind of the event.")],
    instances: IdsArgument = None,
    everything: AllOption = False,
    zone: ZoneOption = None,
    instance_type: TypeOption = None,
    capacity_type: MarketOption = None,
    percent: PercentOption = None,
    seed: SeedOption = 0,
    notice: Annotated[
        float | None, typer.Option(help="spot: seconds from the notice to the termination (120).")
    ] = None,
    state: Annotated[
        State,
        typer.Option(
            help="state: the new state; stopping and terminating also change the instance."
        ),
    ] = State.STOPPING,
    heartbeat_timeout: Annotated[
        float | None,
        typer.Option(help="asg: seconds the hook waits for a heartbeat (3600), 1 to 7200."),
    ] = None,
    copies: Annotated[
        int, typer.Option(help="How often the queue delivers each message, 1 to 10.")
    ] = 1,
    foreign: Annotated[
        bool, typer.Option("--foreign", help="The instances belong to another cluster.")
    ] = False,
    message: Annotated[
        str | None,
        typer.Option(help="malformed: a known broken message, such as not-json; or --body."),
    ] = None,
    body: Annotated[str | None, typer.Option(help="malformed: your own message.")] = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Interrupt instances: send the event to the queue, then do what it announces.

    Kinds: spot (two-minute notice, then termination), rebalance (a recommendation), health (scheduled
    retirement), state (a change of state), reservation (a capacity reservation ends), asg (an auto
    scaling group terminates it, and its lifecycle hook waits), malformed (a message that no consumer can read).

    Examples:

      dovetail cloud interrupt spot i-0123456789abcdef0 --notice 30

      dovetail cloud interrupt spot --zone us-west-2a --percent 50 --seed 3

      dovetail cloud interrupt rebalance --all --copies 2

      dovetail cloud interrupt state i-0123456789abcdef0 --state stopping

      dovetail cloud interrupt asg i-0123456789abcdef0 --heartbeat-timeout 60

      dovetail cloud interrupt malformed --message not-json
    """
    control = cloud_control(directory)
    if kind is Kind.MALFORMED:
        text = given({"malformed": message or (None if body else "not-json"), "body": body})
        control.post("messages", {**text, "count": copies})
        said(f"{copies} message to the queue: {body or message or 'not-json'}")
        return
    chosen = _chosen(instances, everything, zone, instance_type, capacity_type, percent, seed)
    timings = {"noticeSeconds": notice, "heartbeatTimeoutSeconds": heartbeat_timeout}
    request = given(timings) | {
        "kind": WIRE_KINDS.get(kind, kind.value),
        "state": state.value,
        "copies": copies,
        "foreign": foreign,
    }
    _report(kind.value, control.post("interruptions", {**chosen, **request})["instanceIds"])


def status(
    instances: IdsArgument = None,
    everything: AllOption = False,
    zone: ZoneOption = None,
    instance_type: TypeOption = None,
    capacity_type: MarketOption = None,
    percent: PercentOption = None,
    seed: SeedOption = 0,
    instance: Annotated[Check, typer.Option(help="The instance status check.")] = Check.OK,
    system: Annotated[Check, typer.Option(help="The system status check.")] = Check.OK,
    ebs: Annotated[Check, typer.Option(help="The attached EBS status check.")] = Check.OK,
    since: Annotated[
        float, typer.Option(help="Seconds since the impaired checks began to fail.")
    ] = 300,
    event: Annotated[EventCode | None, typer.Option(help="A scheduled event.")] = None,
    event_in: Annotated[
        float, typer.Option("--in", help="Seconds until the scheduled event.")
    ] = 86_400,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Set the result of DescribeInstanceStatus for instances; without checks and event: healthy again.

    Examples:

      dovetail cloud status i-0123456789abcdef0 --instance impaired --since 180

      dovetail cloud status --zone us-west-2a --percent 30 --system impaired

      dovetail cloud status i-0123456789abcdef0 --event instance-retirement --in 3600

      dovetail cloud status i-0123456789abcdef0
    """
    chosen = _chosen(instances, everything, zone, instance_type, capacity_type, percent, seed)
    request: dict[str, Any] = {
        "instance": instance.value,
        "system": system.value,
        "ebs": ebs.value,
        "impairedForSeconds": since,
        "eventInSeconds": event_in,
    }
    if event is not None:
        request["event"] = event.value
    answer = cloud_control(directory).post("statuses", {**chosen, **request})
    _report("status set", answer["instanceIds"])


def shift(
    zone: Annotated[str, typer.Argument(help="Availability zone.")],
    end: Annotated[bool, typer.Option("--end", help="End the shift.")] = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Shift the cluster away from a zone (ARC zonal shift), until --end or reset.

    Dovetail reads zonal shifts every 30 s if ENABLE_ZONAL_SHIFT is true. It launches nothing in a shifted zone and
    leaves the instances of that zone unchanged.

    Examples:

      dovetail cloud shift us-west-2a

      dovetail cloud shift us-west-2a --end
    """
    cloud_control(directory).post("zonal-shift", {"zone": zone, "active": not end})
    said(f"no longer shifted away from {zone}" if end else f"shifted away from {zone}")


def _chosen(
    instances: list[str] | None,
    everything: bool,
    zone: str | None,
    instance_type: str | None,
    capacity_type: CapacityType | None,
    percent: float | None,
    seed: int,
) -> dict[str, Any]:
    where = given(
        {
            "zone": zone,
            "instanceType": instance_type,
            "capacityType": None if capacity_type is None else capacity_type.value,
            "percent": percent,
        }
    )
    if instances and (where or everything):
        raise ConfigurationError("give instance ids, or choose with options; not both")
    if instances:
        return {"instanceIds": instances}
    if not where and not everything:
        raise ConfigurationError(
            "no instances are chosen; give ids (see `dovetail cloud instances`), or choose with --all, "
            "--zone, --type, --capacity-type, --percent"
        )
    return {"where": {**where, "seed": seed}}


def _report(what: str, ids: list[str]) -> None:
    said(f"{what}: {len(ids)} instances")
    for instance_id in ids:
        said(f"  {instance_id}")
