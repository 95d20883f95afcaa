"""``dovetail cloud``: inject faults into the AWS emulator, and inspect it.

Each command is one request to the emulator's control endpoint; docs/local/emulator.md describes them.
"""

from __future__ import annotations

import typer

from cli.cloud import capacity, events, faults, views

cloud = typer.Typer(
    name="cloud",
    help="Inject faults into the AWS emulator, and inspect it: capacity, faults, interruptions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    capacity.ice,
    capacity.capacity,
    capacity.fleet,
    capacity.quota,
    capacity.subnet,
    capacity.reserve,
    faults.throttle,
    faults.fault,
    faults.lag,
    events.interrupt,
    events.status,
    events.shift,
    views.calls,
    views.instances,
    views.reset,
):
    cloud.command()(command)
