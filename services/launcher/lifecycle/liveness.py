"""A Machine without an instance, or without a registered node, is deleted when its time is up (LCH-76)."""

from __future__ import annotations

from dataclasses import dataclass

from services.launcher.lifecycle.stages import REGISTRATION_TIMEOUT, Timeout, timed_out
from services.launcher.machine_writer import MachineWriter
from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Machine
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror.pools.pool_health import PoolHealth
from shared.settings import LauncherSettings

log = get_logger(__name__)


@dataclass
class Liveness:
    """Deletes Machines whose time is up."""

    clock: Clock
    settings: LauncherSettings
    metrics: Metrics
    writer: MachineWriter
    health: PoolHealth

    async def expire(self, machine: Machine) -> bool:
        """True when the Machine's time is up."""
        reason = timed_out(
            machine,
            now=self.clock.now(),
            launch_seconds=self.settings.launch_timeout,
            registration_seconds=self.settings.registration_timeout,
        )
        if reason is None:
            return False
        await self._delete(machine, reason)
        return True

    async def _delete(self, machine: Machine, reason: Timeout) -> None:
        late = reason == REGISTRATION_TIMEOUT
        seconds = self.settings.registration_timeout if late else self.settings.launch_timeout
        old = machine.api.older_names and late
        text = "terminating due to registration ttl" if old else "terminating due to timeout"
        log.debug(text, machine=machine.name, timeout=seconds, reason=reason)
        if not await self.writer.delete(machine, reason):
            return
        # Counted after the deletion was ordered: the next review does not order it again, so it counts once.
        self.metrics.count_disrupted(machine, reason)
        await self.writer.event(
            machine, "Warning", "FailedRegistration" if late else "FailedLaunch",
            f"deleted: no node registered within {seconds:.0f} s; look at the instance's console output"
            if late
            else f"deleted: no instance within {seconds:.0f} s; see the condition Launched",
        )  # fmt: skip
        if late:
            await self.health.failed(machine)
