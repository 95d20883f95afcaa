"""Which subnet a launch uses (LCH-10..12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.launch import subnets as module
from services.launcher.launch.subnets import RESERVATION_SECONDS, SubnetAddresses, most_taken, taken
from shared.cloud.ec2.records import FleetInstance, Subnet

A1 = Subnet("subnet-a1", "us-west-2a", "usw2-az1", 100)
A2 = Subnet("subnet-a2", "us-west-2a", "usw2-az1", 90)
B1 = Subnet("subnet-b1", "us-west-2b", "usw2-az2", 5)
ALL = (A1, A2, B1)


def chosen(addresses: SubnetAddresses, now: float = 0.0) -> str:
    return addresses.choose(ALL, now)["us-west-2a"]


def test_each_zone_gets_its_subnet_with_most_free_addresses() -> None:
    """LCH-11: the subnet with most free addresses."""
    assert SubnetAddresses().choose(ALL, 0.0) == {
        "us-west-2a": "subnet-a1",
        "us-west-2b": "subnet-b1",
    }


def test_equal_subnets_are_told_apart_by_id_whatever_their_order() -> None:
    twins = [Subnet(name, "z", "", 10) for name in ("subnet-1", "subnet-2")]
    addresses = SubnetAddresses()
    assert addresses.choose(twins, 0.0) == addresses.choose(twins[::-1], 0.0) == {"z": "subnet-2"}


def test_free_ipv4_addresses_do_not_count_where_pods_have_ipv6() -> None:
    """LCH-11: EC2 counts no others, and an IPv6 subnet of any size may show none. A full one still comes last."""
    addresses = SubnetAddresses()
    poor, rich = Subnet("subnet-2", "z", "", 0), Subnet("subnet-1", "z", "", 250)
    assert addresses.choose([poor, rich], 0.0, is_ipv6=True) == {"z": "subnet-2"}
    addresses.reserve("launch", {"subnet-2": 29}, 0.0)
    assert addresses.choose([poor, rich], 0.0, is_ipv6=True) == {"z": "subnet-1"}
    addresses.settle("launch", {}, 0.0)
    addresses.exhausted("subnet-2", 0.0)
    assert addresses.choose([poor, rich], 0.0, is_ipv6=True) == {"z": "subnet-1"}


def test_a_burst_of_launches_spreads_over_the_subnets_of_a_zone() -> None:
    """LCH-11: addresses of launches in flight are taken already."""
    addresses = SubnetAddresses()
    for number in range(4):
        addresses.reserve(f"launch-{number}", {chosen(addresses): 29}, 0.0)
    # 100 and 90, less 29 in turns: a1, a2, a1, a2.
    assert (addresses.free(A1), addresses.free(A2)) == (42, 32)


def test_what_was_reserved_elsewhere_comes_back_when_ec2_answered() -> None:
    """LCH-11: corrected after the response, to the type that was started."""
    addresses = SubnetAddresses()
    addresses.reserve("launch", {A1.id: 58, B1.id: 58}, 0.0)
    addresses.settle("launch", {B1.id: 29}, 1.0)
    assert (addresses.free(A1), addresses.free(B1)) == (100, 5 - 29)
    addresses.settle("launch", {}, 2.0)
    assert addresses.free(B1) == 5


def test_asking_again_for_the_same_launch_counts_once() -> None:
    """LCH-71: a launch that goes on after a crash."""
    addresses = SubnetAddresses()
    addresses.reserve("launch", {A1.id: 20}, 0.0)
    addresses.reserve("launch", {A1.id: 20}, 0.0)
    assert addresses.free(A1) == 80


def test_a_reservation_ends_when_ec2_counts_its_addresses_itself() -> None:
    """LCH-90: how long answers are kept."""
    addresses = SubnetAddresses()
    addresses.reserve("launch", {A1.id: 20}, 0.0)
    assert chosen(addresses, RESERVATION_SECONDS - 1) == A2.id
    assert chosen(addresses, RESERVATION_SECONDS) == A1.id


def test_a_full_subnet_comes_last_for_five_minutes_but_is_not_left_out() -> None:
    """LCH-12: a full subnet comes last."""
    addresses = SubnetAddresses()
    addresses.exhausted(A1.id, 0.0)
    addresses.exhausted(B1.id, 0.0)
    assert addresses.choose(ALL, 1.0) == {"us-west-2a": A2.id, "us-west-2b": B1.id}
    assert chosen(addresses, RESERVATION_SECONDS) == A1.id


def test_no_more_launches_are_remembered_than_there_is_room_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MOST_RESERVATIONS", 2)
    addresses = SubnetAddresses()
    for number in range(5):
        addresses.reserve(f"launch-{number}", {A1.id: 1}, 0.0)
    assert addresses.free(A1) == 98


def test_a_call_may_take_the_pods_of_its_largest_type_for_each_machine() -> None:
    """LCH-11: the subnet with most free addresses."""
    overrides = [
        {"InstanceType": "m5.large", "SubnetId": A1.id},
        {"InstanceType": "m5.xlarge", "SubnetId": A1.id},
        {"InstanceType": "m5.large", "SubnetId": B1.id},
        {"InstanceType": "unknown", "SubnetId": A2.id},
    ]
    pods = {"m5.large": 29, "m5.xlarge": 58}
    assert most_taken(overrides, pods, 3) == {A1.id: 174, B1.id: 87, A2.id: 0}


def test_what_ec2_started_takes_the_pods_of_its_types_where_it_is() -> None:
    """LCH-11: the subnet with most free addresses."""
    started = [
        FleetInstance(f"i-{number}", kind, "z", subnet, "spot", "lt-1")
        for number, (kind, subnet) in enumerate(
            [("m5.large", A1.id), ("m5.large", A1.id), ("m5.xlarge", B1.id), ("m5.large", None)]
        )
    ]
    assert taken(started, {"m5.large": 29, "m5.xlarge": 58}) == {A1.id: 58, B1.id: 58}


LAUNCHES = st.sampled_from(["one", "two", "three"])
COUNTS = st.dictionaries(st.sampled_from([s.id for s in ALL]), st.integers(0, 50), max_size=3)
STEPS = st.lists(st.tuples(LAUNCHES, st.none() | COUNTS), max_size=20)


@given(STEPS)
def test_whatever_happens_free_is_what_ec2_said_less_what_is_in_flight(
    steps: list[tuple[str, dict[str, int] | None]],
) -> None:
    addresses = SubnetAddresses()
    expected: dict[str, dict[str, int]] = {}
    for launch, counts in steps:
        if counts is None:
            addresses.settle(launch, {}, 0.0)
            expected.pop(launch, None)
        else:
            addresses.reserve(launch, counts, 0.0)
            expected[launch] = counts
    for subnet in ALL:
        taken = sum(counts.get(subnet.id, 0) for counts in expected.values())
        assert addresses.free(subnet) == subnet.available_ips - taken
    assert set(addresses.choose(ALL, 0.0)) == {"us-west-2a", "us-west-2b"}
