"""A gate for a kind that the API server does not serve: said, and everything else goes on (F15, OPS-02)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from services.watcher.conversion import KINDS
from services.watcher.optional_kinds import switch_of
from shared.kube import informer as informing
from shared.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEVICE_CLASSES,
    POD_GROUPS,
    POD_TEMPLATES,
    PODS,
    SCHEDULING_GROUPS,
)
from shared.redis.bus import Bus
from tests.services.conftest import store_with_our_kinds
from tests.services.watcher.conftest import definition
from tests.support.cluster.fixture import embedded_api_server
from tests.support.waiting import wait_until
from tests.support.watcher_world import World, watching

PODS_KIND = next(kind for kind in KINDS if kind.resource == PODS)
GROUPS_KIND = next(kind for kind in KINDS if kind.resource == POD_GROUPS)


def notes(world: World) -> list[str]:
    return world.service.notes()


def positions(world: World) -> dict[str, bool]:
    found = {plural: world.reader.position(plural, 0.0) for plural in world.reader.watched()}
    return {plural: one.sound for plural, one in found.items() if one is not None}


@pytest.mark.slow
async def test_a_gate_whose_kind_is_not_served_blocks_nothing_and_is_told(
    bus: Bus, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its definition is installed later, and goes again: both are noticed without a restart."""
    monkeypatch.setattr(informing, "ABSENT_SECONDS", 0.2)
    with embedded_api_server(store=store_with_our_kinds()) as url:
        async with watching(url, bus, redis_url, tmp_path) as world:
            await world.create(PODS_KIND, "waits")
            await wait_until(lambda: world.reasons() == [], "ready", show=world.reasons)
            await wait_until(lambda: bool(world.mirror()["pods"]), "the pod is in the mirror")
            assert [text.split(":")[0] for text in notes(world)] == [
                "FEATURE_GATES=PodGroup=true has no effect",
                "FEATURE_GATES=Workload=true has no effect",
                "FEATURE_GATES=VerticalPodAutoscaler=true has no effect",
            ]
            assert "does not serve podgroups.scheduling.x-k8s.io/v1alpha1" in notes(world)[0]
            await wait_until(lambda: bool(positions(world)), "positions are told")
            assert all(positions(world).values()), "readers may plan"
            group = definition(SCHEDULING_GROUPS)
            await world.kube.create(CUSTOM_RESOURCE_DEFINITIONS, group)
            await wait_until(
                lambda: not any("Workload" in text for text in notes(world)), "one of two will do"
            )
            await world.kube.delete(CUSTOM_RESOURCE_DEFINITIONS, group["metadata"]["name"])
            world.network.go_away()
            world.network.refuses = False
            await wait_until(lambda: len(notes(world)) == 3, "none of them is served")
            await world.kube.create(CUSTOM_RESOURCE_DEFINITIONS, definition(POD_GROUPS))
            await wait_until(lambda: len(notes(world)) == 2, "it is served", show=world.reasons)
            await world.create(GROUPS_KIND, "train")
            await wait_until(lambda: bool(world.mirror()["gangsizes"]), "its objects count")
            await world.kube.delete(
                CUSTOM_RESOURCE_DEFINITIONS, f"{POD_GROUPS.plural}.{POD_GROUPS.group}"
            )
            world.network.go_away()  # the API server ends the watches of such a kind
            world.network.refuses = False
            await wait_until(lambda: len(notes(world)) == 3, "it is gone again")
            await wait_until(lambda: not world.mirror()["gangsizes"], "and its objects with it")
            await wait_until(lambda: world.reasons() == [], "ready", show=world.reasons)
            assert world.crashes() == 0


@pytest.mark.parametrize(
    ("resource", "switch"),
    [
        (POD_GROUPS, "FEATURE_GATES=PodGroup=true"),
        (DEVICE_CLASSES, "IGNORE_DRA_REQUESTS=false"),
        (POD_TEMPLATES, "FEATURE_GATES=CapacityBuffer=true or ProvisioningRequest=true"),
        (PODS, ""),
    ],
)
def test_the_setting_that_asks_for_a_kind(resource: Any, switch: str) -> None:
    assert switch_of(resource) == switch
