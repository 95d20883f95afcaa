"""kind: InstanceType -> catalogue entries, and what is wrong with them (docs/spec/design.md)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.faults import field_text
from shared.api.hardware.instance_types import ParsedType, parse_instance_type
from shared.api.registry import check
from tests.shared.simulation.documents import instance_type, offering


def parse(**changes: Any) -> ParsedType:
    return parse_instance_type(instance_type(**changes))


def told(parsed: ParsedType) -> list[str]:
    return [field_text(fault.path) for fault in parsed.faults]


def test_a_type_has_amounts_in_planner_units_and_prices_in_micro_usd() -> None:
    overhead = {"cpu": "70m", "memory": "100Mi"}
    found = parse(overhead=overhead, offerings=[offering(price="0.0965")])
    assert found.faults == ()
    assert found.record is not None
    assert found.record.capacity == {"cpu": 2000, "memory": 8 * 1024**3, "pods": 29}
    assert found.record.overhead == {"cpu": 70, "memory": 100 * 1024**2}
    assert [one.price_micro_usd_per_hour for one in found.record.offerings] == [96_500]


def test_parts_of_the_overhead_are_added_up() -> None:
    """IT-30: CPU kept for the kubelet."""
    parts = {"kubeReserved": {"cpu": "70m"}, "evictionThreshold": {"memory": "100Mi"}}
    found = parse(overhead={**parts, "systemReserved": {"cpu": "30m"}}).record
    assert found is not None
    assert found.overhead == {"cpu": 100, "memory": 100 * 1024**2}


def test_labels_that_name_and_capacity_say_need_not_be_written() -> None:
    """IT-40..IT-42: labels of an instance type."""
    found = parse(name="c6g.2xlarge", cpu=8, labels={"kubernetes.io/arch": "arm64"}).record
    assert found is not None
    labels = {key.rsplit("/")[-1]: values for key, values in found.labels.items()}
    assert labels["arch"] == ("arm64",)
    assert labels["os"] == ("linux",)
    assert labels["instance-category"] == ("c",)
    assert labels["instance-generation"] == ("6",)
    assert labels["instance-family"] == ("c6g",)
    assert labels["instance-cpu"] == ("8",)
    assert labels["zone"] == ("us-east-1a", "us-east-1b")


def test_label_values_may_be_numbers_truths_and_lists() -> None:
    said = {"a": 4, "b": True, "c": ["x", "y"]}
    found = parse(labels=said).record
    assert found is not None
    assert [found.labels[key] for key in "abc"] == [("4",), ("true",), ("x", "y")]


def test_without_a_number_of_pods_the_kubelets_own_holds() -> None:
    found = parse(capacity={"cpu": 2, "memory": "8Gi"}).record
    assert found is not None
    assert found.capacity["pods"] == 110


def test_a_type_whose_price_nobody_knows_has_offerings_on_demand_and_no_price() -> None:
    bare = {"zone": "us-east-1a", "capacityType": "on-demand"}
    found = parse(priceKnown=False, offerings=[bare])
    assert (told(found), found.price_known) == ([], False)
    assert parse(offerings=[offering()]).price_known
    wrong = [{**bare, "price": 0.1}, {**bare, "capacityType": "spot"}]
    assert told(parse(priceKnown=False, offerings=wrong)) == [
        "spec.offerings[0]",
        "spec.offerings[1]",
    ]
    assert told(parse(priceKnown="no", offerings=[offering()])) == ["spec.priceKnown"]


@pytest.mark.parametrize(
    "price", [-0.1, "-1", float("nan"), "NaN", "inf", float("-inf"), "cheap", None, True, [], 1e9]
)
def test_a_wrong_price_costs_only_its_offering(price: Any) -> None:
    found = parse(offerings=[offering(price=price), offering("us-east-1b", 0.2)])
    assert told(found) == ["spec.offerings[0].price"]
    assert found.record is not None
    assert [one.zone for one in found.record.offerings] == ["us-east-1b"]


@pytest.mark.parametrize(
    ("price", "micro"), [(0, 0), (0.096, 96_000), ("1e-3", 1000), (3, 3_000_000)]
)
def test_prices_are_numbers_or_text(price: Any, micro: int) -> None:
    found = parse(offerings=[offering(price=price)]).record
    assert found is not None
    assert found.offerings[0].price_micro_usd_per_hour == micro


def test_a_type_without_any_good_offering_is_left_out() -> None:
    found = parse(offerings=[offering(price=-1)])
    assert found.record is None
    assert told(found) == ["spec.offerings[0].price"]


def test_sold_out_offerings_are_known_and_cannot_be_bought() -> None:
    found = parse(offerings=[offering(available=False), offering("us-east-1b")])
    assert found.sold_out == {("on-demand", "m5.large", "us-east-1a")}
    assert found.record is not None
    assert len(found.record.offerings) == 2


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"capacity": {"memory": "8Gi"}}, "spec.capacity.cpu"),
        ({"capacity": {"cpu": "-1", "memory": "8Gi"}}, "spec.capacity.cpu"),
        ({"capacity": {"cpu": "many", "memory": "8Gi"}}, "spec.capacity.cpu"),
        ({"capacity": []}, "spec.capacity"),
        ({"overhead": {"cpu": "-70m"}}, "spec.overhead.cpu"),
        ({"labels": {"not a key": "x"}}, "spec.labels[not a key]"),
        ({"labels": {"a": "not a value!"}}, "spec.labels.a"),
        ({"labels": {"node.kubernetes.io/instance-type": "other"}},
         "spec.labels[node.kubernetes.io/instance-type]"),
        ({"offerings": []}, "spec.offerings"),
        ({"offerings": "all"}, "spec.offerings"),
        ({"offerings": [{"zone": "", "price": 1}]}, "spec.offerings[0].zone"),
        ({"offerings": [offering(capacityType="cheap")]}, "spec.offerings[0].capacityType"),
        ({"offerings": [offering(available="no")]}, "spec.offerings[0].available"),
        ({"offerings": [7]}, "spec.offerings[0]"),
    ],
)  # fmt: skip
def test_other_faults_leave_the_type_out(spec: dict[str, Any], field: str) -> None:
    found = parse(**spec)
    assert found.record is None
    assert field in told(found)


def test_an_offering_that_is_there_twice_counts_once() -> None:
    found = parse(offerings=[offering(price=1), offering(price=2)])
    assert told(found) == ["spec.offerings[1]"]
    assert found.record is not None
    assert [one.price_micro_usd_per_hour for one in found.record.offerings] == [1_000_000]


def test_validate_knows_the_kind() -> None:
    assert check(instance_type()) == []
    assert [field_text(one.path) for one in check(instance_type(offerings=[]))] == [
        "spec.offerings"
    ]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["cpu", "memory", "zone", "price", "capacityType", "available", "x y"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["labels", "capacity", "overhead", "offerings"]), ANYTHING))
def test_any_spec_gives_a_type_or_faults(spec: dict[str, Any]) -> None:
    found = parse_instance_type({"metadata": {"name": "m5.large"}, "spec": spec})
    assert found.record is not None or found.faults
