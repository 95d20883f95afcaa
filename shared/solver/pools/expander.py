"""Which of several pools of the same weight is tried first, as Cluster Autoscaler's expanders choose a group. Pure.

Pools of a higher weight come first whatever the expander. It orders the pools of each weight by giving them weights
between those of their neighbours; then the plan is made as always. ``least-waste`` and ``most-pods`` plan once with
each pool of a weight alone, so a plan takes as many times as long as a weight has pools, ``MOST_TRIED`` at most.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec
import yaml

from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import CPU, MEMORY
from shared.domain.snapshot import Snapshot
from shared.errors import ConfigurationError
from shared.solver.plan import Plan

MOST_TRIED = 20
MOST_PRIORITIES = 100
LONGEST_PATTERN = 500
SPREAD = 10_000
"""More than there are pools of one weight."""
Rank = tuple[Any, ...]
"""Smaller is better."""
Priorities = tuple[tuple[int, tuple[str, ...]], ...]
"""(priority, patterns of pool names), the highest priority first."""


class Expander(StrEnum):
    """The orders; NONE: by name."""

    NONE = ""
    LEAST_WASTE = "least-waste"
    MOST_PODS = "most-pods"
    RANDOM = "random"
    PRIORITY = "priority"


def read_priorities(text: str) -> Priorities:
    """Cluster Autoscaler's map from a priority to a list of regular expressions, in YAML. Raises ConfigurationError
    that names the fault."""
    try:
        found = yaml.safe_load(text) if text.strip() else {}
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"priorities of pools are not YAML: {error}") from error
    if not isinstance(found, Mapping) or len(found) > MOST_PRIORITIES:
        raise ConfigurationError(
            f"priorities of pools must map at most {MOST_PRIORITIES} numbers to lists of patterns, "
            "such as '50: [spot-.*]'"
        )
    listed = [(_number(number), _patterns(number, value)) for number, value in found.items()]
    return tuple(sorted(listed, reverse=True))


def _number(number: Any) -> int:
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConfigurationError(f"priority {str(number)[:40]!r} is no whole number from 0 on")
    return number


def _patterns(number: Any, listed: Any) -> tuple[str, ...]:
    if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
        raise ConfigurationError(f"priority {number}: must be a list of patterns")
    for one in listed:
        try:
            re.compile(one)
        except re.error as error:
            raise ConfigurationError(f"priority {number}: {one[:40]!r}: {error}") from error
        if len(one) > LONGEST_PATTERN:
            raise ConfigurationError(
                f"priority {number}: a pattern is longer than {LONGEST_PATTERN}"
            )
    return tuple(listed)


def in_order(
    snapshot: Snapshot,
    expander: str,
    priorities: Priorities,
    plan_with: Callable[[tuple[NodePool, ...]], Plan],
) -> Snapshot:
    """The snapshot whose pools have weights in the order of the expander. ``plan_with``: the plan with some pools."""
    by_weight: dict[int, list[NodePool]] = defaultdict(list)
    for pool in snapshot.pools:
        by_weight[pool.weight].append(pool)
    if not expander or all(len(pools) == 1 for pools in by_weight.values()):
        return snapshot
    weights: dict[str, int] = {}
    for weight, pools in by_weight.items():
        ranks = _ranks(pools, expander, priorities, snapshot, plan_with)
        # Stable: equally good pools stay in their usual order, by name descending.
        usual = sorted(pools, key=lambda one: (one.name, one.kind), reverse=True)
        for place, pool in enumerate(sorted(usual, key=lambda one: ranks[one.key])):
            weights[pool.key] = weight * SPREAD + SPREAD - 1 - place
    changed = (msgspec.structs.replace(one, weight=weights[one.key]) for one in snapshot.pools)
    return msgspec.structs.replace(snapshot, pools=tuple(changed))


def _ranks(
    pools: list[NodePool],
    expander: str,
    priorities: Priorities,
    snapshot: Snapshot,
    plan_with: Callable[[tuple[NodePool, ...]], Plan],
) -> dict[str, Rank]:
    """Pool key -> rank among the pools of one weight."""
    if len(pools) == 1:
        return {pools[0].key: ()}
    if expander == Expander.RANDOM:
        return {one.key: (_chance(snapshot.generation, one.key),) for one in pools}
    if expander == Expander.PRIORITY:
        return {one.key: (-_priority(one.name, priorities),) for one in pools}
    measure = _fewest_left if expander == Expander.MOST_PODS else _waste
    tried = {one.key for one in sorted(pools, key=lambda one: one.key)[:MOST_TRIED]}
    sizes = {kind.name: kind.allocatable() for kind in snapshot.catalogue.types}
    return {
        one.key: (0, *measure(plan_with((one,)), sizes)) if one.key in tried else (1,)
        for one in pools
    }


def _chance(generation: int, key: str) -> bytes:
    """Another order in each round, and the same one when the round is made again."""
    return blake2b(f"{generation}/{key}".encode(), digest_size=8).digest()


def _priority(name: str, priorities: Priorities) -> int:
    """The highest of those whose pattern is found in the name; -1 for none."""
    found = (
        number
        for number, patterns in priorities
        if any(re.search(pattern, name) for pattern in patterns)
    )
    return next(found, -1)


def _fewest_left(plan: Plan, _: Mapping[str, Mapping[str, int]]) -> Rank:
    """By how many pods the pool's machines take."""
    return (-sum(len(machine.pods) for machine in plan.machines),)


def _waste(plan: Plan, sizes: Mapping[str, Mapping[str, int]]) -> Rank:
    """By the shares of cpu, then of memory, that nobody asked for; a pool that takes no pod comes last."""
    if not plan.machines:
        return (1,)
    shares = []
    for name in (CPU, MEMORY):
        size = sum(sizes.get(one.instance_type, {}).get(name, 0) for one in plan.machines)
        asked = sum(one.requests.get(name, 0) for one in plan.machines)
        shares.append(round(1 - asked / size, 6) if size else 1.0)
    return (0, *shares)
