"""``dovetail cloud``: capacity of the emulated EC2: shortages, quotas, free addresses, reservations."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from cli.cloud.control import cloud_control, given
from cli.options import SeedOption
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError

ICE = "InsufficientInstanceCapacity"
UNLIMITED = "unlimited"


CapacityType = Literal["spot", "on-demand", "*"]
TypeArgument = Annotated[str, typer.Argument(help="Instance type, with * and ? as wildcards.")]
ZoneArgument = Annotated[str, typer.Argument(help="Availability zone, with * and ?.")]
MarketArgument = Annotated[CapacityType, typer.Argument(help="Market; * is both.")]
CodeOption = Annotated[str, typer.Option(help="Error code that an exhausted pool returns.")]
PercentOption = Annotated[
    float | None, typer.Option(help="Exhaust only this percentage of the matching pools.")
]
GroupOption = Annotated[
    str,
    typer.Option(
        "--placement-group", help="Only launches into placement groups of this name, with * and ?."
    ),
]
AllButOption = Annotated[
    float | None, typer.Option(help="Exhaust all matching pools except this percentage.")
]


def ice(
    instance_type: TypeArgument = "*",
    zone: ZoneArgument = "*",
    capacity_type: MarketArgument = "*",
    code: CodeOption = ICE,
    percent: PercentOption = None,
    all_but: AllButOption = None,
    seed: SeedOption = 0,
    placement_group: GroupOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Exhaust the capacity of pools (ICE), until `dovetail cloud capacity ... unlimited` or reset.

    A pool is one instance type in one zone, spot or on-demand. Quote wildcards for the shell. The
    latest command for a pool counts: exhaust all pools first, then make single pools available again.

    Examples:

      dovetail cloud ice m5.large us-west-2a spot

      dovetail cloud ice '*' us-west-2b

      dovetail cloud ice '*' '*' spot --all-but 10 --seed 7

      dovetail cloud ice 'c5.*' us-west-2a --placement-group close

      dovetail cloud ice '*' '*' spot --code AuthFailure.ServiceLinkedRoleCreationNotPermitted
    """
    body = _statement(instance_type, zone, capacity_type, 0, code, placement_group)
    body |= {"percent": exhausted_share(percent, all_but), "seed": seed}
    answer = cloud_control(directory).post("capacity", body)
    print_line(f"no capacity: {_pool(body)}, {answer['instanceTypes']} instance types match")


def exhausted_share(percent: float | None, all_but: float | None) -> float:
    """The percentage of the matching pools that is exhausted. Raises ConfigurationError."""
    if percent is not None and all_but is not None:
        raise ConfigurationError("give --percent or --all-but, not both")
    share = percent if all_but is None else 100 - all_but
    if share is None:
        return 100
    if not 0 < share <= 100:
        raise ConfigurationError(
            "the percentage of exhausted pools must be above 0 and at most 100"
        )
    return share


ShownTypeArgument = Annotated[str | None, typer.Argument(help="Instance type, with * and ?.")]
NumberArgument = Annotated[
    str, typer.Argument(help="Instances left in each matching pool, or `unlimited`.")
]


def capacity(
    instance_type: ShownTypeArgument = None,
    zone: ZoneArgument = "*",
    capacity_type: MarketArgument = "*",
    number: NumberArgument = UNLIMITED,
    code: CodeOption = ICE,
    placement_group: GroupOption = "",
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Set how many instances pools have left; without arguments, show the current settings.

    The number applies to each matching pool, and launches reduce it. A fleet that requests more
    instances gets those that are left, and an error for the rest.

    Examples:

      dovetail cloud capacity

      dovetail cloud capacity m5.large us-west-2a spot 3

      dovetail cloud capacity 'c5.*' '*' '*' unlimited
    """
    control = cloud_control(directory)
    if instance_type is None:
        _print_capacity(control.get("capacity"))
        return
    available = available_of(number)
    body = _statement(instance_type, zone, capacity_type, available, code, placement_group)
    control.post("capacity", body)
    print_line(f"{number} left in each pool of {_pool(body)}")


def available_of(number: str) -> int | None:
    """The number of instances that are left; None is unlimited. Raises ConfigurationError."""
    if number == UNLIMITED:
        return None
    if not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"number {number}: use 0, 1, 2, ... or `{UNLIMITED}`")
    return int(number)


def fleet(
    give: Annotated[int, typer.Argument(help="Most instances that a fleet call returns.")],
    count: Annotated[int, typer.Option(help="Number of fleet calls to limit.")] = 1,
    code: CodeOption = ICE,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Limit the next fleet calls: some instances, and errors for the rest in the same answer.

    Examples:

      dovetail cloud fleet 1

      dovetail cloud fleet 0 --count 3 --code MaxFleetCountExceeded
    """
    cloud_control(directory).post("fleets", {"give": give, "count": count, "code": code})
    print_line(f"the next {count} fleets give at most {give} instances ({code})")


def quota(
    on_demand: Annotated[
        int | None, typer.Option(help="vCPUs of live on-demand instances (VcpuLimitExceeded).")
    ] = None,
    spot: Annotated[
        int | None,
        typer.Option(help="vCPUs of live spot instances (MaxSpotInstanceCountExceeded)."),
    ] = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Set the account's vCPU quotas; without options, lift both.

    Examples:

      dovetail cloud quota --spot 32

      dovetail cloud quota
    """
    quotas = {"onDemandVcpus": on_demand, "spotVcpus": spot}
    limited = given(quotas)
    cloud_control(directory).post("quotas", limited or quotas)
    print_line(", ".join(f"{name} {value}" for name, value in limited.items()) or "no quotas")


def subnet(
    where: Annotated[
        str, typer.Argument(help="A subnet id, or a zone for all subnets of the zone.")
    ],
    free: Annotated[int, typer.Argument(help="Number of free addresses.")],
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Set the number of free addresses of a subnet (InsufficientFreeAddressesInSubnet).

    DescribeSubnets returns the number. Launches reduce it, and terminated instances increase it.

    Examples:

      dovetail cloud subnet us-west-2a 0

      dovetail cloud subnet subnet-0123456789abcdef0 5
    """
    field = "subnetId" if where.startswith("subnet-") else "zone"
    answer = cloud_control(directory).post("subnets", {field: where, "freeAddresses": free})
    print_line(f"{free} free addresses in {', '.join(answer['subnets'])}")


ExactTypeArgument = Annotated[str, typer.Argument(help="Instance type.")]
ExactZoneArgument = Annotated[str, typer.Argument(help="Availability zone.")]
ReservedArgument = Annotated[int, typer.Argument(help="Number of reserved instances.")]
OpenOption = Annotated[
    bool, typer.Option("--open", help="Every matching on-demand launch uses the reservation.")
]
KindOption = Annotated[
    Literal["default", "capacity-block"],
    typer.Option(
        help="Kind of the reservation; a capacity block serves only launches of the market capacity-block."
    ),
]
InterruptibleOption = Annotated[
    bool,
    typer.Option("--interruptible", help="The owner of the reservation may reclaim its instances."),
]
EndsInOption = Annotated[float | None, typer.Option(help="Seconds until the reservation ends.")]
TagOption = Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")]


def reserve(
    instance_type: ExactTypeArgument,
    zone: ExactZoneArgument,
    count: ReservedArgument,
    open_to_all: OpenOption = False,
    kind: KindOption = "default",
    interruptible: InterruptibleOption = False,
    ends_in: EndsInOption = None,
    tag: TagOption = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Create an On-Demand Capacity Reservation; a full one answers ReservationCapacityExceeded.

    Examples:

      dovetail cloud reserve m5.large us-west-2a 4 --tag team=red

      dovetail cloud reserve p4d.24xlarge us-west-2a 1 --kind capacity-block --ends-in 3600
    """
    pool = {"instanceType": instance_type, "zone": zone, "count": count}
    criteria = "open" if open_to_all else "targeted"
    how = {"criteria": criteria, "kind": kind, "interruptible": interruptible}
    limits = given({"tags": tags_of(tag or []), "endsInSeconds": ends_in})
    answer = cloud_control(directory).post("reservations", {**pool, **how, **limits})
    print_line(str(answer["reservationId"]))


def _statement(
    instance_type: str,
    zone: str,
    capacity_type: CapacityType,
    available: int | None,
    code: str,
    placement_group: str = "",
) -> dict[str, Any]:
    return {
        "instanceType": instance_type,
        "zone": zone,
        "capacityType": capacity_type,
        "available": available,
        "code": code,
        "placementGroup": placement_group,
    }


NO_SPOT_ROLE = _statement("*", "*", "spot", 0, "AuthFailure.ServiceLinkedRoleCreationNotPermitted")
"""Refuses all spot launches, as for a missing service-linked role (LCH-63)."""


def _pool(body: dict[str, Any]) -> str:
    group = body["placementGroup"]
    inside = f", placement group {group}" if group else ""
    return f"{body['instanceType']} in {body['zone']}, {body['capacityType']}{inside}"


def tags_of(texts: list[str]) -> dict[str, str]:
    """The tags of KEY=VALUE texts; the last one of a key counts. Raises ConfigurationError."""
    return dict(_tag(text) for text in texts)


def _tag(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise ConfigurationError(f"--tag {text}: use KEY=VALUE")
    return key, value


_CAPACITY_COLUMNS = (
    "type", "zone", "market", "placement group", "left of each", "share", "used", "answers",
)  # fmt: skip


def _print_capacity(stated: dict[str, Any]) -> None:
    rows = [_capacity_row(statement) for statement in stated["statements"]]
    if rows:
        print_table(_CAPACITY_COLUMNS, rows)
    else:
        print_line("every pool is unlimited")
    for cut in stated["cuts"]:
        print_line(f"the next {cut['count']} fleets give at most {cut['give']} ({cut['code']})")
    for name, vcpus in stated["quotas"].items():
        if vcpus is not None:
            print_line(f"quota {name} {vcpus}")


def _capacity_row(statement: dict[str, Any]) -> tuple[str, ...]:
    left = statement["available"]
    return (
        statement["instanceType"],
        statement["zone"],
        statement["capacityType"],
        statement["placementGroup"] or "-",
        UNLIMITED if left is None else str(left),
        f"{statement['percent']:g}%",
        str(sum(statement["used"].values())),
        statement["code"],
    )
