"""Which packing policy a pool's machines are planned by, and what one more node counts beside its price."""

from __future__ import annotations

from shared.domain.pools.nodepools import (
    BY_PACKING,
    FEWEST_NODES,
    GLOBAL,
    KARPENTER,
    NodePool,
    PackingPolicy,
)

BALANCED_NODE_PRICE = 30_000
"""Micro-USD per hour, for pools of Balanced where no node price is set (docs/decisions/0020)."""


def policy_of(pool: NodePool, default: str) -> str:
    """The pool's policy, or the one for pools without."""
    return pool.packing or default


def is_packed(pool: NodePool, default: str) -> bool:
    """Is the cheapest set of machines searched for the pool?"""
    return policy_of(pool, default) != FEWEST_NODES


def consolidator_of(pool: NodePool, default: str, default_policy: str) -> str:
    """The pool's algorithm of consolidation, or the one for pools without. Machines that were chosen together are best
    replaced together: Karpenter's methods buy one machine at a time, and move more pods to save the same."""
    if pool.consolidator or default != BY_PACKING:
        return pool.consolidator or default
    return GLOBAL if is_packed(pool, default_policy) else KARPENTER


def node_price(pool: NodePool, default_policy: str, default_price: int | None) -> int:
    """Micro-USD per hour: the pool's own, else ``default_price``, else what its policy has."""
    if pool.node_price is not None:
        return pool.node_price
    if default_price is not None:
        return default_price
    is_balanced = policy_of(pool, default_policy) == PackingPolicy.BALANCED
    return BALANCED_NODE_PRICE if is_balanced else 0
