"""Pools whose replacements fail are left alone for a while, so that others get their turn (DRF-09)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.scheduler.disruption.drift_backoff import DriftBackoff, window_seconds
from shared.disruption.methods import drift, static_drift
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.generations import V1
from shared.kube.client import Kube
from shared.kube.resources import NODE_CLAIMS
from tests.services.scheduler.conftest import Scheduler
from tests.services.scheduler.disruption.test_commands import (
    LARGE,
    begun,
    condition,
    oversized,
    shown,
    status_of,
)
from tests.services.scheduler.disruption.test_commands import POOL as LARGE_POOL
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import (
    conditions,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

__all__ = ["oversized"]
POOL, OTHER = "NodePool/a", "NodePool/b"
NOBODY: frozenset[str] = frozenset()


def test_each_failed_window_is_followed_by_one_twice_as_long_up_to_ten_minutes() -> None:
    backoff, now, found = DriftBackoff(), 1000.0, []
    for _ in range(6):
        seconds = backoff.fail(POOL, now=now)
        found.append(seconds)
        assert backoff.held(NOBODY, now=now + seconds - 1) == {POOL}
        assert backoff.held(NOBODY, now=now + seconds) == NOBODY
        now += seconds
    for index, seconds in enumerate(found):
        whole = min(60.0 * 2**index, 600.0)
        assert whole / 2 <= seconds <= whole


def test_further_failures_within_a_window_change_nothing() -> None:
    backoff = DriftBackoff()
    seconds = backoff.fail(POOL, now=0.0)
    assert backoff.fail(POOL, now=seconds - 1) == 0.0
    assert backoff.held(NOBODY, now=seconds) == NOBODY


def test_after_a_window_one_machine_is_tried_at_a_time_until_one_succeeds() -> None:
    backoff = DriftBackoff()
    seconds = backoff.fail(POOL, now=0.0)
    replacing = frozenset({POOL, OTHER})
    assert backoff.held(replacing, now=seconds) == {POOL}
    backoff.succeed(POOL)
    assert backoff.held(replacing, now=seconds) == NOBODY
    assert 30.0 <= backoff.fail(POOL, now=seconds) <= 60.0


@given(pool=st.text(max_size=20), failures=st.integers(0, 1000))
def test_a_window_is_always_bounded(pool: str, failures: int) -> None:
    assert 30.0 <= window_seconds(pool, failures) <= 600.0


def test_drift_passes_a_pool_that_is_left_alone() -> None:
    """The machines of the first pool have drifted longer, and would come first."""
    pools = [
        make_pool(name, generation_api=V1, consolidate_after_seconds=0.0) for name in ("a", "b")
    ]
    drifted = (DRIFTED,)
    nodes = [make_running(pool.name, pool=pool, extra=drifted) for pool in pools]
    old = conditions(DRIFTED, since=0.0)
    first = nodes[0].machine
    nodes[0] = nodes[0]._replace(machine=replace(first, conditions={**first.conditions, **old}))
    snapshot = make_cluster(nodes, *pods_on("a", 1), *pods_on("b", 1), pools=tuple(pools))
    gates = FeatureGates(static_capacity=True)

    def taken(*held: str) -> list[str]:
        world = replace(make_world(snapshot, gates=gates), drift_held=frozenset(held))
        assert static_drift.propose(world).commands == ()
        return [c.node.name for one in drift.propose(world).commands for c in one.candidates]

    assert taken() == ["a"]
    assert taken(POOL) == ["b"]
    assert taken(POOL, OTHER) == []


async def test_a_drifted_pool_is_left_alone_after_a_replacement_failed(
    oversized: Scheduler, kube: Kube, events: Any
) -> None:
    """DRF-09: its other drifted nodes wait, and an event says so."""
    conditions = [*status_of(LARGE)["conditions"], condition("Drifted")]
    body = {"status": {"conditions": conditions}}
    await kube.patch(NODE_CLAIMS, LARGE.machine.name, body, subresource="status")
    await shown(oversized, kube)
    replacement = await begun(oversized, kube)
    assert oversized.commands.drift_held() == frozenset()
    await kube.patch(NODE_CLAIMS, replacement.name, {"metadata": {"finalizers": None}})
    await kube.delete(NODE_CLAIMS, replacement.name)
    await oversized.hide("machines", replacement.key)
    oversized.view.created.clear()
    await oversized.commands.step()
    assert oversized.commands.drift_held() == {LARGE_POOL.key}
    assert ("DisruptionBackoff", LARGE_POOL.name) in set(await events())
    metrics = oversized.disruption.reporter.metrics
    assert metrics.drift_backoffs.labels(LARGE_POOL.name)._value.get() == 1
    await shown(oversized, kube)
    await oversized.disruption.step()
    assert "" not in {reason for reason, _ in await events()}
