"""``status.resources`` of a Provisioner (P-13, NP-24)."""

from __future__ import annotations

from services.watcher.usage import usage_by_pool
from tests.support.builders import make_machine


def test_capacities_add_up_per_pool_without_those_that_go() -> None:
    capacity = {"cpu": 4000, "memory": 16}
    machines = [
        make_machine("a", capacity=capacity),
        make_machine("b", capacity={"cpu": 2000}),
        make_machine("c", pool="other", capacity=capacity),
        make_machine("d", capacity=capacity, terminating=True),
        make_machine("e"),
    ]
    assert usage_by_pool(machines) == {"default": {"cpu": 6000, "memory": 16}, "other": capacity}
    assert usage_by_pool([]) == {}
