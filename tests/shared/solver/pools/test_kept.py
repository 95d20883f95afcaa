"""The machines for a pool's minimum and headroom."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from shared.domain.pools.kept_capacity import Lacking, smallest
from shared.domain.pools.nodepools import NodePool
from shared.domain.resources import subtract
from shared.solver.pools.kept import MOST_MACHINES, Filling, fill, pieces
from shared.solver.solve import SolverSettings
from tests.support.planning.builders import amounts, make_machine, make_pool, make_snapshot


def filled(pool: NodePool, nodes: int = 0, machines: Any = (), **resources: str) -> Filling:
    snapshot = make_snapshot(pools=(pool,), machines=machines)
    return fill(snapshot, pool, Lacking(nodes, amounts(**resources)), SolverSettings())


def test_nodes_are_the_cheapest_machines_of_the_pool() -> None:
    found = filled(make_pool(), nodes=3)
    assert (len(found.machines), found.why) == (3, "")
    assert {one.requests == {} and one.pods == () for one in found.machines} == {True}


def test_machines_for_cpu_count_as_nodes_too() -> None:
    assert len(filled(make_pool(), nodes=1, cpu="16").machines) == 1


def test_limits_hold_whatever_is_lacking() -> None:
    found = filled(make_pool(limits={"nodes": 2}), nodes=5)
    assert len(found.machines) == 2
    assert "limits" in found.why
    mine = make_machine(capacity=amounts(cpu="6", memory="8Gi"), provider_id="aws:///z/i-1")
    found = filled(make_pool(limits=amounts(cpu="8")), nodes=5, machines=(mine,))
    assert len(found.machines) == 1
    found = filled(make_pool(limits=amounts(cpu="8")), cpu="4", machines=(mine,))
    assert (len(found.machines), bool(found.why)) == (1, True)


def test_a_pool_that_no_type_suits_says_why() -> None:
    snapshot = replace(make_snapshot(pools=(make_pool(),)), node_classes=())
    found = fill(snapshot, make_pool(), Lacking(1, {}), SolverSettings())
    assert found.machines == ()
    assert found.why


def test_one_call_plans_a_hundred_machines_at_most() -> None:
    assert len(filled(make_pool(), nodes=1000).machines) == MOST_MACHINES


@settings(max_examples=50, deadline=None)
@given(cpu=st.integers(1, 200_000), memory=st.integers(0, 2**40))
def test_what_is_bought_is_enough(cpu: int, memory: int) -> None:
    """One filling ends the lack, so that the next step buys nothing more."""
    lack = {"cpu": cpu, "memory": memory}
    total = [sum(p.requests[name] for p in pieces(lack)) for name in lack]
    assert total[0] >= cpu
    assert total[1] >= memory
    snapshot = make_snapshot(pools=(make_pool(),))
    found = fill(snapshot, make_pool(), Lacking(0, lack), SolverSettings())
    if found.why or len(found.machines) == MOST_MACHINES:
        return
    types = {kind.name: kind for kind in snapshot.catalogue.types}
    for one in found.machines:
        lack = subtract(lack, smallest(one.instance_types, types)[1])
    assert max(lack["cpu"], lack["memory"]) <= 0
