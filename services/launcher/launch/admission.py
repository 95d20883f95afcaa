"""May this machine be launched now? The last check before money is spent (BAT-08, F14, F25, OPS limits).

Read from the API server, not from any cache: the pool's limits, the safety limits, the pool's back-off after machines
that never registered, and the scheduler's fencing epoch.

About the epoch (F14): each machine carries the epoch of the scheduler that made it. After a change of leader the
machines of the old one are still desired: the new leader finds them on the API server and plans with them, so refusing
them all would delete good plans at every restart. What must not cost money is the plan of a scheduler that was paused,
lost its lease and woke up: it made machines for pods that the new leader had made others for. So a machine of an older
epoch is launched while it is older than every machine of a newer epoch, by the API server's own stamps, which nobody's
clock can falsify; one that came later is deleted, and its pods are planned anew if they still wait. A machine with a
record goes on whatever its epoch: EC2 may have its instance already.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass

from services.launcher.ports import Ports
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.errors import DovetailError, TransientError
from shared.kube import pools
from shared.kube.reading import or_none
from shared.log import get_logger
from shared.redis.mirror.pools.launch_backoff import LaunchBackoff, template_of

log = get_logger(__name__)

CurrentEpoch = Callable[[], Awaitable[int]]


class NotNow(DovetailError):
    """The machine waits; ``reason`` is for its condition, the message in words for people."""

    def __init__(self, reason: str, message: str, seconds: float | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.seconds = seconds


class StaleEpoch(DovetailError):
    """A scheduler without its lease made this machine."""


async def no_election() -> int:
    """The epoch where nobody is elected."""
    return 0


def epoch_of(machine: Machine) -> int:
    """Of the scheduler that made it; 0 for one that does not say."""
    text = machine.annotations.get(keys.EPOCH_ANNOTATION) or ""
    return int(text) if text.isascii() and text.isdigit() else 0


def first_made(machines: Iterable[Machine]) -> dict[int, float]:
    """When the oldest machine of each epoch was made."""
    found: dict[int, float] = {}
    for machine in machines:
        epoch = epoch_of(machine)
        found[epoch] = min(machine.created_at, found.get(epoch, machine.created_at))
    return found


def is_stale(machine: Machine, current: int, oldest: Mapping[int, float]) -> bool:
    """F14: was it made after a newer leader had begun to make machines? Stamps are whole seconds: of a tie the
    machine gets the benefit. ``oldest``: see ``first_made``.
    """
    epoch = epoch_of(machine)
    if epoch >= current:
        return False
    newer = (made_at for other, made_at in oldest.items() if other > epoch)
    return machine.created_at > min(newer, default=float("inf"))


@dataclass
class Admission:
    """The questions that need the API server or Redis."""

    ports: Ports
    backoff: LaunchBackoff
    current_epoch: CurrentEpoch = no_election

    async def epoch(self) -> int:
        """The scheduler's epoch now, 0 before its first election. Raises TransientError: then nothing is launched."""
        return await or_none(self.current_epoch()) or 0

    async def limits(self, pool_key: str) -> Mapping[str, int]:
        """The pool's limits as they are now. None for a machine without a pool, and where the pool is gone: its
        machines go with it.

        Raises InvalidObject for a pool that cannot be read.
        """
        kind, _, name = pool_key.rpartition("/")
        if kind not in pools.KINDS:
            return {}
        resource, parse = pools.KINDS[kind]
        raw = await or_none(self.ports.kube.get(resource, name))
        return parse(raw).require(pool_key).limits if raw is not None else {}

    async def check_backoff(self, machine: Machine) -> None:
        """Raises NotNow while the machine's pool waits. While Redis is away no pool does (R2) (F25)."""
        if not machine.pool_key:
            return
        template = template_of(machine)
        try:
            wait = await self.backoff.admit(machine.pool_key, machine.uid, template)
        except TransientError as error:
            log.warning("cannot read the launch back-off", error=error.message)
            return
        if wait:
            until = self.ports.clock.now() + wait
            text = (
                f"machines of {machine.pool_key} do not register: the next one is tried "
                f"after {rfc3339(until)}; look at the last one's console output"
            )
            raise NotNow("LaunchBackoff", text, max(1.0, wait))
