"""The bill: seconds from the launch to the order to end, times the price of the pool."""

from __future__ import annotations

import pytest

from local.aws.capacity.bill import RESERVED, Bill, Pool
from local.aws.catalogue.prices import PriceBook

HOUR = 3600.0
LARGE = Pool("m5.large", "us-west-2a", "on-demand")


@pytest.fixture
def bill() -> Bill:
    return Bill(PriceBook({"m5.large": None}, {"m5.large": 0.1}))  # type: ignore[dict-item]


def total(bill: Bill, begin: float, end: float) -> float:
    return sum(line.dollars for line in bill.lines(begin, end))


def test_an_instance_costs_from_its_launch_to_the_order_to_end(bill: Bill) -> None:
    for state, at in (("pending", 0), ("running", 60), ("shutting-down", HOUR), ("terminated", 2 * HOUR)):  # fmt: skip
        bill.note("i-1", LARGE, state, at)
    (line,) = bill.lines(0, 10 * HOUR)
    assert (line.pool, line.instances, line.seconds) == (LARGE, 1, HOUR)
    assert line.dollars == pytest.approx(0.1)


def test_a_period_has_its_part_of_what_runs(bill: Bill) -> None:
    bill.note("i-1", LARGE, "pending", 0)
    assert total(bill, HOUR, 3 * HOUR) == pytest.approx(0.2)
    assert total(bill, -HOUR, 0) == 0


def test_a_stopped_instance_costs_nothing_until_it_is_started(bill: Bill) -> None:
    for state, at in (("pending", 0), ("stopping", HOUR), ("stopped", HOUR), ("pending", 3 * HOUR)):
        bill.note("i-1", LARGE, state, at)
    assert total(bill, 0, 4 * HOUR) == pytest.approx(0.2)


def test_spot_has_its_own_price_and_a_reservation_is_paid_for_elsewhere(bill: Bill) -> None:
    spot, reserved = LARGE._replace(capacity_type="spot"), LARGE._replace(capacity_type=RESERVED)
    bill.note("i-1", spot, "pending", 0)
    bill.note("i-2", reserved, "pending", 0)
    costs = {line.pool: line.dollars for line in bill.lines(0, HOUR)}
    assert 0 < costs[spot] < 0.1
    assert costs[reserved] == 0
