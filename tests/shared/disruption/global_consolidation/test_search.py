"""Global consolidation takes the largest saving per moved pod first."""

from __future__ import annotations

from shared.disruption.global_consolidation import plan
from shared.disruption.global_consolidation.churn import Churn
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import WHEN_UNDERUTILIZED, Budget
from tests.support.planning.builders import ZONES, make_pool
from tests.support.planning.disruption import make_cluster, make_running, make_world, pods_on

POOL = make_pool(
    generation_api=V1, consolidation_policy=WHEN_UNDERUTILIZED, consolidate_after_seconds=0.0,
    budgets=(Budget("100%"),),
)  # fmt: skip
LITTLE, MUCH = "a", "b"


def candidates(*names: str, churn: Churn) -> list[str]:
    """Nodes of the first command. No pod fits on another node: each has a zone of its own."""
    one = make_running(LITTLE, "m5.x016", ZONES[0], pool=POOL)
    two = make_running(MUCH, "m5.x032", ZONES[1], pool=POOL)
    pods = {
        LITTLE: pods_on(LITTLE, 12, node_selector={keys.ZONE: ZONES[0]}),
        MUCH: pods_on(MUCH, 1, cpu="3", node_selector={keys.ZONE: ZONES[1]}),
    }
    running = [each for each in (one, two) if each.node.name in names]
    moving = [pod for name in names for pod in pods[name]]
    found = plan.propose(make_world(make_cluster(running, *moving, pools=(POOL,))), churn)
    return [c.node.name for command in found.commands for c in command.candidates]


def test_what_saves_less_per_moved_pod_waits_for_the_next_command() -> None:
    """Moving one pod saves $1.34 an hour, moving twelve saves $0.38: both pay, but the second waits."""
    assert candidates(LITTLE, MUCH, churn=Churn()) == [MUCH]
    assert candidates(LITTLE, churn=Churn()) == [LITTLE]


def test_equal_savings_go_together() -> None:
    """Equal savings are all taken at once."""
    running = [make_running(f"n{i}", "m5.x016", zone, pool=POOL) for i, zone in enumerate(ZONES)]
    pods = [
        pod
        for i, zone in enumerate(ZONES)
        for pod in pods_on(f"n{i}", 2, cpu="1", node_selector={keys.ZONE: zone})
    ]
    found = plan.propose(make_world(make_cluster(running, *pods, pools=(POOL,))), Churn())
    assert [len(command.candidates) for command in found.commands] == [len(ZONES)]
