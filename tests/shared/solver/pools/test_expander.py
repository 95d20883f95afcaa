"""Which of several pools of the same weight is tried first, as Cluster Autoscaler's expanders choose."""

from __future__ import annotations

from typing import Any

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.errors import ConfigurationError
from shared.solver.plan import Plan
from shared.solver.pools.expander import SPREAD, in_order, read_priorities
from shared.solver.solve import SolverSettings, solve, solve_in_order
from tests.support.planning.builders import (
    DEFAULT_REQUIREMENTS,
    make_catalogue,
    make_pods,
    make_pool,
    make_snapshot,
    make_type,
)

SMALL, LARGE = make_type("m5.large", 2, 8, 96_000), make_type("m5.4xlarge", 16, 64, 768_000)


def pool(name: str, kind: str, **changes: Any) -> NodePool:
    only = Expression(keys.INSTANCE_TYPE, "In", (kind,))
    return make_pool(name, requirements=(*DEFAULT_REQUIREMENTS, only), **changes)


def cluster(*pools: NodePool, number: int = 4, cpu: str = "900m", **changes: Any) -> Snapshot:
    return make_snapshot(
        *make_pods(number, cpu=cpu, memory="1Gi"),
        pools=pools,
        catalogue=make_catalogue((SMALL, LARGE)),
        **changes,
    )


def planned(snapshot: Snapshot, expander: str, **settings: Any) -> Plan:
    chosen = SolverSettings(expander=expander, **settings)
    return solve_in_order(snapshot, now=0.0, settings=chosen)


def bought(snapshot: Snapshot, expander: str, **settings: Any) -> str:
    """The pool that gets the machines, and how many."""
    machines = planned(snapshot, expander, **settings).machines
    (name,) = {one.pool for one in machines}
    return f"{name} {len(machines)}"


def test_without_an_expander_it_is_the_plan_as_always() -> None:
    snapshot = cluster(pool("a", SMALL.name), pool("b", LARGE.name))
    assert planned(snapshot, "") == solve(snapshot, now=0.0, settings=SolverSettings())
    assert bought(snapshot, "") == "b 1"


def test_least_waste_takes_the_pool_whose_machines_are_fullest() -> None:
    """Four pods of 0.9 CPU fill 90 % of two small machines, and a quarter of a large one."""
    pools = (pool("a", SMALL.name), pool("b", LARGE.name))
    assert bought(cluster(*pools), "least-waste") == "a 2"
    assert bought(cluster(*pools, number=16), "least-waste") == "b 1"


def test_most_pods_takes_the_pool_that_places_most() -> None:
    limited = pool("z", LARGE.name, limits={"cpu": 1000})
    assert bought(cluster(pool("a", SMALL.name), limited), "most-pods") == "a 2"
    assert bought(cluster(pool("a", SMALL.name), pool("z", LARGE.name)), "most-pods") == "z 1"


def test_random_differs_between_rounds_and_not_when_a_round_is_made_again() -> None:
    pools = (pool("a", SMALL.name), pool("b", LARGE.name))
    rounds = [bought(cluster(*pools, generation=n), "random") for n in range(20)]
    assert set(rounds) == {"a 2", "b 1"}
    assert rounds == [bought(cluster(*pools, generation=n), "random") for n in range(20)]


def test_priority_takes_the_pool_whose_pattern_has_the_highest_number() -> None:
    pools = (pool("spot-a", SMALL.name), pool("web", LARGE.name))
    priorities = read_priorities("10: [.*]\n50:\n  - ^spot-")
    assert priorities == ((50, ("^spot-",)), (10, (".*",)))
    assert bought(cluster(*pools), "priority", pool_priorities=priorities) == "spot-a 2"
    assert bought(cluster(*pools), "priority") == "web 1"


@pytest.mark.parametrize("expander", ["least-waste", "most-pods", "random", "priority"])
def test_a_higher_weight_comes_first_whatever_the_expander(expander: str) -> None:
    heavy = pool("a", LARGE.name, weight=2)
    others = (pool("b", SMALL.name, weight=1), pool("c", SMALL.name, weight=1))
    assert bought(cluster(heavy, *others), expander) == "a 1"
    ordered = in_order(cluster(heavy, *others), expander, (), lambda _: planned(cluster(heavy), ""))
    weights = {one.name: one.weight for one in ordered.pools}
    assert weights["a"] >= 2 * SPREAD > max(weights["b"], weights["c"])
    assert weights["b"] != weights["c"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[1, 2]", "must map at most 100 numbers"),
        ("high: [a]", "'high' is no whole number"),
        ("-1: [a]", "'-1' is no whole number"),
        ("1: a", "priority 1: must be a list"),
        ("1: ['(']", "priority 1: '('"),
        ("1: [", "not YAML"),
        ("1: " + "[" * 5000, "not YAML"),
        ("1: [2020-13-01]", "not YAML"),
        (f"1: [{'a' * 501}]", "longer than 500"),
    ],
)
def test_wrong_priorities_are_named(text: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read_priorities(text)
    assert words in error.value.message


def test_an_unknown_expander_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="least-waste or most-pods or random or priority"):
        SolverSettings(expander="price")
