"""What keeps machines from being made is known as long as it is true."""

from __future__ import annotations

from services.scheduler.state.obstacles import KEPT_SECONDS, Obstacles
from tests.support.clock.fake import FakeClock


def test_a_refusal_counts_until_a_machine_is_made() -> None:
    obstacles = Obstacles(FakeClock())
    obstacles.refused("NodePool/a", "a policy")
    assert obstacles.of_pool("NodePool/a") == "a policy"
    assert obstacles.of_workload("any") == {"NodePool/a": "a policy"}
    obstacles.made("NodePool/a")
    assert (obstacles.of_pool("NodePool/a"), obstacles.of_workload("any")) == ("", {})


def test_an_old_refusal_says_nothing() -> None:
    clock = FakeClock()
    obstacles = Obstacles(clock)
    obstacles.refused("NodePool/a", "a policy")
    clock.advance(KEPT_SECONDS + 1)
    assert (obstacles.of_pool("NodePool/a"), obstacles.of_workload("any")) == ("", {})
