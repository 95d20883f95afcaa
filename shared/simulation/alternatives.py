"""Why a machine is of this type: the other offerings of the catalogue, with prices and why they were not taken. Pure.

A machine asks for resources, its pods' and its daemons', and has requirements, its pool's and its pods'. An offering
suits when it would hold the same with the settings of the pool's class. Prices, capacity, pool and class are those of
now: they may have differed when it was bought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shared.domain import labels as keys
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import adapted
from shared.domain.instance_types.types import InstanceType, Offering, of_pool
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodeClass, NodePool
from shared.domain.requirements import Requirements
from shared.domain.resources import exceeded, format_amount, sum_of
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.errors import InvalidObject
from shared.solver.reservations.places import refusing

MOST_SHOWN = 10
"""Cheaper offerings, and dearer ones."""
TAKEN = "taken"
NO_LONGER = "taken; it would not be now"
CHEAPER = "suits and is cheaper now; the planner or EC2 chose otherwise when it was bought"
DEARER = "suits and costs as much or more"
NO_CAPACITY = "EC2 had no capacity for it a short time ago"


class Alternative(NamedTuple):
    """One offering; ``why`` it was taken or not."""

    instance_type: str
    offering: Offering
    suits: bool
    why: str

    @property
    def key(self) -> OfferingKey:
        return self.offering.capacity_type, self.instance_type, self.offering.zone

    @property
    def order(self) -> tuple[int, str, str]:
        """Cheapest first."""
        return self.offering.price_micro_usd_per_hour, self.instance_type, self.offering.zone


def alternatives_of(machine: Machine, snapshot: Snapshot) -> dict[str, Any]:
    """``taken`` and ``others``: cheaper offerings that suit, then the dearest of the cheaper ones that do not, then
    dearer ones that suit; ``suiting``: how many suit. Prices in US dollars an hour; ``taken`` is null when the
    catalogue does not have it."""
    own = (machine.capacity_type, machine.instance_type, machine.zone)
    judged = sorted(_judged(machine, snapshot), key=lambda one: one.order)
    taken = next((one for one in judged if one.key == own), None)
    price = taken.offering.price_micro_usd_per_hour if taken else 0
    others = [one for one in judged if one.key != own]
    below = [one for one in others if one.offering.price_micro_usd_per_hour < price]
    cheaper = [one for one in below if one.suits]
    left = max(0, MOST_SHOWN - len(cheaper))
    lacking = [one for one in below if not one.suits][::-1][:left]
    dearer = [one for one in others if one.suits and one not in cheaper]
    shown = [*cheaper[:MOST_SHOWN], *reversed(lacking)]
    return {
        "taken": _document(taken._replace(why=_why_taken(taken))) if taken else None,
        "others": [
            *(_document(one) for one in shown),
            *(_document(one._replace(why=DEARER)) for one in dearer[:MOST_SHOWN]),
        ],
        "suiting": sum(one.suits for one in judged),
        "cheaper": len(cheaper),
    }


def _why_taken(taken: Alternative) -> str:
    return TAKEN if taken.suits else f"{NO_LONGER}: {taken.why}"


def _document(one: Alternative) -> dict[str, Any]:
    return {
        "instanceType": one.instance_type,
        "zone": one.offering.zone,
        "capacityType": one.offering.capacity_type,
        "pricePerHour": one.offering.price_micro_usd_per_hour / 1e6,
        "suits": one.suits,
        "why": one.why,
    }


def _judged(machine: Machine, snapshot: Snapshot) -> Iterator[Alternative]:
    wanted, needed = _wanted(machine, snapshot), _needed(machine, snapshot)
    owner = next((one for one in snapshot.pools if one.key == machine.pool_key), machine)
    node_class = next((c for c in snapshot.node_classes if c.key == owner.node_class_key), None)
    # Empty: the class's subnets are not known.
    zones = frozenset(one.zone for one in node_class.subnets) if node_class else frozenset()
    settings = _settings(owner, node_class)
    for known in snapshot.catalogue.types:
        kind = adapted(of_pool(known, machine.pool_key), settings)
        lacks = _lacks(kind, wanted, needed)
        for offering in kind.offerings:
            if offering.reservation_id:
                continue  # paid for already: the planner fills these first, at no price
            why = lacks or _not_offered(kind, offering, wanted, zones, snapshot)
            yield Alternative(kind.name, offering, not why, why or CHEAPER)


def _wanted(machine: Machine, snapshot: Snapshot) -> Requirements:
    """Of the pool and of the pods it was bought for; not the list of types, which the plan made of these."""
    pool = next((one for one in snapshot.pools if one.key == machine.pool_key), None)
    asked = Requirements.of(machine.requirements).without(keys.INSTANCE_TYPE)
    return asked if pool is None else asked.intersect(Requirements.of(pool.requirements))


def _needed(machine: Machine, snapshot: Snapshot) -> Mapping[str, int]:
    """What it was bought for; without a note what runs on it now."""
    if machine.requests:
        return machine.requests
    on = (pod for pod in snapshot.pods if machine.node_name and pod.node_name == machine.node_name)
    return sum_of(pod.requests for pod in on)


def _settings(owner: NodePool | Machine, node_class: NodeClass | None) -> SizeSettings:
    """Of a machine that would be launched now; the usual ones where the class is gone or cannot be read."""
    try:
        return SizeSettings.of(owner, node_class) if node_class else USUAL
    except InvalidObject:
        return USUAL


def _lacks(kind: InstanceType, wanted: Requirements, needed: Mapping[str, int]) -> str:
    for rule in wanted:
        values = kind.labels.get(rule.key)
        if rule.key in (keys.ZONE, keys.CAPACITY_TYPE) or rule.key not in keys.WELL_KNOWN:
            continue
        if not (any(map(rule.has, values)) if values else rule.accepts_absence):
            return f"not allowed: {rule}"
    room = kind.allocatable()
    short = exceeded(needed, {name: room.get(name, 0) for name in needed})
    if not short:
        return ""
    name = short[0]
    has, needs = (format_amount(name, amounts.get(name, 0)) for amounts in (room, needed))
    return f"too small: {name} {has} of {needs}"


def _not_offered(
    kind: InstanceType,
    offering: Offering,
    wanted: Requirements,
    zones: frozenset[str],
    snapshot: Snapshot,
) -> str:
    against = refusing(wanted, offering)
    if against is not None:
        return f"not allowed: {against}"
    if zones and offering.zone not in zones:
        return f"no subnet of the node class is in {offering.zone}"
    gone = (offering.capacity_type, kind.name, offering.zone) in snapshot.unavailable
    return NO_CAPACITY if gone else ""
