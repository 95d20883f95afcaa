"""Expiration: v1 machines are deleted at once, v1alpha5 machines after a replacement exists (DIS-60..62, MAP-02)."""

from __future__ import annotations

from collections.abc import Iterable, Set

from shared.disruption.methods.replacing import replace_first
from shared.disruption.records import EXPIRED, Proposal, World
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool

METHOD = "expiration"


def forceful(machines: Iterable[Machine], *, now: float) -> list[Machine]:
    """Expired v1 machines, first expired first, initialised or not (DIS-60, ACC-80). Budgets do not apply."""
    due = [m for m in machines if not (m.api.replaces_expired or m.terminating)]
    expired = [m for m in due if _expires_at(m, m.expire_seconds) <= now]
    return sorted(expired, key=lambda m: (_expires_at(m, m.expire_seconds), m.name))


def propose(world: World, only: Set[str] | None = None) -> Proposal:
    """One command for the v1alpha5 machine that expired first among those whose pods fit elsewhere (DIS-61). ``only``:
    of these UIDs."""
    due = [
        c
        for c in world.candidates
        if c.pool.api.replaces_expired
        and (only is None or c.machine.uid in only)
        and _expires_at(c.machine, c.pool.expire_seconds) <= world.now
    ]
    due.sort(key=lambda c: (_expires_at(c.machine, c.pool.expire_seconds), c.name))
    return replace_first(world, due, METHOD, EXPIRED)


def expires_at(machine: Machine, pool: NodePool | None) -> float | None:
    """When the machine is too old, in seconds since the epoch; None: never."""
    follows = machine.api.replaces_expired
    seconds = (pool.expire_seconds if pool else None) if follows else machine.expire_seconds
    return None if seconds is None else _expires_at(machine, seconds)


def _expires_at(machine: Machine, seconds: float | None) -> float:
    return float("inf") if seconds is None else machine.created_at + seconds
