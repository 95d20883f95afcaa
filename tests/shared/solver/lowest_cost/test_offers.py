"""The expected price of a spot launch, and the offerings that no other one replaces."""

from __future__ import annotations

import numpy as np
import pytest

from shared.solver.encode import NO_PRICE
from shared.solver.lowest_cost.offers import (
    SPOT_POOL_PROBABILITY,
    covering,
    expected_price,
    unbeaten,
)


def test_a_launch_mostly_finds_one_of_the_cheapest_pools() -> None:
    prices = np.array([[100, 110], [300, NO_PRICE]], dtype=np.int64)
    could = np.array([[True, True], [False, True], [False, False]])
    price, pools = expected_price(could, prices)
    weights = SPOT_POOL_PROBABILITY * (1 - SPOT_POOL_PROBABILITY) ** np.arange(3)
    assert price[0] == pytest.approx((weights @ [100, 110, 300]) / weights.sum())
    assert price[1] == 300
    assert price[2] == np.inf
    assert list(pools) == [3, 1, 0]


def test_an_offering_stays_unless_a_cheaper_one_is_as_large_and_as_open() -> None:
    sizes = np.array([[4, 4], [2, 8], [3, 3], [4, 4]], dtype=np.float64)
    users = np.array([[True, False], [True, True], [True, False], [True, True]])
    at = np.arange(4)
    stands_in = covering(users)(at, at)
    assert list(unbeaten(sizes, np.ones(4, np.bool_), stands_in)) == [True, True, False, True]
    flexible = np.array([False, True, True, True])
    assert unbeaten(sizes, flexible, stands_in)[2]
