"""Quantities and sums of resources are exact (SCH-60..SCH-63)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.domain import resources
from shared.errors import InvalidObject

amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "pods"]), st.integers(0, 2**40))


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "250m", 250),
        ("cpu", "2", 2000),
        ("cpu", "0.1", 100),
        ("cpu", "1e3", 1_000_000),
        ("cpu", "100u", 1),
        ("memory", "256Mi", 256 * 1024**2),
        ("memory", "1.5Gi", 3 * 1024**3 // 2),
        ("memory", "1G", 10**9),
        ("memory", "128974848", 128974848),
        ("pods", "29", 29),
        ("nvidia.com/gpu", "1", 1),
    ],
)
def test_quantities_are_read_in_the_resources_unit(resource: str, text: str, amount: int) -> None:
    assert resources.parse_amount(resource, text, field="f") == amount


@pytest.mark.parametrize(
    "text", ["", "abc", "1 Gi", "-1", "1e99", "9" * 30, "1KiB", True, None, []]
)
def test_what_is_no_quantity_names_its_field(text: object) -> None:
    with pytest.raises(InvalidObject, match=r"spec\.cpu"):
        resources.parse_amount("cpu", text, field="spec.cpu")


@given(st.integers(0, 2**50), st.sampled_from(["cpu", "memory", "pods", "example.com/thing"]))
def test_written_amounts_read_back_the_same(amount: int, resource: str) -> None:
    """SCH-63: quantities are exact."""
    text = resources.format_amount(resource, amount)
    assert resources.parse_amount(resource, text, field="f") == amount


@given(amounts, amounts)
def test_a_sum_minus_one_part_is_the_other(left: dict[str, int], right: dict[str, int]) -> None:
    rest = resources.subtract(resources.add(left, right), right)
    assert {n: a for n, a in rest.items() if a} == {n: a for n, a in left.items() if a}


@given(amounts, amounts)
def test_a_request_fits_in_anything_that_contains_it(
    one: dict[str, int], more: dict[str, int]
) -> None:
    assert resources.fits(one, resources.add(one, more))


@given(amounts, amounts)
def test_names_keep_their_order_in_every_process(
    left: dict[str, int], right: dict[str, int]
) -> None:
    """A set's order differs from process to process: records in the mirror would change with each start."""
    names = [*left, *(name for name in right if name not in left)]
    assert list(resources.subtract(left, right)) == names
    assert list(resources.at_least(left, right)) == names


def test_sch_61_a_missing_request_is_zero() -> None:
    assert resources.fits({}, {"cpu": 0})


def test_sch_62_an_unknown_resource_is_not_available() -> None:
    assert not resources.fits({"example.com/thing": 1}, {"cpu": 1000})


def test_sch_62_nothing_fits_where_an_amount_is_negative() -> None:
    assert not resources.fits({"cpu": 1}, {"cpu": 1000, "memory": -1})


def test_sch_63_two_pods_that_fit_exactly_fit() -> None:
    total = resources.add({"cpu": 100}, {"cpu": 200})
    assert resources.fits(total, {"cpu": 300})
    assert not resources.fits(total, {"cpu": 299})


def test_exceeded_limits_are_named() -> None:
    assert resources.exceeded({"cpu": 5, "memory": 1}, {"cpu": 4, "memory": 1}) == ["cpu"]


@pytest.mark.parametrize("text", ["-1", "much", "9e40"])
def test_an_amount_that_is_refused_again_names_the_field_of_now(text: str) -> None:
    for field in ("requests.cpu", "limits.cpu"):
        with pytest.raises(InvalidObject) as refused:
            resources.parse_amount("cpu", text, field=field)
        assert refused.value.field == field


@pytest.mark.parametrize("text", ["1\n", "١", "1 ", "Infinity", "1e400", "--1", "0x10"])
def test_only_kubernetes_own_digits_and_suffixes_are_quantities(text: str) -> None:
    """apimachinery's grammar: no line end, no digits of other scripts."""
    with pytest.raises(InvalidObject):
        resources.parse_amount("cpu", text, field="cpu")


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("memory", 1_258_500_916, "1201Mi"),
        ("memory", 2 << 30, "2Gi"),
        ("memory", 1, "1Mi"),
        ("cpu", 340, "340m"),
        ("nvidia.com/gpu", 3, "3"),
    ],
)
def test_bytes_are_rounded_up_for_people(resource: str, amount: int, text: str) -> None:
    assert resources.round_amount(resource, amount) == text
