"""``dovetail cloud``: make the local AWS misbehave, and look at it.

Each command is one request to the emulator's control endpoint; docs/emulator.md says what it does.
"""

from __future__ import annotations

import typer

from cli import cloud_capacity, cloud_events, cloud_faults, cloud_views

cloud = typer.Typer(
    name="cloud",
    help="Make the local AWS misbehave, and look at it: capacity, faults, interruptions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    cloud_capacity.ice,
    cloud_capacity.capacity,
    cloud_capacity.fleet,
    cloud_capacity.quota,
    cloud_capacity.subnet,
    cloud_capacity.reserve,
    cloud_faults.throttle,
    cloud_faults.fault,
    cloud_faults.lag,
    cloud_events.interrupt,
    cloud_events.status,
    cloud_events.shift,
    cloud_views.calls,
    cloud_views.instances,
    cloud_views.reset,
):
    cloud.command()(command)
