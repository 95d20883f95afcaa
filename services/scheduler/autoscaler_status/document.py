"""The status of the cluster in Cluster Autoscaler's form, for dashboards and scripts that read its ConfigMap. Pure.

A pool is a node group, a machine is a node of it. A machine whose node has not joined is unregistered, after
``LONG_SECONDS`` long unregistered; one that is not initialised has not started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from shared.domain.machines.machine import INITIALIZED, REGISTERED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.hours import holds_at
from shared.domain.pools.nodepools import NodePool
from shared.domain.pools.usage import NODES

Document = dict[str, Any]
LONG_SECONDS = 900.0
MOST_UNREADY, MOST_UNREADY_SHARE = 3, 0.45
"""Cluster Autoscaler's defaults: with more nodes than this unready, and a larger share, a group is unhealthy."""
LARGEST = 2**31 - 1
"""The size of a pool without a limit."""
ASPECTS = ("health", "scaleUp", "scaleDown")
PROBED, CHANGED = "lastProbeTime", "lastTransitionTime"


class Group(NamedTuple):
    """What is known of one pool, or of all together."""

    machines: tuple[Machine, ...]
    candidates: int
    """How many of them could be disrupted."""


def status_document(
    pools: Iterable[NodePool],
    machines: Iterable[Machine],
    nodes: Mapping[str, Node],
    candidates: Iterable[str],
    before: Mapping[str, Any],
    *,
    now: float,
) -> Document:
    """``candidates``: pool key of each machine that may be disrupted; ``before``: the document that was written last,
    which says since when a status holds; anything that is no such document counts as none."""
    listed = tuple(machines)
    possible = Counter(candidates)
    groups = [
        (pool, Group(tuple(m for m in listed if m.pool_key == pool.key), possible[pool.key]))
        for pool in sorted(pools, key=lambda one: one.key)
    ]
    ours = tuple(machine for _, group in groups for machine in group.machines)
    whole = Group(ours, sum(group.candidates for _, group in groups))
    known = {one.get("name"): one for one in _entries(before.get("nodeGroups"))}
    return {
        "time": _text(now),
        "autoscalerStatus": "Running",
        "clusterWide": _dated(_aspects(whole, nodes, now), before.get("clusterWide"), now),
        "nodeGroups": [
            {"name": pool.key, **_dated(_sized(pool, group, nodes, now), known.get(pool.key), now)}
            for pool, group in groups
        ],
    }


def same_but_for_times(one: Any, other: Any) -> bool:
    """Do two documents say the same about the cluster?"""
    return bool(_without_times(one) == _without_times(other))


def _without_times(value: Any) -> Any:
    if isinstance(value, Mapping):
        left = {k: v for k, v in value.items() if k not in ("time", PROBED, CHANGED)}
        return {key: _without_times(part) for key, part in left.items()}
    return [_without_times(one) for one in value] if isinstance(value, list) else value


def _sized(pool: NodePool, group: Group, nodes: Mapping[str, Node], now: float) -> Document:
    found = _aspects(group, nodes, now)
    least = [entry.amounts.get(NODES, 0) for entry in pool.minimum if holds_at(entry, now)]
    wanted = sum(not machine.terminating for machine in group.machines)
    found["health"] |= {
        "cloudProviderTarget": pool.replicas if pool.replicas is not None else wanted,
        "minSize": pool.replicas if pool.replicas is not None else max(least, default=0),
        "maxSize": min(pool.limits.get(NODES, LARGEST), LARGEST),
    }
    return found


def _aspects(group: Group, nodes: Mapping[str, Node], now: float) -> Document:
    joined = [one for one in group.machines if one.has(REGISTERED)]
    missing = [one for one in group.machines if not one.has(REGISTERED) and not one.terminating]
    late = sum(now - one.created_at > LONG_SECONDS for one in missing)
    staying = [one for one in joined if not one.terminating]
    started = [one for one in staying if one.has(INITIALIZED)]
    ready = sum(_is_ready(one, nodes) for one in started)
    unready = len(started) - ready
    counts = {
        "registered": {
            "total": len(joined),
            "ready": ready,
            "notStarted": len(staying) - len(started),
            "beingDeleted": len(joined) - len(staying),
            "unready": {"total": unready, "resourceUnready": 0},
        },
        "longUnregistered": late,
        "unregistered": len(missing) - late,
    }
    bad = unready + late
    ill = bad > MOST_UNREADY and bad > MOST_UNREADY_SHARE * (len(staying) + len(missing))
    return {
        "health": {"status": "Unhealthy" if ill else "Healthy", "nodeCounts": counts},
        "scaleUp": {"status": "InProgress" if missing else "NoActivity"},
        "scaleDown": {
            "status": "CandidatesPresent" if group.candidates else "NoCandidates",
            "candidates": group.candidates,
        },
    }


def _is_ready(machine: Machine, nodes: Mapping[str, Node]) -> bool:
    node = nodes.get(machine.node_name)
    return node is not None and node.ready


def _dated(found: Document, before: Any, now: float) -> Document:
    """With the time of each aspect, and since when it has its status."""
    stamp = _rfc(now)
    for name in ASPECTS:
        old = before.get(name) if isinstance(before, Mapping) else None
        same = isinstance(old, Mapping) and old.get("status") == found[name]["status"]
        since = old.get(CHANGED) if same and isinstance(old, Mapping) else None
        found[name] |= {PROBED: stamp, CHANGED: since if isinstance(since, str) else stamp}
    return found


def _entries(listed: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []


def _rfc(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(now: float) -> str:
    """As Go writes a time, which is what readers of the ConfigMap parse."""
    return datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S.%f +0000 UTC")
