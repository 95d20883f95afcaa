"""What the scheduler did to Machines counts at once (BAT-05, EXE-08)."""

from __future__ import annotations

from msgspec.structs import replace

from shared.api.v1alpha5.machines import parse_machine
from shared.kube.client import Kube
from tests.services.conftest import create_machine
from tests.services.scheduler.conftest import Later, Scheduler


async def test_a_deleted_machine_is_busy_until_the_mirror_shows_it(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A budget must not be spent twice because the mirror stands still."""
    raw = await create_machine(kube)
    machine, commands = parse_machine(raw), scheduler.commands
    await scheduler.show(machines=[machine])
    assert await scheduler.parts.actions.delete(machine)
    commands.clock = Later(commands.clock, 1000.0)
    assert commands.busy() == {machine.uid}
    await scheduler.show(machines=[replace(machine, terminating=True)])
    assert commands.busy() == set()
