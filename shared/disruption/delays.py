"""When emptiness and consolidation wait after a machine came, went or a disruption failed, as with Cluster Autoscaler's
delays of scale-down.

A pool with a delay of its own goes by its own machines; the others go by those of the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from shared.concurrency.clock import credible
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.workloads.scale_down import ScaleDownRules

CLUSTER = ""
"""Stands where a pool's key would: changes of any pool."""
WAITS = "nodes are left alone for a while:"
"""Begin of the reason of every delay."""


class Changes(msgspec.Struct, frozen=True, omit_defaults=True):
    """When something happened last, in seconds since the epoch; 0: not known."""

    added: float = 0.0
    deleted: float = 0.0
    failed: float = 0.0


UNKNOWN = Changes()


class _Delay(NamedTuple):
    """A delay that runs. ``since`` and ``seconds``: it ends at their sum."""

    text: str
    since: float
    seconds: float


def delayed(
    pools: Iterable[NodePool],
    rules: ScaleDownRules,
    changes: Mapping[str, Changes],
    *,
    now: float,
) -> dict[str, str]:
    """Pool key -> why no machine of it goes now; without pools that do not wait.

    ``changes``: by pool key, and by ``CLUSTER``. The texts do not change while a delay runs.
    """
    found = ((pool.key, next(_running(pool, rules, changes, now), None)) for pool in pools)
    return {key: f"{WAITS} {one.text}" for key, one in found if one is not None}


def ends(
    pools: Iterable[NodePool],
    rules: ScaleDownRules,
    changes: Mapping[str, Changes],
    *,
    now: float,
) -> Iterator[float]:
    """When the delays that run now are over, in seconds since the epoch."""
    for pool in pools:
        yield from (one.since + one.seconds for one in _running(pool, rules, changes, now))


_KINDS = (
    ("a machine{} was created", "added", "delay_after_add"),
    ("a machine{} was deleted", "deleted", "delay_after_delete"),
    ("a disruption{} was rolled back", "failed", "delay_after_failure"),
)
"""(what happened, field of Changes, field of pools and rules)."""


def _running(
    pool: NodePool, rules: ScaleDownRules, changes: Mapping[str, Changes], now: float
) -> Iterator[_Delay]:
    for what, when, delay in _KINDS:
        own = getattr(pool, delay)
        last = changes.get(CLUSTER if own is None else pool.key, UNKNOWN)
        seconds = getattr(rules, delay) if own is None else own
        at = credible(getattr(last, when), now=now, otherwise=0.0)
        if seconds and at and now < at + seconds:
            text = what.format("" if own is None else " of the pool")
            yield _Delay(f"{text} less than {seconds:g} s ago", at, seconds)


@dataclass
class LastChanges:
    """The changes that were seen: by pool key, and by ``CLUSTER``.

    The machines themselves say when the last one was created or deleted. Who begins to look knows of no earlier
    failure, and of deletions only those that are not over.
    """

    seen: dict[str, Changes] = field(default_factory=dict)

    def note(self, machines: Iterable[Machine]) -> None:
        """The machines as they are now."""
        for machine in machines:
            for key in (CLUSTER, machine.pool_key):
                last = self.seen.get(key, UNKNOWN)
                if machine.created_at > last.added or machine.deleted_at > last.deleted:
                    added = max(machine.created_at, last.added)
                    deleted = max(machine.deleted_at, last.deleted)
                    self.seen[key] = replace(last, added=added, deleted=deleted)

    def fail(self, pool_keys: Iterable[str], *, now: float) -> None:
        """A disruption of machines of these pools was rolled back."""
        for key in {CLUSTER, *pool_keys}:
            self.seen[key] = replace(self.seen.get(key, UNKNOWN), failed=now)

    def that_count(self, pools: Iterable[NodePool], rules: ScaleDownRules) -> dict[str, Changes]:
        """Those that some delay asks for. Pools that are gone are forgotten."""
        asked = {pool.key: pool.has_delay for pool in pools} | {CLUSTER: rules.has_delay}
        self.seen = {key: last for key, last in self.seen.items() if key in asked}
        return {key: last for key, last in sorted(self.seen.items()) if asked[key]}
