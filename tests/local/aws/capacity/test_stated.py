"""Stated capacity as algebra: the latest matching word decides, each pool counts for itself."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.aws.capacity.stated import STATEMENT_LIMIT, Capacity, Cut, Statement
from local.aws.fleet.plan import UNLIMITED, Plan, Pool, cut

KEYS = list(product(("m5.large", "m5.xlarge", "c5.large"), ("us-west-2a", "us-west-2b"), ("spot",)))
statements = st.builds(
    Statement,
    instance_type=st.sampled_from(["*", "m5.*", "m5.large", "c5.large"]),
    zone=st.sampled_from(["*", "us-west-2a", "us-west-2b"]),
    capacity_type=st.sampled_from(["*", "spot", "on-demand"]),
    available=st.none() | st.integers(0, 5),
    percent=st.sampled_from([100.0, 50.0]),
    seed=st.integers(0, 3),
)


@given(st.lists(statements, max_size=8), st.sampled_from(KEYS))
def test_the_latest_statement_that_matches_decides(said: Any, key: Any) -> None:
    capacity = Capacity()
    for statement in said:
        capacity.state(statement)
    matching = [one for one in said if one.matches(key)]
    number = matching[-1].available if matching else None
    assert capacity.left(key) == (UNLIMITED if number is None else number)


@given(statements, st.lists(st.sampled_from(KEYS), max_size=12))
def test_each_pool_uses_up_its_own_number(statement: Any, launches: Any) -> None:
    capacity = Capacity()
    capacity.state(statement)
    for key in launches:
        capacity.use(key, 1)
    for key in KEYS:
        if statement.matches(key) and statement.available is not None:
            assert capacity.left(key) == max(0, statement.available - launches.count(key))
        else:
            assert capacity.left(key) == UNLIMITED


def test_a_repeated_statement_refills_the_pool() -> None:
    capacity = Capacity()
    statement = Statement("m5.large", "us-west-2a", "spot", 2)
    for _ in range(2):
        capacity.state(statement)
        assert capacity.left(KEYS[0]) == 2
        capacity.use(KEYS[0], 2)
        assert capacity.left(KEYS[0]) == 0


def test_a_share_is_about_that_share_and_the_same_for_the_same_seed() -> None:
    pools = [(f"m5.{n}", "us-west-2a", "spot") for n in range(1000)]

    def empty(seed: int) -> list[bool]:
        statement = Statement("*", "*", "*", 0, percent=80, seed=seed)
        return [statement.matches(key) for key in pools]

    assert 740 < sum(empty(1)) < 860
    assert empty(1) == empty(1)
    assert empty(1) != empty(2)


def test_statements_are_bounded() -> None:
    capacity = Capacity()
    for number in range(STATEMENT_LIMIT):
        capacity.state(Statement(f"t{number}", "*", "*", 0))
    with pytest.raises(OverflowError, match="1000"):
        capacity.state(Statement("one-more", "*", "*", 0))
    capacity.state(Statement("t0", "*", "*", 1))


def test_a_cut_is_met_by_so_many_fleets() -> None:
    capacity = Capacity()
    capacity.cut_fleets(Cut(give=1, count=2))
    given_ = [one and one.give for one in (capacity.next_cut() for _ in range(3))]
    assert given_ == [1, 1, None]


@given(st.lists(st.integers(1, 5), max_size=5), st.integers(0, 20))
def test_a_cut_plan_keeps_the_first_grants_and_reports_reduced_pools(
    numbers: Any, give: Any
) -> None:
    pools = [Pool(f"t{n}", "a", "spot", 1.0, None) for n in range(len(numbers))]
    found = cut(Plan(tuple(zip(pools, numbers, strict=True)), ()), give)
    assert found.fulfilled == min(give, sum(numbers))
    granted = {pool.instance_type: number for pool, number in found.grants}
    lost = [p for p, n in zip(pools, numbers, strict=True) if granted.get(p.instance_type, 0) < n]
    assert list(found.exhausted) == lost
