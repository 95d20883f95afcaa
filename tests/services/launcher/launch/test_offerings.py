"""Which offerings a launch asks for (LCH-45..LCH-49)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from services.launcher.launch.fleet import MOST_OVERRIDES, MOST_TYPES
from services.launcher.launch.offerings import choose, falls_back_to_few
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.instance_types.reservations import ID_LABEL, INTERRUPTIBLE_LABEL
from shared.domain.instance_types.shortages import in_group
from shared.domain.instance_types.size_settings import USUAL, SizeSettings
from shared.domain.instance_types.sizes import sized
from shared.domain.instance_types.types import InstanceType, Offering, SizeFacts
from shared.domain.machines.machine import Machine
from shared.domain.snapshot import OfferingKey
from shared.errors import InsufficientCapacity
from tests.support.planning.builders import ZONES, make_catalogue, make_machine, make_type

BOTH = (keys.SPOT, keys.ON_DEMAND)


def wanting(*expressions: Expression, **changes: Any) -> Machine:
    return make_machine(requirements=expressions, **changes)


def capacity(*kinds: str) -> Expression:
    return Expression(keys.CAPACITY_TYPE, "In", kinds)


def chosen(
    machine: Machine, *types: InstanceType, zones: tuple[str, ...] = ZONES,
    unavailable: frozenset[OfferingKey] = frozenset(),
) -> tuple[str, list[str]]:  # fmt: skip
    found = choose(machine, make_catalogue(types), zones, unavailable)
    return found.capacity_type, [choice.type.name for choice in found.choices]


def test_spot_comes_first_where_it_is_allowed() -> None:
    """LCH-47: choice of the capacity type; ACC-17: spot before on-demand."""
    kind = make_type(capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), kind)[0] == keys.SPOT
    assert chosen(wanting(), kind)[0] == keys.SPOT
    assert chosen(wanting(capacity(keys.ON_DEMAND)), kind)[0] == keys.ON_DEMAND


def test_on_demand_takes_over_when_no_spot_is_left() -> None:
    """LCH-47, ACC-17: by the catalogue, or by what EC2 refused."""
    kind = make_type(capacity_types=BOTH)
    refused = frozenset((keys.SPOT, kind.name, zone) for zone in ZONES)
    assert chosen(wanting(capacity(*BOTH)), make_type())[0] == keys.ON_DEMAND
    assert chosen(wanting(capacity(*BOTH)), kind, unavailable=refused)[0] == keys.ON_DEMAND


def test_what_a_placement_group_has_no_room_for_is_not_asked_for_in_that_group() -> None:
    """LCH-61, EC-06: other groups, and machines of none, still ask for it."""
    catalogue = make_catalogue((make_type(),))
    refused = frozenset({in_group((keys.ON_DEMAND, "m5.large", ZONES[0]), "pg-1")})

    def zones(group: str) -> list[str]:
        sizes = SizeSettings(placement_group=group)
        (choice,) = choose(wanting(), catalogue, ZONES, refused, sizes).choices
        return [o.zone for o in choice.offerings]

    assert zones("pg-1") == list(ZONES[1:])
    assert zones("pg-2") == zones("") == list(ZONES)


def test_an_unavailable_offering_is_not_asked_for() -> None:
    """LCH-61: unavailable offerings."""
    refused = frozenset({(keys.ON_DEMAND, "m5.large", ZONES[0])})
    (choice,) = choose(wanting(), make_catalogue((make_type(),)), ZONES, refused).choices
    assert [o.zone for o in choice.offerings] == list(ZONES[1:])


def test_a_machine_fits_what_its_own_settings_leave_to_pods() -> None:
    """IT-13, IT-34: m5.large with two addresses fewer than pods, and with a reserved core."""
    facts = SizeFacts(3, 3, 10, 0)
    small = sized(make_type("m5.large"), facts, USUAL)
    large = sized(make_type("m5.xlarge", 4, 16), facts, USUAL)
    catalogue = make_catalogue((small, large))
    machine = wanting(requests={"cpu": 1500, "pods": 10})

    def names(settings: SizeSettings) -> list[str]:
        choices = choose(machine, catalogue, ZONES, frozenset(), settings).choices
        return [choice.type.name for choice in choices]

    assert names(USUAL) == ["m5.large", "m5.xlarge"]
    assert names(SizeSettings(kube_reserved=(("cpu", 1000),))) == ["m5.xlarge"]
    assert names(SizeSettings(pods_per_core=4)) == ["m5.xlarge"]
    with pytest.raises(InsufficientCapacity):
        names(SizeSettings(max_pods=9))


def test_without_an_offering_there_is_no_capacity() -> None:
    """LCH-53: nothing to launch."""
    for machine, zones in ((wanting(), ()), (wanting(capacity(keys.SPOT)), ZONES)):
        with pytest.raises(InsufficientCapacity, match="no capacity offerings are currently"):
            choose(machine, make_catalogue((make_type(),)), zones, frozenset())


def test_only_zones_with_a_subnet_and_allowed_ones_are_asked_for() -> None:
    """LCH-11: the subnet with most free addresses; LCH-52: one override per type and zone."""
    machine = wanting(Expression(keys.ZONE, "In", ZONES[1:]))
    (choice,) = choose(machine, make_catalogue((make_type(),)), ZONES[:2], frozenset()).choices
    assert [o.zone for o in choice.offerings] == [ZONES[1]]


def test_at_most_sixty_types_the_cheapest_first() -> None:
    """LCH-46: types by price, at most 60; ACC-61: 60 types in a launch."""
    types = [make_type(f"m5.x{n:03d}", price=1000 - n) for n in range(100)]
    _, names = chosen(wanting(), *types)
    assert names == [f"m5.x{n:03d}" for n in range(99, 99 - MOST_TYPES, -1)]
    assert MOST_TYPES == 60


def test_types_that_do_not_suit_are_left_out() -> None:
    """LCH-45: too small, another architecture, another name."""
    big = make_type("m5.big", cpu=8)
    arm = make_type("m6g.big", cpu=8, labels={keys.ARCH: ("arm64",)})
    small = make_type("m5.small", cpu=1)
    amd = Expression(keys.ARCH, "In", ("amd64",))
    assert chosen(wanting(amd, requests={"cpu": 4000}), big, arm, small)[1] == ["m5.big"]
    named = Expression(keys.INSTANCE_TYPE, "In", ("m6g.big",))
    assert chosen(wanting(named), big, arm, small)[1] == ["m6g.big"]


def test_labels_that_the_cloud_does_not_know_are_for_the_node_to_carry() -> None:
    """A pool's own label is no property of an instance type."""
    machine = wanting(Expression("team", "In", ("blue",)))
    assert chosen(machine, make_type())[1] == ["m5.large"]


def test_a_well_known_label_that_a_type_lacks_excludes_it() -> None:
    """IT-45: absent means DoesNotExist."""
    gpu = keys.AWS_PREFIX + "instance-gpu-count"
    plain, card = make_type("m5.big"), make_type("g5.big", labels={gpu: ("1",)})
    assert chosen(wanting(Expression(gpu, "Exists")), plain, card)[1] == ["g5.big"]
    assert chosen(wanting(Expression(gpu, "DoesNotExist")), plain, card)[1] == ["m5.big"]


CARD: dict[str, Any] = {"nvidia.com/gpu": 1}


def test_metal_and_accelerators_go_while_plain_types_remain() -> None:
    """LCH-45: filters of instance types."""
    plain, metal = make_type("m5.big"), make_type("m5.metal", price=1)
    card = make_type("g5.big", price=1, **CARD)
    assert chosen(wanting(), plain, metal, card)[1] == ["m5.big"]
    assert chosen(wanting(), metal, card)[1] == ["g5.big", "m5.metal"]


def test_spot_dearer_than_the_cheapest_on_demand_is_dropped() -> None:
    """LCH-45, ACC-17: spot of the big one (300) costs more than the small one on demand (100)."""
    small = make_type("m5.small", price=100, capacity_types=BOTH)
    big = make_type("m5.big", price=1000, capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), small, big) == (keys.SPOT, ["m5.small"])
    assert chosen(wanting(capacity(keys.SPOT)), small, big)[1] == ["m5.small", "m5.big"]


def test_dear_spot_gives_way_to_on_demand() -> None:
    """LCH-45: no spot is better than spot at three times the price; it is no fallback either."""
    small = make_type("m5.small", price=100)
    big = make_type("m5.big", price=1000, capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), small, big) == (keys.ON_DEMAND, ["m5.small", "m5.big"])


def test_a_dear_zone_of_a_cheap_type_is_not_asked_for() -> None:
    """LCH-45: EC2 chooses among all that the call names."""
    kind = make_type(price=100, capacity_types=BOTH)
    dear = tuple(
        structs.replace(o, price_micro_usd_per_hour=101)
        if (o.capacity_type, o.zone) == (keys.SPOT, ZONES[0])
        else o
        for o in kind.offerings
    )
    catalogue = make_catalogue((structs.replace(kind, offerings=dear),))
    (choice,) = choose(wanting(capacity(*BOTH)), catalogue, ZONES, frozenset()).choices
    assert [o.zone for o in choice.offerings] == list(ZONES[1:])


def test_dear_spot_is_used_where_on_demand_is_not_to_be_had() -> None:
    """LCH-53: capacity outranks its price."""
    small = make_type("m5.small", price=100)
    big = make_type("m5.big", price=1000, capacity_types=BOTH)
    refused = frozenset((keys.ON_DEMAND, k.name, z) for k in (small, big) for z in ZONES)
    found = chosen(wanting(capacity(*BOTH)), small, big, unavailable=refused)
    assert found == (keys.SPOT, ["m5.big"])


def test_metal_waits_until_nothing_else_is_to_be_had() -> None:
    """LCH-45: plain types on demand come before metal on spot."""
    plain = make_type("m5.big", price=100, capacity_types=BOTH)
    metal = make_type("m5.metal", price=90, capacity_types=BOTH)

    def after(*refused: str) -> tuple[str, list[str]]:
        gone = frozenset((kind, plain.name, zone) for kind in refused for zone in ZONES)
        return chosen(wanting(capacity(*BOTH)), plain, metal, unavailable=gone)

    assert after() == (keys.SPOT, ["m5.big"])
    assert after(keys.SPOT) == (keys.ON_DEMAND, ["m5.big"])
    assert after(*BOTH) == (keys.SPOT, ["m5.metal"])


@pytest.mark.parametrize("zones", [ZONES, (*ZONES, *(f"us-west-2{x}" for x in "def"))])
def test_a_few_fleets_without_spot_lead_to_on_demand(zones: tuple[str, ...]) -> None:
    """LCH-47: each fleet takes 60 types; of a thousand that suit, twenty fleets would fail first."""
    types = [
        make_type(f"m5.x{n:04d}", price=1000 + n, zones=zones, capacity_types=BOTH)
        for n in range(1000)
    ]
    catalogue, refused = make_catalogue(tuple(types)), frozenset[OfferingKey]()
    fleets: list[str] = []
    while keys.ON_DEMAND not in fleets:
        found = choose(wanting(capacity(*BOTH)), catalogue, zones, refused)
        fleets.append(found.capacity_type)
        pools = sorted((o.price_micro_usd_per_hour, c.type.name, o.zone)
                       for c in found.choices for o in c.offerings)  # fmt: skip
        refused |= {(found.capacity_type, name, zone) for _, name, zone in pools[:MOST_OVERRIDES]}
    assert fleets == [keys.SPOT, keys.SPOT, keys.ON_DEMAND]


def test_spot_is_asked_for_on_and_on_where_only_spot_is_allowed() -> None:
    types = [make_type(f"m5.x{n:03d}", price=1000 + n, capacity_types=BOTH) for n in range(200)]
    refused = frozenset((keys.SPOT, kind.name, zone) for kind in types[:150] for zone in ZONES)
    assert chosen(wanting(capacity(keys.SPOT)), *types, unavailable=refused)[0] == keys.SPOT


def reserved(kind: str = "default", zone: str = ZONES[0], price: int = 0) -> Offering:
    return Offering(zone, keys.RESERVED, price, f"cr-{kind}-{zone}", kind)


def with_reserved(name: str, *offerings: Offering, price: int = 96_000) -> InstanceType:
    labels: dict[str, tuple[str, ...]] = {INTERRUPTIBLE_LABEL: ("false", "true")}
    kind = make_type(name, price=price, capacity_types=BOTH, labels=labels)
    return structs.replace(kind, offerings=(*kind.offerings, *offerings))


ANY = capacity(keys.RESERVED, *BOTH)


def test_what_is_paid_already_comes_first() -> None:
    """LCH-45, LCH-47: reserved before spot; types without a reservation are left out."""
    kinds = (with_reserved("m5.big", reserved()), make_type("m5.small", capacity_types=BOTH))
    assert chosen(wanting(ANY), *kinds) == (keys.RESERVED, ["m5.big"])
    assert chosen(wanting(capacity(*BOTH)), *kinds)[0] == keys.SPOT


def test_a_reservation_that_is_used_up_gives_way_to_spot() -> None:
    """LCH-47: choice of the capacity type."""
    used = frozenset({(keys.RESERVED, "m5.big", ZONES[0])})
    kind = with_reserved("m5.big", reserved())
    assert chosen(wanting(ANY), kind, unavailable=used)[0] == keys.SPOT
    with pytest.raises(InsufficientCapacity):
        chosen(wanting(ANY, Expression(ID_LABEL, "Exists")), kind, unavailable=used)


def test_ordinary_reservations_and_capacity_blocks_are_not_mixed() -> None:
    """LCH-45: capacity reservation type."""
    block = with_reserved("p5.big", reserved("capacity-block", price=1))
    both = with_reserved("p5.small", reserved(zone=ZONES[1]), reserved("capacity-block"))
    found = choose(wanting(ANY), make_catalogue((block, both)), ZONES, frozenset())
    assert [c.type.name for c in found.choices] == ["p5.small"]
    assert [o.reservation_type for o in found.choices[0].offerings] == ["default"]


def test_interruptible_reservations_are_asked_for_alone() -> None:
    """LCH-45: after ordinary ones, before capacity blocks."""

    def interruptible(zone: str) -> Offering:
        return structs.replace(reserved(zone=zone), interruptible=True)

    block = reserved("capacity-block", ZONES[2])
    both = with_reserved("m5.big", interruptible(ZONES[0]), reserved(zone=ZONES[1]), block)
    only = with_reserved("m5.large", interruptible(ZONES[0]), block)

    def zones(*kinds: InstanceType, rule: Expression = ANY) -> list[str]:
        found = choose(wanting(ANY, rule), make_catalogue(kinds), ZONES, frozenset())
        return [o.zone for choice in found.choices for o in choice.offerings]

    assert zones(both, only) == [ZONES[1]]
    assert zones(only) == [ZONES[0]]
    assert zones(both, rule=Expression(INTERRUPTIBLE_LABEL, "In", ("true",))) == [ZONES[0]]


def test_of_capacity_blocks_only_the_cheapest_is_asked_for() -> None:
    """LCH-45: a fleet takes one block."""
    block = "capacity-block"
    dear = with_reserved("p5.dear", reserved(block, price=9))
    cheap = with_reserved("p5.cheap", reserved(block, ZONES[1], 2), reserved(block, ZONES[2], 3))
    (choice,) = choose(wanting(ANY), make_catalogue((dear, cheap)), ZONES, frozenset()).choices
    assert (choice.type.name, [o.zone for o in choice.offerings]) == ("p5.cheap", [ZONES[1]])


FAMILIES = Expression(keys.AWS_PREFIX + "instance-family", "Exists", min_values=2)


def test_variety_outranks_saving() -> None:
    """LCH-45: with minValues neither metal nor dear spot is dropped."""
    plain = make_type("m5.small", price=100, capacity_types=BOTH)
    metal = make_type("c5.metal", price=9000, capacity_types=BOTH)
    kind = wanting(capacity(*BOTH), FAMILIES)
    assert chosen(kind, plain, metal) == (keys.SPOT, ["m5.small", "c5.metal"])
    assert chosen(wanting(capacity(*BOTH)), plain, metal)[1] == ["m5.small"]


def test_the_sixty_keep_the_variety_that_is_asked_for() -> None:
    """LCH-46: the only type of a second family is kept, though sixty are cheaper."""
    many = [make_type(f"m5.x{n:03d}", price=n + 1) for n in range(80)]
    other = make_type("c5.big", price=9000)
    names = chosen(wanting(FAMILIES), *many, other)[1]
    assert len(names) == MOST_TYPES
    assert names[-1] == "c5.big"
    assert names[:-1] == [f"m5.x{n:03d}" for n in range(MOST_TYPES - 1)]


def test_metal_on_demand_does_not_make_spot_look_dear() -> None:
    """LCH-45: the filters run one after the other."""
    metal = make_type("m5.metal", price=1)
    plain = make_type("m5.small", price=100, capacity_types=BOTH)
    assert chosen(wanting(capacity(*BOTH)), metal, plain) == (keys.SPOT, ["m5.small"])


@pytest.mark.parametrize(("types", "few"), [(4, True), (5, False)])
def test_falling_back_to_few_on_demand_types_is_noticed(types: int, *, few: bool) -> None:
    """LCH-48: the warning about few types on demand."""
    catalogue = make_catalogue(tuple(make_type(f"m5.x{n}") for n in range(types)))
    for allowed, expected in ((BOTH, few), ((keys.ON_DEMAND,), False)):
        machine = wanting(capacity(*allowed))
        found = choose(machine, catalogue, ZONES, frozenset())
        assert falls_back_to_few(machine, found) is expected


_PRICES = st.integers(1, 1000)


@given(st.lists(st.tuples(_PRICES, st.booleans(), st.booleans()), min_size=1, max_size=90))
def test_a_choice_is_always_allowed_cheapest_first_and_bounded(
    rows: list[tuple[int, bool, bool]],
) -> None:
    """LCH-45..47 for any market: no filter takes the last type, none lets in what was excluded."""
    kinds = [
        make_type(
            f"m5.{'metal' if metal else 'x'}{n}", price=price,
            capacity_types=BOTH if spot else (keys.ON_DEMAND,),
        )
        for n, (price, metal, spot) in enumerate(rows)
    ]  # fmt: skip
    found = choose(wanting(capacity(*BOTH)), make_catalogue(tuple(kinds)), ZONES, frozenset())
    prices = [choice.price for choice in found.choices]
    assert 1 <= len(prices) <= MOST_TYPES
    assert prices == sorted(prices)
    assert {o.capacity_type for c in found.choices for o in c.offerings} == {found.capacity_type}
    plain = [price for price, metal, _ in rows if not metal]
    most = min(plain or [price for price, _, _ in rows])
    is_cheap = [
        spot and price * 30 // 100 <= most for price, metal, spot in rows if not (metal and plain)
    ]
    assert (found.capacity_type == keys.SPOT) is any(is_cheap)
    if found.capacity_type == keys.SPOT:
        assert prices[-1] <= most
