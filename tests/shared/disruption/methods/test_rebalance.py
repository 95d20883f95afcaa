"""Machines with a rebalance recommendation are replaced (INT-40, INT-43)."""

from __future__ import annotations

from typing import Any

import pytest

from shared.disruption.methods import rebalance
from shared.disruption.records import REBALANCE
from shared.domain.labels import REPLACE_ANNOTATION
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import CORDON, DRAIN, IGNORE, Budget
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import (
    Running,
    make_cluster,
    make_running,
    make_world,
    pods_on,
)

RECOMMENDED = {REPLACE_ANNOTATION: "2026-01-01T00:00:00Z"}
EARLIER = {REPLACE_ANNOTATION: "2025-12-31T23:59:00Z"}


def proposed(*running: Running, pool: Any = None, **changes: Any) -> Any:
    pods = [pod for one in running for pod in pods_on(one.node.name, 3)]
    pools = (pool or make_pool(),)
    return rebalance.propose(make_world(make_cluster([*running], *pods, pools=pools, **changes)))


@pytest.mark.parametrize("generation", [V1ALPHA5, V1])
def test_the_replacement_is_bought_first(generation: str) -> None:
    """Both generations: a command with a replacement for the pods that fit nowhere else."""
    pool = make_pool(generation_api=generation)
    one = make_running("n1", pool=pool, capacity_type="spot", annotations=RECOMMENDED)
    (command,) = proposed(one, pool=pool).commands
    assert [c.name for c in command.candidates] == [one.machine.name]
    assert (command.method, command.reason) == (rebalance.METHOD, REBALANCE)
    assert sum(len(machine.pods) for machine in command.replacements) == 3


def test_without_a_recommendation_nothing_happens() -> None:
    """The replacement is off by default (INT-40)."""
    assert proposed(make_running("n1")).commands == ()


def test_who_was_recommended_first_goes_first() -> None:
    later = make_running("n1", annotations=RECOMMENDED)
    first = make_running("n2", annotations=EARLIER)
    (command,) = proposed(later, first).commands
    assert [c.name for c in command.candidates] == [first.machine.name]


@pytest.mark.parametrize(("answer", "goes"), [("", 1), (DRAIN, 1), (CORDON, 0), (IGNORE, 0)])
def test_a_pool_may_change_its_mind(answer: str, goes: int) -> None:
    pool = make_pool(rebalance=answer)
    one = make_running("n1", pool=pool, annotations=RECOMMENDED)
    assert len(proposed(one, pool=pool).commands) == goes


def test_budgets_hold() -> None:
    """Half of a zone may get a recommendation at once."""
    pool = make_pool(budgets=(Budget("0"),))
    one = make_running("n1", pool=pool, annotations=RECOMMENDED)
    assert proposed(one, pool=pool).commands == ()


def test_a_pod_that_must_not_be_moved_holds_its_machine() -> None:
    one = make_running("n1", annotations=RECOMMENDED)
    held = pods_on("n1", 1, do_not_disrupt="true")
    world = make_world(make_cluster([one], *held))
    found = rebalance.propose(world)
    assert found.commands == ()
    assert [r.machine_key for r in found.rejections] == [one.machine.key]
