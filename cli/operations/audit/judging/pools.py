"""No pool is above its limits."""

from __future__ import annotations

from collections.abc import Iterable
from math import floor

from cli.operations.audit.finding import Finding, Graces
from cli.operations.audit.picture import Reading
from shared.domain.machines.commands import holder
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import usage
from shared.domain.resources import format_amount

MEMORY = "memory"
MEMORY_SHARE = 0.9
"""Of a machine's memory that is judged: a launch counts the memory that its type was believed to have, and a node that
has joined says what it has."""


def within_limits(reading: Reading, _: Graces) -> list[Finding]:
    """Pools that use more than their limits.

    What a command is about to take away does not count, nor the largest machine that is going: its replacement is
    there already. A pool whose limits were lowered after its newest machine was made is named only.
    """
    found = []
    for pool in reading.pools:
        mine = [one for one in reading.machines if one.pool_key == pool.key and one.provider_id]
        over = _over(pool, mine)
        if not over:
            continue
        newest = max(one.created_at for one in mine)
        said = _lowered(pool, reading.limits_at.get(pool.key, 0.0), newest)
        found.append(
            Finding(
                pool.key,
                "; ".join(part for part in (f"it has {over}", said) if part),
                f"kubectl describe {pool.key.lower()}; dovetail logs launcher",
                since=newest,
                twice=True,
                counts=not said,
            )
        )
    return found


def _lowered(pool: NodePool, written_at: float, newest: float) -> str:
    """Why its limits may be lower now than at its last launch; empty: they are not. ``written_at`` 0: nobody says."""
    if written_at:
        return "its limits were written after its newest machine" if written_at >= newest else ""
    changed = pool.generation > 1
    return (
        "it was changed, and its managedFields do not say when its limits were" if changed else ""
    )


def _over(pool: NodePool, machines: Iterable[Machine]) -> str:
    """``cpu 12 of 10`` for each limit that is exceeded."""
    used = usage((one, _size(one)) for one in machines if holder(one) is None)
    return ", ".join(
        f"{name} {format_amount(name, used[name])} of {format_amount(name, most)}"
        for name, most in sorted(pool.limits.items())
        if used.get(name, 0) > most
    )


def _size(machine: Machine) -> dict[str, int]:
    memory = floor(machine.capacity.get(MEMORY, 0) * MEMORY_SHARE)
    return {**machine.capacity, MEMORY: memory}
