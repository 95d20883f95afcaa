"""What a scheduler remembers of its commands when it lost its Lease and leads again (EXE-02, EXE-04, F14)."""

from __future__ import annotations

import asyncio

from shared.domain import labels as keys
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from shared.runtime.leadership import Leadership
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import (
    LARGE,
    begun,
    first_command,
    initialise,
    is_deleted,
    oversized,
    shown,
)
from tests.support.planning.disruption import pods_on

__all__ = ["oversized"]


async def test_a_command_whose_record_was_never_written_is_forgotten(
    oversized: Scheduler, kube: Kube
) -> None:
    """EXE-02, F14: the Lease was lost while the record was written; the same process may lead again a moment later."""
    for pod in pods_on("large", 2):
        await oversized.hide("pods", pod.key)
    command, world = await first_command(oversized.disruption)
    assert not command.replacements
    beginning = asyncio.create_task(oversized.commands.start(command, "1", world))
    await asyncio.sleep(0)
    beginning.cancel()
    await asyncio.gather(beginning, return_exceptions=True)
    assert oversized.commands.records() == []
    await oversized.commands.step()
    assert not await is_deleted(kube)


async def test_a_command_of_an_earlier_epoch_is_what_its_objects_say(
    oversized: Scheduler, kube: Kube
) -> None:
    """EXE-04, F14: another scheduler led meanwhile, and took it back when its replacement was ready."""
    await ready_without_record(oversized, kube)
    oversized.commands.actions.leadership = LaterTerm(None, oversized.commands.clock)
    await oversized.commands.step()
    assert not await is_deleted(kube)


async def test_a_machine_is_deleted_only_for_a_command_that_is_on_it(
    oversized: Scheduler, kube: Kube
) -> None:
    """EXE-04: whatever this scheduler remembers; it led all the time, or won the Lease again before another did."""
    await ready_without_record(oversized, kube)
    assert oversized.commands.records()
    await oversized.commands.step()
    assert not await is_deleted(kube)
    assert oversized.commands.records() == []


async def ready_without_record(scheduler: Scheduler, kube: Kube) -> None:
    """A command whose replacement is ready, and whose record somebody took off the machine."""
    replacement = await begun(scheduler, kube)
    await initialise(kube, replacement.name)
    note = {"metadata": {"annotations": {keys.COMMAND_ANNOTATION: None}}}
    await kube.patch(NODE_CLAIMS, LARGE.machine.name, note)
    await shown(scheduler, kube)


class LaterTerm(Leadership):
    """It leads in a later epoch."""

    @property
    def epoch(self) -> int:
        return 7
