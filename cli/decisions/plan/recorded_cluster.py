"""The cluster as it was recorded, to plan a change of pools against it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cli.decisions.ledger.sources import snapshot_at
from cli.decisions.plan.merging import Merged, ObjectChange
from shared.concurrency.clock import Clock, parse_rfc3339
from shared.domain.durations import go_duration_seconds
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.errors import ConfigurationError
from shared.simulation.inputs import Inputs, read_inputs
from shared.simulation.ledgers.pricing import Source
from shared.simulation.workloads import MOST_PODS

POOLS = ("NodePool", "Provisioner")
OF_THE_CLUSTER = frozenset({"uid", "usage", "generation", "annotations", "closed", "terminating"})
"""Fields of a pool that its manifest does not decide, or that mean nothing to a plan."""


def is_moment(against: list[str]) -> bool:
    """Whether this is a time, as RFC 3339 or how long ago, and no file."""
    if len(against) != 1 or Path(against[0]).exists():
        return False
    if go_duration_seconds(against[0]) is not None:
        return True
    try:
        parse_rfc3339(against[0])
    except ValueError:
        return False
    return True


def recorded_cluster(at: str, clock: Clock, *, store: str, cluster: str, directory: Path) -> Source:
    """Raises what ``snapshot_at`` raises."""
    return snapshot_at(at, clock, store=store, cluster=cluster, directory=directory)


def with_pools(snapshot: Snapshot, manifests: Iterable[Any]) -> tuple[Inputs, Merged]:
    """The cluster with the pools of the manifests, and what they change. Raises ConfigurationError for other kinds: the
    record has pods, and no objects that make pods or name what EC2 has."""
    documents = list(manifests)
    others = sorted({str(one.get("kind")) for one in documents} - set(POOLS))
    if others:
        raise ConfigurationError(
            f"against a moment of the record only {' and '.join(POOLS)} can be planned, not {', '.join(others)}: "
            "save the cluster by kubectl get and name the file by --against"
        )
    read = read_inputs(documents, lambda: snapshot.catalogue, MOST_PODS)
    pools = {pool.key: pool for pool in snapshot.pools}
    changes = tuple(filter(None, (_change(pools.get(p.key), p) for p in read.snapshot.pools)))
    for pool in read.snapshot.pools:
        known = pools.get(pool.key)
        pools[pool.key] = replace(pool, uid=known.uid, usage=known.usage) if known else pool
    ordered = sorted(pools.values(), key=lambda pool: (pool.name, pool.key))
    changed = replace(snapshot, pools=tuple(ordered))
    return Inputs(changed, read.faults), Merged([], changes)


def _change(known: NodePool | None, pool: NodePool) -> ObjectChange | None:
    kind = pool.api.pool_kind
    if known is None:
        return ObjectChange(kind, pool.name, True, ())
    names = (name for name in NodePool.__struct_fields__ if name not in OF_THE_CLUSTER)
    fields = tuple(name for name in names if getattr(known, name) != getattr(pool, name))
    return ObjectChange(kind, pool.name, False, fields) if fields else None
