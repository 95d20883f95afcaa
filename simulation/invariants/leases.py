"""Leader election: one holder per epoch, and no epoch twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from shared.kube.lease import LeaseTimes, Record, read_record
from shared.kube.resources import LEASES
from simulation.invariants.picture import Change, Picture

if TYPE_CHECKING:
    from simulation.trace import Event
    from simulation.world import World

ELECTED = ("-watcher", "-scheduler")
"""How the names of the Leases end."""


@dataclass
class OneWriterPerEpoch:
    """I9, F14: epochs never go backwards, each has one holder, and nobody takes a Lease that is not free or expired."""

    picture: Picture
    name: str = "one leader per epoch"
    kinds: tuple[str, ...] = ("api",)
    _holders: dict[str, dict[int, str]] = field(default_factory=dict)
    """Lease -> epoch -> who held it."""
    _written_at: dict[str, float] = field(default_factory=dict)
    """Lease -> when its holder wrote it last."""
    _rolled_back_at: float = float("-inf")

    def check(self, event: Event, world: World) -> list[str]:
        """Judged when a Lease is written."""
        change = self.picture.follow(event, world)
        if self.picture.rolled_back_at > self._rolled_back_at:
            self._rolled_back_at = self.picture.rolled_back_at
            self._holders.clear()
            self._written_at.clear()
        if change is None or change.resource is not LEASES or not change.key[2].endswith(ELECTED):
            return []
        if change.after is None:
            # What nobody remembers any more begins at 0 again.
            self._holders.pop(change.key[2], None)
            self._written_at.pop(change.key[2], None)
            return []
        return self._judge(change, event.at)

    def _judge(self, change: Change, at: float) -> list[str]:
        name = change.key[2]
        before = read_record(dict(change.before)) if change.before is not None else None
        after = read_record(dict(change.after or {}))
        found = _steps(name, before, after)
        if before is not None and before.holder and after.holder not in ("", before.holder):
            waited = at - self._written_at.get(name, float("-inf"))
            if waited < LeaseTimes().duration:
                found.append(
                    f"{after.holder} took {name} {waited:.1f} s after {before.holder} renewed it"
                )
        holders = self._holders.setdefault(name, {})
        if after.holder:
            known = holders.setdefault(after.epoch, after.holder)
            if known != after.holder:
                found.append(
                    f"epoch {after.epoch} of {name} has two holders: {known}, {after.holder}"
                )
        self._written_at[name] = at
        return found


def _steps(name: str, before: Record | None, after: Record) -> list[str]:
    if before is None or after.epoch >= before.epoch:
        return []
    return [f"the epoch of {name} went from {before.epoch} back to {after.epoch}"]
