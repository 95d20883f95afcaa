"""One pool as it is: machines, cost, limits, budgets, what it may buy, and why it may not. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from shared.disruption.advice import SWITCHED_OFF
from shared.disruption.budgets import by_budget
from shared.disruption.candidates import offering_prices, price_in
from shared.domain import labels as keys
from shared.domain.feature_gates import FeatureGates
from shared.domain.instance_types.types import of_pool
from shared.domain.machines.machine import DRIFTED, INITIALIZED, Machine
from shared.domain.pools.nodepools import LEAST_LIFE_SECONDS, NodeClass, NodePool
from shared.domain.requirements import Requirements
from shared.domain.resources import exceeded, format_amount, format_resources
from shared.domain.snapshot import Snapshot
from shared.solver.reservations.places import allows

MICRO = 1_000_000
MOST_OFFERINGS = 5
TOO_SHORT = (
    f"its machines are too old after less than {LEAST_LIFE_SECONDS:.0f} s, before a node is ready: they are bought and "
    "deleted without end; raise the age, or leave expiry out (Never)"
)
STATIC_IS_OFF = (
    "spec.replicas has no effect while the scheduler's feature gate StaticCapacity is off: it buys nothing; "
    "set FEATURE_GATES=StaticCapacity=true"
)


def pool_report(
    pool: NodePool, snapshot: Snapshot, policy: str, gates: FeatureGates, *, now: float, off: bool
) -> dict[str, Any]:
    """``policy``: packing policy of pools that do not set one; ``off``: no pool may disrupt. Costs in US dollars an
    hour."""
    machines = [one for one in snapshot.machines if one.pool_key == pool.key]
    nodes = {node.name: node for node in snapshot.nodes}
    ours = {one.node_name for one in machines if one.node_name}
    budgets = by_budget([pool], snapshot.machines, nodes, now=now)
    offerings = _offerings(pool, snapshot)
    return {
        "pool": pool.key,
        "replicas": pool.replicas if gates.static_capacity else None,
        "problems": _problems(pool, snapshot, gates, offered=bool(offerings), off=off),
        "machines": {
            "all": len(machines),
            "ready": sum(one.has(INITIALIZED) and not one.terminating for one in machines),
            "terminating": sum(one.terminating for one in machines),
            "drifted": sum(one.has(DRIFTED) for one in machines),
        },
        "instanceTypes": dict(Counter(one.instance_type for one in machines).most_common()),
        "pods": sum(bool(pod.node_name) and pod.node_name in ours for pod in snapshot.pods),
        "costPerHour": _cost(machines, snapshot) / MICRO,
        "packing": pool.packing or policy,
        "weight": pool.weight,
        "limits": {
            name: {
                "limit": format_amount(name, limit),
                "used": format_amount(name, pool.usage.get(name, 0)),
            }
            for name, limit in sorted(pool.limits.items())
        },
        "budgets": {
            reason: {"most": found.most, "of": found.machines}
            for (_, reason), found in budgets.items()
        },
        "offerings": {"allowed": len(offerings), "cheapest": offerings[:MOST_OFFERINGS]},
        "shortages": _shortages(pool, snapshot)[:MOST_OFFERINGS],
        "usage": format_resources(pool.usage),
    }


def _problems(
    pool: NodePool, snapshot: Snapshot, gates: FeatureGates, *, offered: bool, off: bool
) -> list[str]:
    """Why it buys nothing, or disrupts nothing."""
    found = next((one for one in snapshot.node_classes if one.key == pool.node_class_key), None)
    over = exceeded(pool.usage, pool.limits)
    at_limit = [
        name for name, limit in sorted(pool.limits.items()) if pool.usage.get(name, 0) == limit
    ]
    checks: Mapping[str, object] = {
        pool.fault: pool.fault,
        "it is being deleted": pool.terminating,
        pool.closed: pool.closed,
        f"its node class {pool.node_class_key} does not exist": found is None,
        _class_problem(found): _class_problem(found),
        "no offering of the catalogue is allowed by it": not offered,
        f"above its limit for {', '.join(over)}: it buys nothing": over,
        f"at its limit for {', '.join(at_limit)}: it buys nothing": at_limit,
        SWITCHED_OFF: off,
        "its voluntary disruption is switched off": pool.disruption_off,
        TOO_SHORT: pool.lives_too_short,
        STATIC_IS_OFF: pool.is_static and not gates.static_capacity,
    }
    return [text for text, holds in checks.items() if holds]


def _class_problem(node_class: NodeClass | None) -> str:
    """A deletion is a new generation, whose condition Ready is still unknown: that says less than the deletion."""
    if node_class is None:
        return ""
    if node_class.terminating:
        return f"its node class {node_class.key} is being deleted"
    return "" if node_class.ready else f"its node class is not ready: {node_class.fault}"


def _cost(machines: list[Machine], snapshot: Snapshot) -> int:
    prices = offering_prices(snapshot.catalogue)
    found = 0
    for one in machines:
        if one.capacity_type != keys.RESERVED:
            price = price_in(prices, one)
            found += (one.noted_price or 0) if price is None else price
    return found


def _offerings(pool: NodePool, snapshot: Snapshot) -> list[dict[str, Any]]:
    """What it may buy now, cheapest first."""
    return [
        {"instanceType": name, "zone": zone, "capacityType": market, "pricePerHour": price / MICRO}
        for price, name, zone, market in sorted(_allowed(pool, snapshot))
        if (market, name, zone) not in snapshot.unavailable
    ]


def _shortages(pool: NodePool, snapshot: Snapshot) -> list[dict[str, Any]]:
    """Its offerings that had no capacity of late, the worst first: EC2 refuses them now, or they come later."""
    added = dict(snapshot.shortages)
    found = [
        (-added.get(offering, 0), *offering)
        for _, name, zone, market in _allowed(pool, snapshot)
        if (offering := (market, name, zone)) in added or offering in snapshot.unavailable
    ]
    return [
        {
            "instanceType": name,
            "zone": zone,
            "capacityType": market,
            "refusedNow": (market, name, zone) in snapshot.unavailable,
            "dearerPercent": -less / 10_000,
        }
        for less, market, name, zone in sorted(found)
    ]


def _allowed(pool: NodePool, snapshot: Snapshot) -> list[tuple[int, str, str, str]]:
    """(price, type, zone, capacity type) of what its requirements allow, whether or not EC2 has it now."""
    wanted = Requirements.of(pool.requirements)
    node_class = next((c for c in snapshot.node_classes if c.key == pool.node_class_key), None)
    zones = {one.zone for one in node_class.subnets} if node_class else set()
    return [
        (offering.price_micro_usd_per_hour, kind.name, offering.zone, offering.capacity_type)
        for kind in (of_pool(one, pool.key) for one in snapshot.catalogue.types)
        if all(
            any(map(rule.has, kind.labels[rule.key]))
            if rule.key in kind.labels
            else rule.accepts_absence or rule.key not in keys.WELL_KNOWN
            for rule in wanted
            if rule.key not in (keys.ZONE, keys.CAPACITY_TYPE)
        )
        for offering in kind.offerings
        if allows(wanted, offering) and (not zones or offering.zone in zones)
    ]
