"""``dovetail cloud``: instances and recorded calls of the AWS emulator, and the removal of all faults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from cli.cloud.control import cloud_control, given
from cli.decisions.recorded import period
from cli.demo.display import short_name
from cli.options import OutputOption
from cli.printing import print_line, print_table
from cli.stack.environment import StackOption
from cli.text import print_json
from local.stack import DEFAULT_DIRECTORY
from shared.concurrency.clock import SystemClock
from shared.domain import labels

JsonOption = Annotated[bool, typer.Option("--json", help="The same as -o json.")]
LastOption = Annotated[int, typer.Option(min=1, max=10_000, help="Number of newest entries.")]


def instances(
    zone: Annotated[str | None, typer.Option(help="Only this zone.")] = None,
    output: OutputOption = "table",
    as_json: JsonOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """List the EC2 instances: live ones, and those that terminated within the last minute.

    Examples:

      dovetail cloud instances

      dovetail cloud instances --zone us-west-2a -o json
    """
    rows = cloud_control(directory).get("instances")["instances"]
    rows = [row for row in rows if zone in (None, row["zone"])]
    if as_json or output == "json":
        print_json(rows)
        return
    fields = ("instanceId", "instanceType", "zone", "lifecycle", "state")
    print_table(
        ("instance", "type", "zone", "market", "state", "node", "machine"),
        [
            (
                *(row[field] for field in fields),
                short_name(row["privateDnsName"]),
                row["tags"].get(labels.MACHINE_TAG, ""),
            )
            for row in rows
        ],
    )


def bill(
    begin: Annotated[str, typer.Option("--from", help="From this time on, or how long ago.")] = "",
    end: Annotated[str, typer.Option("--to", help="Up to this time. Default: now.")] = "",
    output: OutputOption = "table",
    as_json: JsonOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show what the instances have cost: seconds from the launch to the order to end, times the price of their pool.

    Examples:

      dovetail cloud bill

      dovetail cloud bill --from 1h -o json
    """
    first, last = period(begin, end, SystemClock())
    asked = {"from": str(first) if begin else None, "to": str(last) if end else None}
    found = cloud_control(directory).get("bill", **given(asked))
    if as_json or output == "json":
        print_json(found)
        return
    print_table(
        ("type", "zone", "market", "instances", "hours", "$"),
        [
            (
                line["instanceType"],
                line["zone"],
                line["capacityType"],
                str(line["instances"]),
                f"{line['seconds'] / 3600:.3f}",
                f"{line['dollars']:.6f}",
            )
            for line in found["lines"]
        ],
    )
    print_line(f"${found['dollars']:.6f} for {found['instanceSeconds'] / 3600:.3f} hours")


def calls(
    action: Annotated[str | None, typer.Argument(help="Only this API action.")] = None,
    last: LastOption = 30,
    failed: Annotated[bool, typer.Option("--failed", help="Only calls with an error.")] = False,
    trail: Annotated[
        bool, typer.Option("--trail", help="Launches in the form of CloudTrail events.")
    ] = False,
    output: OutputOption = "table",
    as_json: JsonOption = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Show the last API calls, with their errors and client tokens.

    Examples:

      dovetail cloud calls --failed

      dovetail cloud calls CreateFleet --last 5 -o json

      dovetail cloud calls --trail
    """
    control = cloud_control(directory)
    as_json = as_json or output == "json"
    if trail:
        events = control.get("trail")["events"][-last:]
        print_json(events) if as_json else _print_trail(events)
        return
    rows = control.get("calls", **given({"action": action}))["calls"]
    rows = [row for row in rows if row["code"] or not failed][-last:]
    print_json(rows) if as_json else _print_calls(rows)


def reset(
    everything: Annotated[
        bool,
        typer.Option(
            "--everything", help="Also remove every instance, message and launch template."
        ),
    ] = False,
    directory: StackOption = DEFAULT_DIRECTORY,
) -> None:
    """Remove all faults, shortages, quotas, lag, shifts and impaired statuses. Instances stay.

    Examples:

      dovetail cloud reset

      dovetail cloud reset --everything
    """
    cloud_control(directory).post("reset" if everything else "clear", {})
    print_line(
        "the AWS emulator is empty" if everything else "faults, shortages, quotas and lag are gone"
    )


def _print_calls(rows: list[dict[str, Any]]) -> None:
    print_table(
        ("at (UTC)", "service", "action", "status", "error", "client token"),
        [
            (
                datetime.fromtimestamp(row["at"], UTC).strftime("%H:%M:%S.%f")[:-3],
                row["service"],
                row["action"],
                str(row["status"]),
                row["code"] or "",
                str(row["parameters"].get("ClientToken", "")),
            )
            for row in rows
        ],
    )


def _print_trail(events: list[dict[str, Any]]) -> None:
    headings = ("at", "event", "invoked by", "type", "zone", "min/max", "instances")
    print_table(headings, [_trail_row(event) for event in events])


def _trail_row(event: dict[str, Any]) -> tuple[str, ...]:
    asked, launched = event["requestParameters"], event["responseElements"]["instancesSet"]["items"]
    counts = asked["instancesSet"]["items"][0]
    return (
        event["eventTime"],
        event["eventName"],
        event["userIdentity"].get("invokedBy", ""),
        asked["instanceType"],
        asked["availabilityZone"],
        f"{counts['minCount']}/{counts['maxCount']}",
        " ".join(one["instanceId"] for one in launched),
    )
