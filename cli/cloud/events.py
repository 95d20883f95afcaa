"""``dovetail cloud``: interruptions of instances, results of DescribeInstanceStatus, and zonal shifts."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from cli.cloud.capacity import CapacityType
from cli.cloud.control import CloudControl, cloud_control, given
from cli.options import SeedOption
from cli.printing import print_line
from cli.stack.environment import StackOption
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError

Kind = Literal["spot", "rebalance", "health", "state", "reservation", "asg", "malformed"]
State = Literal["pending", "running", "stopping", "stopped", "shutting-down", "terminated"]
Check = Literal["ok", "impaired", "insufficient-data", "initializing"]
EventCode = Literal[
    "instance-reboot",
    "system-reboot",
    "system-maintenance",
    "instance-retirement",
    "instance-stop",
]
WIRE_KINDS = {
    "state": "state-change",
    "reservation": "capacity-reservation",
    "asg": "autoscaling",
}
"""Kinds that the emulator knows by another name."""

KindArgument = Annotated[Kind, typer.Argument(help="Kind of the event.")]
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
NoticeOption = Annotated[
    float | None, typer.Option(help="spot: seconds from the notice to the termination (120).")
]
StateOption = Annotated[
    State,
    typer.Option(help="state: the new state; stopping and terminating also change the instance."),
]
HeartbeatOption = Annotated[
    float | None,
    typer.Option(help="asg: seconds the hook waits for a heartbeat (3600), 1 to 7200."),
]
CopiesOption = Annotated[
    int, typer.Option(help="How often the queue delivers each message, 1 to 10.")
]
ForeignOption = Annotated[
    bool, typer.Option("--foreign", help="The instances belong to another cluster.")
]
MessageOption = Annotated[
    str | None,
    typer.Option(help="malformed: a known broken message, such as not-json; or --body."),
]
BodyOption = Annotated[str | None, typer.Option(help="malformed: your own message.")]


def interrupt(
    kind: KindArgument,
    instances: IdsArgument = None,
    everything: AllOption = False,
    zone: ZoneOption = None,
    instance_type: TypeOption = None,
    capacity_type: MarketOption = None,
    percent: PercentOption = None,
    seed: SeedOption = 0,
    notice: NoticeOption = None,
    state: StateOption = "stopping",
    heartbeat_timeout: HeartbeatOption = None,
    copies: CopiesOption = 1,
    foreign: ForeignOption = False,
    message: MessageOption = None,
    body: BodyOption = None,
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
    if kind == "malformed":
        _send_malformed(control, message, body, copies)
        return
    chosen = _chosen(instances, everything, zone, instance_type, capacity_type, percent, seed)
    event = _event(kind, state, copies, foreign, notice, heartbeat_timeout)
    _report(kind, control.post("interruptions", {**chosen, **event})["instanceIds"])


def _event(
    kind: Kind,
    state: State,
    copies: int,
    foreign: bool,
    notice: float | None,
    heartbeat_timeout: float | None,
) -> dict[str, Any]:
    """What happens, as the emulator reads it. Seconds that are not given are left to the emulator."""
    timings = {"noticeSeconds": notice, "heartbeatTimeoutSeconds": heartbeat_timeout}
    what = {"kind": WIRE_KINDS.get(kind, kind), "state": state, "copies": copies}
    return {**given(timings), **what, "foreign": foreign}


def _send_malformed(
    control: CloudControl, message: str | None, body: str | None, copies: int
) -> None:
    known = message or (None if body else "not-json")
    control.post("messages", given({"malformed": known, "body": body}) | {"count": copies})
    print_line(f"{copies} message to the queue: {body or known}")


InstanceCheckOption = Annotated[Check, typer.Option(help="The instance status check.")]
SystemCheckOption = Annotated[Check, typer.Option(help="The system status check.")]
EbsCheckOption = Annotated[Check, typer.Option(help="The attached EBS status check.")]
SinceOption = Annotated[
    float, typer.Option(help="Seconds since the impaired checks began to fail.")
]
EventOption = Annotated[EventCode | None, typer.Option(help="A scheduled event.")]
EventInOption = Annotated[float, typer.Option("--in", help="Seconds until the scheduled event.")]


def status(
    instances: IdsArgument = None,
    everything: AllOption = False,
    zone: ZoneOption = None,
    instance_type: TypeOption = None,
    capacity_type: MarketOption = None,
    percent: PercentOption = None,
    seed: SeedOption = 0,
    instance: InstanceCheckOption = "ok",
    system: SystemCheckOption = "ok",
    ebs: EbsCheckOption = "ok",
    since: SinceOption = 300,
    event: EventOption = None,
    event_in: EventInOption = 86_400,
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
    checks = {"instance": instance, "system": system, "ebs": ebs, "impairedForSeconds": since}
    scheduled = {"event": event, "eventInSeconds": event_in}
    answer = cloud_control(directory).post("statuses", {**chosen, **checks, **given(scheduled)})
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
    print_line(f"no longer shifted away from {zone}" if end else f"shifted away from {zone}")


def _chosen(
    instances: list[str] | None,
    everything: bool,
    zone: str | None,
    instance_type: str | None,
    capacity_type: CapacityType | None,
    percent: float | None,
    seed: int,
) -> dict[str, Any]:
    kinds = {"zone": zone, "instanceType": instance_type, "capacityType": capacity_type}
    where = given({**kinds, "percent": percent})
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
    print_line(f"{what}: {len(ids)} instances")
    for instance_id in ids:
        print_line(f"  {instance_id}")
