"""``dovetail cloud``: what the local AWS holds and was asked, and good weather again."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from cli.cloud_control import cloud_control, said
from cli.up import DirectoryOption
from local.stack import DEFAULT_DIRECTORY
from shared.domain import labels

JsonOption = Annotated[bool, typer.Option("--json", help="Everything, as JSON.")]
LastOption = Annotated[int, typer.Option(min=1, max=10_000, help="So many of the newest.")]


def instances(
    zone: Annotated[str | None, typer.Option(help="Only this zone.")] = None,
    as_json: JsonOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """List the EC2 instances: live ones, and those that ended within a minute.

    Examples:

      dovetail cloud instances

      dovetail cloud instances --zone us-west-2a --json
    """
    rows = cloud_control(directory).get("instances")["instances"]
    rows = [row for row in rows if zone in (None, row["zone"])]
    if as_json:
        Console().print_json(data=rows)
        return
    table = _table("instance", "type", "zone", "market", "state", "node", "machine")
    for row in rows:
        machine = row["tags"].get(labels.MACHINE_TAG, "")
        fields = ("instanceId", "instanceType", "zone", "lifecycle", "state", "privateDnsName")
        table.add_row(*(row[field] for field in fields), machine)
    Console().print(table)


def calls(
    action: Annotated[str | None, typer.Argument(help="Only this API action.")] = None,
    last: LastOption = 30,
    failed: Annotated[bool, typer.Option("--failed", help="Only those with an error.")] = False,
    trail: Annotated[
        bool, typer.Option("--trail", help="Launches as CloudTrail shows them.")
    ] = False,
    as_json: JsonOption = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Show the last API calls, with their errors and client tokens.

    Examples:

      dovetail cloud calls --failed

      dovetail cloud calls CreateFleet --last 5 --json

      dovetail cloud calls --trail
    """
    control = cloud_control(directory)
    if trail:
        events = control.get("trail")["events"][-last:]
        Console().print_json(data=events) if as_json else _print_trail(events)
        return
    query = {} if action is None else {"action": action}
    rows = control.get("calls", **query)["calls"]
    rows = [row for row in rows if row["code"] or not failed][-last:]
    Console().print_json(data=rows) if as_json else _print_calls(rows)


def reset(
    everything: Annotated[
        bool,
        typer.Option("--everything", help="Also forget every instance, message and template."),
    ] = False,
    directory: DirectoryOption = DEFAULT_DIRECTORY,
) -> None:
    """Good weather again: no faults, shortages, quotas, lag, shifts or impaired status. Instances stay.

    Examples:

      dovetail cloud reset

      dovetail cloud reset --everything
    """
    cloud_control(directory).post("reset" if everything else "clear", {})
    said("the local AWS is new" if everything else "faults, shortages, quotas and lag are gone")


def _print_calls(rows: list[dict[str, Any]]) -> None:
    table = _table("at (UTC)", "service", "action", "status", "error", "client token")
    for row in rows:
        at = datetime.fromtimestamp(row["at"], UTC).strftime("%H:%M:%S.%f")[:-3]
        token = str(row["parameters"].get("ClientToken", ""))
        status = str(row["status"])
        table.add_row(at, row["service"], row["action"], status, row["code"] or "", token)
    Console().print(table)


def _print_trail(events: list[dict[str, Any]]) -> None:
    table = _table("at", "event", "invoked by", "type", "zone", "min/max", "instances")
    for event in events:
        asked = event["requestParameters"]
        counts = asked["instancesSet"]["items"][0]
        table.add_row(
            event["eventTime"],
            event["eventName"],
            event["userIdentity"].get("invokedBy", ""),
            asked["instanceType"],
            asked["availabilityZone"],
            f"{counts['minCount']}/{counts['maxCount']}",
            " ".join(
                one["instanceId"] for one in event["responseElements"]["instancesSet"]["items"]
            ),
        )
    Console().print(table)


def _table(*headings: str) -> Table:
    table = Table(header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
