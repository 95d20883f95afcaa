"""Instance types as values: allocatable amounts and the JSON form of a catalogue."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain.instance_types.types import (
    Catalogue,
    InstanceType,
    Offering,
    SizeFacts,
    decode_catalogue,
    encode_catalogue,
)

RESOURCES = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu"]), st.integers(0, 2**50)
)
OFFERINGS = st.builds(
    Offering,
    zone=st.sampled_from(["us-west-2a", "us-west-2b"]),
    capacity_type=st.sampled_from(["spot", "on-demand"]),
    price_micro_usd_per_hour=st.integers(1, 10**9),
    reservation_id=st.sampled_from(["", "cr-1"]),
    reservation_type=st.sampled_from(["", "capacity-block"]),
)
TYPES = st.builds(
    InstanceType,
    name=st.text(min_size=1, max_size=20),
    labels=st.dictionaries(
        st.text(max_size=20), st.lists(st.text(max_size=20), max_size=3).map(tuple), max_size=4
    ),
    capacity=RESOURCES,
    overhead=RESOURCES,
    offerings=st.lists(OFFERINGS, max_size=3).map(tuple),
    facts=st.none() | st.builds(SizeFacts),
)


def machine(capacity: dict[str, int], overhead: dict[str, int]) -> InstanceType:
    return InstanceType("m5.large", {}, capacity, overhead, ())


def test_allocatable_is_capacity_minus_overhead_per_resource() -> None:
    """IT-34: allocatable."""
    one = machine({"cpu": 2000, "memory": 100, "pods": 29}, {"cpu": 70, "memory": 40})
    assert one.allocatable() == {"cpu": 1930, "memory": 60, "pods": 29}


def test_overhead_of_a_resource_the_type_lacks_changes_nothing() -> None:
    assert machine({"cpu": 2000}, {"hugepages-2Mi": 5}).allocatable() == {"cpu": 2000}


def test_huge_pages_are_taken_from_the_memory() -> None:
    """IT-34: of both sizes together, whatever else the memory is reserved for."""
    pages = {"hugepages-2Mi": 10, "hugepages-1Gi": 30}
    one = machine({"memory": 100, **pages}, {"memory": 40})
    assert one.allocatable() == {"memory": 20, **pages}
    assert machine({"memory": 20, **pages}, {}).allocatable()["memory"] == 0
    assert machine(pages, {}).allocatable() == pages


@given(capacity=RESOURCES, overhead=RESOURCES)
def test_allocatable_is_never_negative_and_never_above_capacity(
    capacity: dict[str, int], overhead: dict[str, int]
) -> None:
    allocatable = machine(capacity, overhead).allocatable()
    assert allocatable.keys() == capacity.keys()
    assert all(0 <= allocatable[name] <= capacity[name] for name in capacity)


@pytest.mark.slow
@given(
    types=st.lists(TYPES, max_size=3).map(tuple),
    lacking=st.dictionaries(st.text(max_size=9), st.text(max_size=9), max_size=2),
)
def test_a_catalogue_survives_encoding(
    types: tuple[InstanceType, ...], lacking: dict[str, str]
) -> None:
    catalogue = Catalogue("us-west-2", "0123456789abcdef", types, lacking)
    assert decode_catalogue(encode_catalogue(catalogue)) == catalogue


def test_a_wrong_document_names_the_field() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.types"):
        decode_catalogue(b'{"region": "us-west-2", "generation": "0", "types": 5}')


def test_values_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        machine({}, {}).name = "m5.xlarge"  # type: ignore[misc]
