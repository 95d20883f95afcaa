"""Capacity reservations in a given catalogue (SCH-105, EC-05)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.shared.simulation.documents import (
    answer,
    ec2_node_class,
    instance_type,
    node_pool,
    offering,
    placed,
    pod,
)

RESERVED = {
    "key": "karpenter.sh/capacity-type",
    "operator": "In",
    "values": ["reserved", "on-demand"],
}


def reserved_type(*places: dict[str, Any]) -> dict[str, Any]:
    """An m5.large on demand and in these reservations."""
    given = [{"zone": "us-east-1a", "capacityType": "reserved", **one} for one in places]
    return instance_type(offerings=[offering("us-east-1a"), *given])


def reservations(found: dict[str, Any]) -> list[str]:
    """Ids of the reservations that machines are planned into."""
    key = "karpenter.k8s.aws/capacity-reservation-id"
    rules = (rule for one in found["machines"] for rule in one["requirements"])
    return sorted(value for rule in rules if rule["key"] == key for value in rule["values"])


def test_places_in_reservations_are_given_out_once_each() -> None:
    """Reservations cost nothing unless a price is given (SCH-105, IT-07)."""
    pods = [pod(f"web-{i}", cpu="1500m") for i in range(3)]
    kind = reserved_type({"reservationID": "cr-1", "capacity": 2})
    found = answer(*pods, kind, node_pool(requirements=[RESERVED]))
    assert found["faults"] == []
    assert reservations(found) == ["cr-1", "cr-1"]
    assert found["cost"]["hourly"] == 0.1


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ([{"id": "cr-1"}], None, ["cr-1"]),
        ([{"id": "cr-9"}], None, []),
        (None, None, []),
        ([{"tags": {"a": "b"}}], [{"id": "cr-1"}], ["cr-1"]),
        (None, "odd", []),
    ],
)
def test_a_class_selects_its_reservations(spec: Any, status: Any, expected: list[str]) -> None:
    """EC-05: by id, or as its status shows; a class that is not given selects all."""
    chosen = {"capacityReservationSelectorTerms": spec} if spec else {}
    node_class = ec2_node_class(**chosen)
    node_class["status"] = {"capacityReservations": status}
    kind = reserved_type({"reservationID": "cr-1", "capacity": 2})
    found = answer(pod(), kind, node_pool(requirements=[RESERVED]), node_class)
    assert reservations(found) == expected


@pytest.mark.parametrize("wanted", ["true", "false"])
def test_a_pod_chooses_by_what_its_own_reservation_is(wanted: str) -> None:
    """Each reservation has its own interruptible label, although the type has both kinds (KEY-05)."""
    kind = reserved_type(
        {"reservationID": "cr-kept", "capacity": 1},
        {"reservationID": "cr-lent", "capacity": 1, "interruptible": True},
    )
    selector = {"karpenter.k8s.aws/capacity-reservation-interruptible": wanted}
    found = answer(pod(nodeSelector=selector), kind, node_pool(requirements=[RESERVED]))
    assert reservations(found) == ["cr-lent" if wanted == "true" else "cr-kept"]


@pytest.mark.parametrize(
    ("place", "field"),
    [
        ({"reservationID": "r-1", "capacity": 1}, "reservationID"),
        ({"reservationID": 7, "capacity": 1}, "reservationID"),
        ({"reservationID": "cr-1"}, "capacity"),
        ({"reservationID": "cr-1", "capacity": -1}, "capacity"),
        ({"reservationID": "cr-1", "capacity": True}, "capacity"),
        ({"reservationID": "cr-1", "capacity": 1, "interruptible": "yes"}, "interruptible"),
        ({"reservationID": "cr-1", "capacity": 1, "reservationType": "odd"}, "reservationType"),
        ({"capacity": 1}, "capacity"),
        ({"reservationID": "cr-1", "capacity": 1, "capacityType": "spot", "price": 1}, "reservationID"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_reservation_is_a_fault(place: dict[str, Any], field: str) -> None:
    found = answer(pod(), reserved_type(place), node_pool(requirements=[RESERVED]))
    assert f"spec.offerings[1].{field}" in [one["field"] for one in found["faults"]]
    assert placed(found) == {"default/web": "m5.large"}
    assert reservations(found) == []


def test_a_reservation_that_is_sold_out_has_no_place() -> None:
    kind = reserved_type({"reservationID": "cr-1", "capacity": 2, "available": False})
    assert reservations(answer(pod(), kind, node_pool(requirements=[RESERVED]))) == []


@pytest.mark.parametrize("full", [{"capacity": 0}, {"capacity": 2, "available": False}])
@pytest.mark.parametrize("alone", [True, False])
def test_pods_of_a_full_reservation_go_to_the_next_pool(full: dict[str, Any], alone: bool) -> None:
    """SCH-105: as in a cluster, where a reservation that EC2 calls full is no offering."""
    place = {"zone": "us-east-1a", "capacityType": "reserved", "reservationID": "cr-1", **full}
    usual = [] if alone else [offering("us-east-1b")]
    kinds = [instance_type("m5.large", offerings=[place, *usual]), instance_type("m5.xlarge")]
    only = {**RESERVED, "values": ["reserved"]}
    first = node_pool("first", requirements=[only])
    first["spec"]["weight"] = 9
    found = answer(pod(), *kinds, first, node_pool("second"))
    assert [one["nodePool"] for one in found["machines"]] == ["second"]
    assert found["faults"] == []
