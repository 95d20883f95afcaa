"""``dovetail cloud``: how much EC2 has left."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from cli.cloud.control import CloudControl, cloud_control, said
from cli.stack.running_stack import StackOption
from cli.tables import print_table
from local.stack import DEFAULT_DIRECTORY
from shared.errors import ConfigurationError

ICE = "InsufficientInstanceCapacity"
UNLIMITED = "unlimited"


class CapacityType(StrEnum):
    """Markets of EC2, and both."""

    SPOT = "spot"
    ON_DEMAND = "on-demand"
    ANY = "*"


class ReservationKind(StrEnum):
    """What was bought: capacity on demand, or a block of it for machine learning."""

    DEFAULT = "default"
    CAPACITY_BLOCK = "capacity-block"


TypeArgument = Annotated[str, typer.Argument(help="Instance type, with * and ? as wildcards.")]
ZoneArgument = Annotated[str, typer.Argument(help="Availability zone, with * and ?.")]
MarketArgument = Annotated[CapacityType, typer.Argument(help="Market; * is both.")]
CodeOption = Annotated[str, typer.Option(help="Error code that the empty pool answers with.")]
SeedOption = Annotated[int, typer.Option(help="Draws the share; the same seed, the same draw.")]


def ice(
    instance_type: TypeArgument = "*",
    zone: ZoneArgument = "*",
    capacity_type: MarketArgument = CapacityType.ANY,
    code: CodeOption = ICE,
    percent: Annotated[
        float | None, typer.Option(help="Empty only this share of the pools that match.")
    ] = None,
    all_but: Annotated[
        float | None, typer.Option(help="Empty all matching pools but this share, in percent.")
    ] = None,
    seed: SeedOption = 0,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Let pools run out of capacity (ICE), until `dovetail cloud capacity ... unlimited` or reset.

    A pool is one instance type in one zone, spot or on-demand. Quote wildcards for the shell. The
    latest word about a pool counts: empty everything, then give single pools back.

    Examples:

      dovetail cloud ice m5.large us-west-2a spot

      dovetail cloud ice '*' us-west-2b

      dovetail cloud ice '*' '*' spot --all-but 10 --seed 7

      dovetail cloud ice '*' '*' spot --code AuthFailure.ServiceLinkedRoleCreationNotPermitted
    """
    if percent is not None and all_but is not None:
        raise ConfigurationError("--percent and --all-but say the same thing twice; give one")
    share = percent if all_but is None else 100 - all_but
    if share is not None and not 0 < share <= 100:
        raise ConfigurationError("the share of empty pools must be above 0 and at most 100 percent")
    body = _statement(instance_type, zone, capacity_type, 0, code)
    body |= {"percent": 100 if share is None else share, "seed": seed}
    answer = cloud_control(directory).post("capacity", body)
    said(f"no capacity: {_pool(body)}, {answer['instanceTypes']} instance types match")


def capacity(
    instance_type: Annotated[
        str | None, typer.Argument(help="Instance type, with * and ?.")
    ] = None,
    zone: ZoneArgument = "*",
    capacity_type: MarketArgument = CapacityType.ANY,
    number: Annotated[
        str, typer.Argument(help="Instances left in each matching pool, or `unlimited`.")
    ] = UNLIMITED,
    code: CodeOption = ICE,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Say how many instances pools have left; without arguments, show what was said.

    Each pool that matches has the number of its own, and launches use it up. A fleet that asks for
    more gets what there is, and an error for the rest.

    Examples:

      dovetail cloud capacity

      dovetail cloud capacity m5.large us-west-2a spot 3

      dovetail cloud capacity 'c5.*' '*' '*' unlimited
    """
    control = cloud_control(directory)
    if instance_type is None:
        _print_capacity(control.get("capacity"))
        return
    if number != UNLIMITED and not (number.isascii() and number.isdigit()):
        raise ConfigurationError(f"number {number}: use 0, 1, 2, ... or `{UNLIMITED}`")
    available = None if number == UNLIMITED else int(number)
    body = _statement(instance_type, zone, capacity_type, available, code)
    control.post("capacity", body)
    said(f"{number} left in each pool of {_pool(body)}")


def fleet(
    give: Annotated[int, typer.Argument(help="Most instances that a fleet gets.")],
    count: Annotated[int, typer.Option(help="So many of the next fleets are cut.")] = 1,
    code: CodeOption = ICE,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Cut the next fleets short: some instances, and errors for the rest in the same answer.

    Examples:

      dovetail cloud fleet 1

      dovetail cloud fleet 0 --count 3 --code MaxFleetCountExceeded
    """
    cloud_control(directory).post("fleets", {"give": give, "count": count, "code": code})
    said(f"the next {count} fleets give at most {give} instances ({code})")


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
    given = {"onDemandVcpus": on_demand, "spotVcpus": spot}
    lifted = on_demand is None and spot is None
    body = given if lifted else {name: value for name, value in given.items() if value is not None}
    cloud_control(directory).post("quotas", body)
    said("no quotas" if lifted else ", ".join(f"{name} {value}" for name, value in body.items()))


def subnet(
    where: Annotated[str, typer.Argument(help="A subnet id, or a zone for all its subnets.")],
    free: Annotated[int, typer.Argument(help="Addresses that are free from now on.")],
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Leave a subnet with few free addresses (InsufficientFreeAddressesInSubnet).

    DescribeSubnets shows the number; launches take from it and ended instances give back.

    Examples:

      dovetail cloud subnet us-west-2a 0

      dovetail cloud subnet subnet-0123456789abcdef0 5
    """
    field = "subnetId" if where.startswith("subnet-") else "zone"
    answer = cloud_control(directory).post("subnets", {field: where, "freeAddresses": free})
    said(f"{free} free addresses in {', '.join(answer['subnets'])}")


def reserve(
    instance_type: Annotated[str, typer.Argument(help="Instance type.")],
    zone: Annotated[str, typer.Argument(help="Availability zone.")],
    count: Annotated[int, typer.Argument(help="Instances that are kept free.")],
    open_to_all: Annotated[
        bool, typer.Option("--open", help="Every matching on-demand launch uses it.")
    ] = False,
    kind: Annotated[
        ReservationKind, typer.Option(help="A capacity block serves launches of its own market.")
    ] = ReservationKind.DEFAULT,
    interruptible: Annotated[
        bool, typer.Option("--interruptible", help="Its owner may take the instances back.")
    ] = False,
    ends_in: Annotated[float | None, typer.Option(help="Seconds until it ends.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="KEY=VALUE; may be repeated.")] = None,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Make an On-Demand Capacity Reservation; a full one answers ReservationCapacityExceeded.

    Examples:

      dovetail cloud reserve m5.large us-west-2a 4 --tag team=red

      dovetail cloud reserve p4d.24xlarge us-west-2a 1 --kind capacity-block --ends-in 3600
    """
    tags = dict(_tag(text) for text in tag or [])
    body: dict[str, Any] = {
        "instanceType": instance_type,
        "zone": zone,
        "count": count,
        "criteria": "open" if open_to_all else "targeted",
        "kind": kind.value,
        "interruptible": interruptible,
        "tags": tags,
    }
    if ends_in is not None:
        body["endsInSeconds"] = ends_in
    answer = cloud_control(directory).post("reservations", body)
    said(str(answer["reservationId"]))


def forbid_spot_role(control: CloudControl) -> None:
    """Spot launches are refused for the missing service-linked role (LCH-63)."""
    code = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
    control.post("capacity", _statement("*", "*", CapacityType.SPOT, 0, code))


def _statement(
    instance_type: str, zone: str, capacity_type: CapacityType, available: int | None, code: str
) -> dict[str, Any]:
    return {
        "instanceType": instance_type,
        "zone": zone,
        "capacityType": capacity_type.value,
        "available": available,
        "code": code,
    }


def _pool(body: dict[str, Any]) -> str:
    return f"{body['instanceType']} in {body['zone']}, {body['capacityType']}"


def _tag(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise ConfigurationError(f"--tag {text}: use KEY=VALUE")
    return key, value


def _print_capacity(stated: dict[str, Any]) -> None:
    rows = [
        (
            row["instanceType"],
            row["zone"],
            row["capacityType"],
            UNLIMITED if row["available"] is None else str(row["available"]),
            f"{row['percent']:g}%",
            str(sum(row["used"].values())),
            row["code"],
        )
        for row in stated["statements"]
    ]
    if rows:
        print_table(("type", "zone", "market", "left of each", "share", "used", "answers"), rows)
    else:
        said("every pool is unlimited")
    for cut in stated["cuts"]:
        said(f"the next {cut['count']} fleets give at most {cut['give']} ({cut['code']})")
    for name, vcpus in stated["quotas"].items():
        if vcpus is not None:
            said(f"quota {name} {vcpus}")
