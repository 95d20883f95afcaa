"""Which packing policy a pool's machines are planned by, and what one more node counts beside its price."""

from __future__ import annotations

from shared.domain.pools.nodepools import FEWEST_NODES, NodePool, PackingPolicy

BALANCED_NODE_PRICE = 30_000
"""Micro-USD per hour, for pools of Balanced where no node price is set (docs/decisions/0020)."""


def policy_of(pool: NodePool, default: str) -> str:
    """The pool's policy, or the one for pools without."""
    return pool.packing or default


def is_packed(pool: NodePool, default: str) -> bool:
    """Is the cheapest set of machines searched for the pool?"""
    return policy_of(pool, default) != FEWEST_NODES


def node_price(pool: NodePool, default_policy: str, default_price: int | None) -> int:
    """Micro-USD per hour: the pool's own, else ``default_price``, else what its policy has."""
    if pool.node_price is not None:
        return pool.node_price
    if default_price is not None:
        return default_price
    is_balanced = policy_of(pool, default_policy) == PackingPolicy.BALANCED
    return BALANCED_NODE_PRICE if is_balanced else 0
