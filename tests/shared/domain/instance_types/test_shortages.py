"""How past shortages order offerings: decay, margin and steps, and what is never touched."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.shortages import (
    MILLION,
    decayed,
    shortages_of,
    surcharge,
    weighed,
)
from shared.domain.instance_types.types import Offering
from tests.support.planning.builders import (
    ZONES,
    make_catalogue,
    make_pod,
    make_snapshot,
    make_type,
)
from tests.support.planning.snapshots import plan_for

M5, M6 = make_type("m5.large"), make_type("m6.large")
LEAST_NAME = (keys.ON_DEMAND, "m5.large", ZONES[0])
PERCENT = MILLION // 100


def test_each_half_life_halves_what_a_shortage_counts() -> None:
    assert decayed([1]) == 1
    assert decayed([0, 0, 4]) == 1
    assert decayed([]) == 0


def test_many_shortages_count_for_the_margin_and_no_more() -> None:
    found = dict(shortages_of({LEAST_NAME: 1e6, (keys.SPOT, "m5.large", ZONES[0]): 1.0}, 0.02))
    assert found == {LEAST_NAME: 2 * PERCENT, (keys.SPOT, "m5.large", ZONES[0]): PERCENT}


def test_a_little_time_changes_nothing_and_a_faint_memory_is_none() -> None:
    """Else every second would be another input, and another answer of consolidation."""
    assert shortages_of({LEAST_NAME: 2.0}, 0.01) == shortages_of({LEAST_NAME: 2.01}, 0.01)
    assert shortages_of({LEAST_NAME: 0.04}, 0.01) == ()
    assert shortages_of({LEAST_NAME: 9.0}, 0.0) == ()


def test_even_the_cheapest_offering_gets_a_surcharge() -> None:
    assert surcharge(96_000, PERCENT) == 960
    assert surcharge(3, PERCENT) == 1
    assert surcharge(96_000, 0) == 0


def test_the_catalogue_keeps_its_prices_and_its_reserved_offerings() -> None:
    reserved = Offering(ZONES[0], keys.RESERVED, 0, reservation_id="cr-1", order=7)
    catalogue = make_catalogue((make_type("m5.large"),))
    plain = catalogue.types[0]
    kind = replace(plain, offerings=(*plain.offerings, reserved))
    assert weighed(catalogue, ()) is catalogue
    first, *others = weighed(make_catalogue((kind,)), ((LEAST_NAME, PERCENT),)).types[0].offerings
    assert (first.price_micro_usd_per_hour, first.order) == (96_000, 960)
    assert [one.order for one in others] == [one.order for one in kind.offerings[1:]]


def types_of(shortages: tuple[tuple[tuple[str, str, str], int], ...], policy: str) -> list[str]:
    snapshot = make_snapshot(
        make_pod(cpu="1"), catalogue=make_catalogue((M5, M6)), shortages=shortages
    )
    (machine,) = plan_for(snapshot, packing_policy=policy).machines
    return [machine.instance_types[0], machine.offering.zone]


def test_among_equal_prices_the_plan_begins_with_what_did_not_fail() -> None:
    everywhere = tuple(((keys.ON_DEMAND, "m5.large", zone), PERCENT) for zone in ZONES)
    for policy in ("FewestNodes", "LowestCost"):
        assert types_of((), policy) == ["m5.large", ZONES[0]]
        assert types_of(((LEAST_NAME, PERCENT),), policy) == ["m5.large", ZONES[1]]
        assert types_of(everywhere, policy) == ["m6.large", ZONES[0]]


def test_offerings_that_the_catalogue_lacks_are_left_out() -> None:
    """History outlives a type, a zone and a capacity type."""
    gone = ((keys.SPOT, "m5.large", ZONES[0]), (keys.ON_DEMAND, "old.large", "us-west-2z"))
    assert types_of(tuple((one, PERCENT) for one in gone), "FewestNodes") == ["m5.large", ZONES[0]]
