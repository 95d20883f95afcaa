"""Restricts a replacement to the types that are certainly cheaper than what it replaces (CON-05..08, CON-14)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from msgspec.structs import replace

from shared.disruption.records import Candidate, World
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.types import InstanceType, Offering, of_pool
from shared.domain.requirements import Requirements
from shared.solver.plan import PlannedMachine
from shared.solver.reservations.places import allows

SPOT_TYPES = 15
"""A spot machine is replaced by spot only if so many cheaper types are available; the launch lists as many (CON-08)."""
NOT_CHEAPER = "Can't replace with a cheaper node"
SPOT_DISABLED = "SpotToSpotConsolidation is disabled, can't replace a spot node with a spot node"
SPOT_BY_SPOT = "Can't replace a spot node with a spot node"
_ORDER = (keys.RESERVED, keys.SPOT, keys.ON_DEMAND)


def cheaper(
    world: World,
    planned: PlannedMachine,
    candidates: tuple[Candidate, ...],
    *,
    budget: int | None = None,
) -> PlannedMachine | str:
    """The planned machine with only the types that cost strictly less than ``budget``, or why there are none.

    ``budget``: micro-USD per hour; None: the price of all candidates together.
    """
    budget = total_price(candidates) if budget is None else budget
    if budget is None:
        return "the price of the node is not known"
    wanted = Requirements.of(planned.requirements)
    capacity = wanted.get(keys.CAPACITY_TYPE)
    spot_allowed = capacity is None or capacity.has(keys.SPOT)
    if spot_allowed and all(c.machine.capacity_type == keys.SPOT for c in candidates):
        return _spot_to_spot(world, planned, candidates, budget)
    if not spot_allowed or not (capacity is None or capacity.has(keys.ON_DEMAND)):
        return _kept(world, planned, budget)
    # CON-06: EC2 may fall back to on-demand, which could cost more than what it replaces. On-demand alone is for types
    # of which spot costs more, is not sold or has no capacity: a launch that asks for spot alone would have none.
    found = [_kept(world, _only(planned, one), budget) for one in (keys.SPOT, keys.ON_DEMAND)]
    machines = [one for one in found if not isinstance(one, str)]
    return min(machines, key=lambda one: one.offering.price_micro_usd_per_hour, default=NOT_CHEAPER)


def never_cheaper(world: World, candidates: tuple[Candidate, ...]) -> str:
    """Why a replacement is refused that certainly costs as much, as ``cheaper`` says it: spot for spot first."""
    if all(c.machine.capacity_type == keys.SPOT for c in candidates):
        return _no_spot_for_spot(world, candidates) or NOT_CHEAPER
    return NOT_CHEAPER


def total_price(candidates: Iterable[Candidate]) -> int | None:
    """The sum of the candidates' prices, in micro-USD per hour; None when one is not known."""
    prices = [candidate.price_micro_usd_per_hour for candidate in candidates]
    known = [price for price in prices if price is not None]
    return sum(known) if len(known) == len(prices) else None


class _Allowed:
    """Which offerings some requirements allow. Types share few kinds of offerings, and each is judged once."""

    def __init__(self, wanted: Requirements) -> None:
        self._wanted = wanted
        self._known: dict[tuple[str, str, str], bool] = {}

    def __call__(self, offering: Offering) -> bool:
        kind = (offering.zone, offering.capacity_type, offering.reservation_id)
        found = self._known.get(kind)
        if found is None:
            found = self._known[kind] = allows(self._wanted, offering)
        return found


def worst_price(kind: InstanceType, allowed: _Allowed, world: World) -> int | None:
    """The highest price that a launch of this type may have (CON-05); None when the type is not available.

    EC2 uses the first capacity type of ``_ORDER`` that has an offering, in any allowed zone.
    """
    worst: dict[str, int] = {}
    for offering in kind.offerings:
        if _may_be_bought(kind, offering, allowed, world):
            price, known = offering.price_micro_usd_per_hour, worst.get(offering.capacity_type, 0)
            worst[offering.capacity_type] = max(price, known)
    return next((worst[one] for one in _ORDER if one in worst), None)


def price_now(planned: PlannedMachine, world: World) -> int | None:
    """The price of the cheapest available offering of its types, in micro-USD per hour; None without any."""
    allowed, named = _Allowed(Requirements.of(planned.requirements)), set(planned.instance_types)
    kinds = _types(world, planned, named)
    found = (_cheapest(world, kind, allowed) for kind in kinds)
    return min((o.price_micro_usd_per_hour for o in found if o is not None), default=None)


def _types(world: World, planned: PlannedMachine, names: Collection[str]) -> Iterator[InstanceType]:
    """These types as the pool of the planned machine has them."""
    named = (kind for kind in world.snapshot.catalogue.types if kind.name in names)
    return (of_pool(kind, planned.pool_key) for kind in named)


def without_types_from(
    planned: PlannedMachine, candidates: tuple[Candidate, ...], world: World
) -> PlannedMachine | str:
    """The replacement without types that cost as much as a candidate of one of its types (CON-09).

    Otherwise keeping that candidate and deleting the others would save the same.
    """
    own = [
        c.price_micro_usd_per_hour or 0
        for c in candidates
        if c.machine.instance_type in planned.instance_types
    ]
    if not own:
        return planned
    return _kept(world, planned, min(own))


def _spot_to_spot(
    world: World, planned: PlannedMachine, candidates: tuple[Candidate, ...], budget: int
) -> PlannedMachine | str:
    """A spot replacement for spot machines (CON-08); never for machines of a Provisioner (CON-14)."""
    if refusal := _no_spot_for_spot(world, candidates):
        return refusal
    planned = _only(planned, keys.SPOT)
    kept = _below(world, planned, Requirements.of(planned.requirements), budget)
    if not kept:
        return NOT_CHEAPER
    if len(candidates) > 1:
        return _narrowed(world, planned, kept)
    if len(kept) < SPOT_TYPES:
        return (
            f"SpotToSpotConsolidation requires {SPOT_TYPES} cheaper instance type options than the current "
            f"candidate to consolidate, got {len(kept)}"
        )
    for count in range(SPOT_TYPES, len(kept) + 1):
        chosen = _narrowed(world, planned, kept[:count])
        if not isinstance(chosen, str):
            return chosen
    return NOT_CHEAPER


def _no_spot_for_spot(world: World, candidates: tuple[Candidate, ...]) -> str:
    if not all(c.pool.api.replaces_spot_by_spot for c in candidates):
        return SPOT_BY_SPOT
    return "" if world.gates.spot_to_spot_consolidation else SPOT_DISABLED


def _below(
    world: World, planned: PlannedMachine, wanted: Requirements, budget: int
) -> tuple[str, ...]:
    """Names of the types whose worst price is strictly below the budget, cheapest first."""
    named, allowed = set(planned.instance_types), _Allowed(wanted)
    prices = {
        kind.name: price
        for kind in _types(world, planned, named)
        if (price := worst_price(kind, allowed, world)) is not None
    }
    cheap = [name for name, price in prices.items() if price < budget]
    return tuple(sorted(cheap, key=lambda name: (prices[name], name)))


def _may_be_bought(kind: InstanceType, offering: Offering, allowed: _Allowed, world: World) -> bool:
    return (
        allowed(offering)
        and (offering.capacity_type, kind.name, offering.zone) not in world.snapshot.unavailable
    )


def _kept(world: World, planned: PlannedMachine, budget: int) -> PlannedMachine | str:
    """The machine with the types that its requirements and the budget allow."""
    kept = _below(world, planned, Requirements.of(planned.requirements), budget)
    return _narrowed(world, planned, kept) if kept else NOT_CHEAPER


def _only(planned: PlannedMachine, capacity_type: str) -> PlannedMachine:
    others = tuple(e for e in planned.requirements if e.key != keys.CAPACITY_TYPE)
    return replace(
        planned,
        requirements=(*others, Expression(keys.CAPACITY_TYPE, "In", (capacity_type,))),
        labels={k: v for k, v in planned.labels.items() if k != keys.CAPACITY_TYPE},
    )


def _narrowed(
    world: World, planned: PlannedMachine, names: tuple[str, ...]
) -> PlannedMachine | str:
    """The machine with these types, cheapest first; NOT_CHEAPER when they do not meet minValues."""
    kinds = {kind.name: kind for kind in _types(world, planned, names)}
    for expression in planned.requirements:
        if expression.min_values and expression.min_values > _distinct(expression.key, kinds):
            return NOT_CHEAPER
    rest = tuple(e for e in planned.requirements if e.key != keys.INSTANCE_TYPE)
    listed = next((e for e in planned.requirements if e.key == keys.INSTANCE_TYPE), None)
    least = listed.min_values if listed else None
    requirements = (*rest, Expression(keys.INSTANCE_TYPE, "In", tuple(sorted(names)), least))
    offering = _cheapest(world, kinds[names[0]], _Allowed(Requirements.of(requirements)))
    return replace(
        planned,
        instance_types=names,
        requirements=requirements,
        instance_type=names[0],
        offering=offering or planned.offering,
    )


def _distinct(key: str, kinds: dict[str, InstanceType]) -> int:
    """The number of distinct values of a label, for minValues (SCH-12)."""
    return len({value for kind in kinds.values() for value in kind.labels.get(key, ())})


def _cheapest(world: World, kind: InstanceType, allowed: _Allowed) -> Offering | None:
    offered = [o for o in kind.offerings if _may_be_bought(kind, o, allowed, world)]
    return min(offered, key=lambda o: (o.price_micro_usd_per_hour, o.zone), default=None)
