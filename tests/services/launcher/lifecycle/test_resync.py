"""What the launcher lists by the clock."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest

from shared.domain.machines.machine import INITIALIZED, Condition
from shared.domain.pools.generations import V1
from shared.kube.listing import KubeList
from shared.kube.resources import Resource
from tests.services.launcher.lifecycle_world import World


def listed_kinds(world: World, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with the kind of each list that is asked for."""
    kinds: list[str] = []
    pages = world.kube.pages

    def noted(resource: Resource, *arguments: Any, **named: Any) -> AsyncGenerator[KubeList, None]:
        kinds.append(resource.kind)
        return pages(resource, *arguments, **named)

    monkeypatch.setattr(world.kube, "pages", noted)
    return kinds


async def test_nodes_are_listed_only_while_a_machine_is_on_its_way(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster at rest has thousands of them."""
    machine = await world.registered("default-a", V1)
    kinds = listed_kinds(world, monkeypatch)
    await world.handlers.resync()
    assert "Node" in kinds
    condition = Condition("True", INITIALIZED, "", world.clock.now())
    await world.machines.write_condition(machine, INITIALIZED, condition)
    kinds.clear()
    await world.handlers.resync()
    assert sorted(kinds) == ["Machine", "NodeClaim"]
    assert [one.name for one in world.handlers.listed] == ["default-a"]
