"""What all pods would cost by each packing policy, beside the work: status, metric, and when it is not computed."""

from __future__ import annotations

import pytest

from services.scheduler.status.policy_prices import PolicyPrices
from shared.domain.pools.generations import V1
from shared.runtime.child import Bounds
from shared.simulation.repacking import repack
from shared.solver.solve import SolverSettings
from tests.services.scheduler.conftest import Scheduler
from tests.support.planning.builders import make_node_class, make_pool
from tests.support.planning.disruption import make_running, pods_on


async def shown(scheduler: Scheduler, nodes: int = 1) -> None:
    """Nodes of 16 cores with a core in use."""
    pool = make_pool(generation_api=V1)
    running = [make_running(f"n{number}", "m5.x016", pool=pool) for number in range(nodes)]
    await scheduler.show(
        nodepools=[pool],
        nodeclasses=[make_node_class(generation_api=V1)],
        machines=[one.machine for one in running],
        nodes=[one.node for one in running],
        pods=[pod for one in running for pod in pods_on(one.node.name, 2)],
    )


@pytest.mark.slow
async def test_status_and_metric_have_the_cost_by_each_policy(scheduler: Scheduler) -> None:
    prices = scheduler.parts.policy_prices
    assert prices.status() is None
    await shown(scheduler)
    await prices.step()
    found = prices.status()
    snapshot = await scheduler.parts.cluster.snapshot()
    assert snapshot is not None
    assert found is not None
    assert found["costs"] == repack(snapshot, SolverSettings()).costs
    assert found["costs"]["FewestNodes"] == pytest.approx(2 * 0.048)
    assert found["inForce"] == "FewestNodes"
    assert found["saves"] == dict.fromkeys(("LowestCost", "Balanced"), pytest.approx(0.0))
    text = prices.metrics.text().decode()
    assert 'dovetail_policy_cost_dollars_per_hour{policy="LowestCost"} 0.096' in text


@pytest.mark.slow
async def test_an_unchanged_cluster_is_not_computed_again(scheduler: Scheduler) -> None:
    """With a bound of no time at all every further process would fail, and the problem would be named."""
    prices = scheduler.parts.policy_prices
    await shown(scheduler)
    await prices.step()
    prices.bounds = Bounds("the price by each policy", seconds=0.0, memory_bytes=1 << 30)
    await prices.step()
    assert (prices.status() or {})["problem"] == ""
    await shown(scheduler, nodes=2)
    await prices.step()
    assert (prices.status() or {})["problem"] != ""
    assert (prices.status() or {})["pods"] == 2  # the last answer stands


@pytest.mark.slow
async def test_without_machines_the_last_answer_is_gone(scheduler: Scheduler) -> None:
    prices = scheduler.parts.policy_prices
    await shown(scheduler)
    await prices.step()
    assert prices.status() is not None
    snapshot = await scheduler.parts.cluster.snapshot()
    assert snapshot is not None
    gone = [("machines", machine.key) for machine in snapshot.machines]
    await scheduler.show(gone)
    await prices.step()
    assert prices.status() is None
    assert "dovetail_policy_cost_dollars_per_hour{" not in prices.metrics.text().decode()
    await shown(scheduler)
    await prices.step()
    assert prices.status() is not None


async def test_while_pods_wait_for_a_plan_nothing_is_computed(scheduler: Scheduler) -> None:
    await shown(scheduler)
    ready = scheduler.parts.policy_prices
    prices = PolicyPrices(ready.cluster, ready.options, lambda: True, ready.metrics, ready.clock)
    await prices.step()
    assert prices.status() is None
