"""The catalogue that comes with Dovetail (docs/spec/design.md)."""

from __future__ import annotations

from shared.cloud.catalogue.building import generation_of
from shared.cloud.catalogue.bundled import BUNDLED_REGION, bundled_catalogue, packed, unpacked
from shared.domain.labels import ON_DEMAND, SPOT
from tests.support.planning.builders import make_catalogue


def test_it_has_the_types_of_its_region_with_both_prices() -> None:
    found = bundled_catalogue()
    types = {one.name: one for one in found.types}
    assert found.region == BUNDLED_REGION
    assert len(types) > 1000
    prices = {
        (one.capacity_type, one.zone): one.price_micro_usd_per_hour
        for one in types["m5.large"].offerings
    }
    assert prices[ON_DEMAND, "us-east-1a"] == 96_000
    assert 0 < prices[SPOT, "us-east-1a"] < 96_000


def test_it_says_which_types_have_enclaves() -> None:
    """EC-14: what EC2 says reaches the planner."""
    facts = {one.name: one.facts for one in bundled_catalogue().types}
    found = {name: one.enclaves for name, one in facts.items() if one is not None}
    assert (found["m5.xlarge"], found["t3.micro"]) == (True, False)


def test_its_generation_is_that_of_its_content() -> None:
    """A file that was edited, or made before the records changed, would not match."""
    found = bundled_catalogue()
    assert found.generation == generation_of(found.types)


def test_packing_keeps_everything_and_gives_the_same_bytes() -> None:
    catalogue = make_catalogue()
    assert unpacked(packed(catalogue)) == catalogue
    assert packed(catalogue) == packed(make_catalogue())
