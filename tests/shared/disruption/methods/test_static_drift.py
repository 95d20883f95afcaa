"""Drifted machines of static pools are replaced one for one (DRF-07)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from shared.disruption.methods import static_drift
from shared.disruption.records import Proposal
from shared.domain.feature_gates import FeatureGates
from shared.domain.machines.machine import DRIFTED
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import Budget
from tests.support.planning.builders import make_pool
from tests.support.planning.disruption import (
    NOW,
    conditions,
    make_cluster,
    make_running,
    make_world,
)

GATES = FeatureGates(static_capacity=True)


def proposed(machines: int, **changes: Any) -> Proposal:
    """The proposal for a static pool with so many machines, all drifted."""
    pool = make_pool(
        generation_api=V1, consolidate_after_seconds=None, budgets=(Budget("100%"),), **changes
    )
    running = []
    for i in range(machines):
        found = make_running(f"n{i}", pool=pool)
        marks = {**found.machine.conditions, **conditions(DRIFTED, since=NOW - 60 + i)}
        running.append(found._replace(machine=replace(found.machine, conditions=marks)))
    return static_drift.propose(make_world(make_cluster(running, pools=(pool,)), gates=GATES))


def test_a_drifted_machine_is_replaced_whatever_its_pods_need() -> None:
    (command,) = proposed(2, replicas=2).commands
    assert [c.node.name for c in command.candidates] == ["n0"]
    assert len(command.replacements) == 1


@pytest.mark.parametrize(("limit", "commands"), [(2, 0), (3, 1)])
def test_no_replacement_is_made_beyond_the_limit_of_nodes(limit: int, commands: int) -> None:
    """The old machine stays until its replacement is initialised, so the limit must allow one more."""
    found = proposed(2, replicas=2, limits={"nodes": limit})
    assert len(found.commands) == commands
    if not commands:
        assert "limit of nodes" in found.rejections[0].text


@pytest.mark.parametrize("replicas", [0, 1])
def test_what_is_too_many_goes_without_a_replacement(replicas: int) -> None:
    assert proposed(2, replicas=replicas).commands == ()
