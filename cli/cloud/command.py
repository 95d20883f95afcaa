"""``dovetail cloud``: inject faults into the AWS emulator, and inspect it.

Each command is one request to the emulator's control endpoint; docs/local/emulator.md describes them.
"""

from __future__ import annotations

from cli.cloud import capacity, events, faults, views
from cli.options import group

cloud = group(
    "Inject faults into the AWS emulator, and inspect it: capacity, faults, interruptions."
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
    views.bill,
    views.reset,
):
    cloud.command()(command)
