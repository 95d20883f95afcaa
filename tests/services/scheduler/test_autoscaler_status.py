"""The status ConfigMap in Cluster Autoscaler's form: what it says, since when, and how it is written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from services.scheduler.autoscaler_status.document import (
    LONG_SECONDS,
    same_but_for_times,
    status_document,
)
from services.scheduler.autoscaler_status.writer import REFRESH_SECONDS, AutoscalerStatus
from shared.domain.machines.machine import INITIALIZED, REGISTERED, Condition
from shared.domain.pools.windows import KeptCapacity
from shared.kube.client import Kube
from shared.kube.resources import CONFIG_MAPS
from tests.services.scheduler.conftest import Scheduler
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_machine, make_node, make_pool

NOW = 1_795_000_000.0
NAME, PLACE = "cluster-autoscaler-status", "default/cluster-autoscaler-status"
POOL = make_pool(limits={"nodes": 9}, minimum=(KeptCapacity(amounts={"nodes": 2}),))


def machine(name: str, *conditions: str, **changes: Any) -> Any:
    held = {one: Condition("True") for one in conditions}
    return make_machine(name, node_name=name, conditions=held, created_at=NOW, **changes)


def written(*machines: Any, before: Any = None, now: float = NOW, **more: Any) -> dict[str, Any]:
    nodes = {
        one.node_name: make_node(one.node_name, ready=one.name != "broken") for one in machines
    }
    given = {"candidates": (), "pools": [POOL], **more}
    return status_document(
        given["pools"], machines, nodes, given["candidates"], before or {}, now=now
    )


def test_machines_are_counted_as_cluster_autoscaler_counts_nodes() -> None:
    document = written(
        machine("ready", REGISTERED, INITIALIZED),
        machine("broken", REGISTERED, INITIALIZED),
        machine("young", REGISTERED),
        machine("leaving", REGISTERED, INITIALIZED, terminating=True),
        machine("launched"),
        make_machine("late", created_at=NOW - LONG_SECONDS - 1),
        candidates=[POOL.key],
    )
    (group,) = document["nodeGroups"]
    assert group["name"] == "Provisioner/default"
    assert group["health"]["nodeCounts"] == {
        "registered": {
            "total": 4,
            "ready": 1,
            "notStarted": 1,
            "beingDeleted": 1,
            "unready": {"total": 1, "resourceUnready": 0},
        },
        "longUnregistered": 1,
        "unregistered": 1,
    }
    sizes = {name: group["health"][name] for name in ("cloudProviderTarget", "minSize", "maxSize")}
    assert sizes == {"cloudProviderTarget": 5, "minSize": 2, "maxSize": 9}
    assert group["scaleUp"]["status"] == "InProgress"
    assert (group["scaleDown"]["status"], group["scaleDown"]["candidates"]) == (
        "CandidatesPresent",
        1,
    )
    whole = document["clusterWide"]
    assert whole["health"]["nodeCounts"] == group["health"]["nodeCounts"]
    assert document["autoscalerStatus"] == "Running"
    assert document["time"] == "2026-11-18 11:06:40.000000 +0000 UTC"


def test_many_unready_nodes_are_unhealthy_and_three_are_not() -> None:
    def health(number: int) -> str:
        late = [make_machine(f"late-{n}", created_at=0.0) for n in range(number)]
        return str(written(*late)["clusterWide"]["health"]["status"])

    assert [health(3), health(4)] == ["Healthy", "Unhealthy"]


def test_a_static_pool_has_one_size() -> None:
    static = make_pool(replicas=3)
    health = written(pools=[static])["nodeGroups"][0]["health"]
    assert [health[n] for n in ("cloudProviderTarget", "minSize")] == [3, 3]


def test_a_status_that_stays_keeps_the_time_of_its_beginning() -> None:
    first = yaml.safe_load(yaml.safe_dump(written(machine("a", REGISTERED, INITIALIZED))))
    later = written(machine("a", REGISTERED, INITIALIZED), machine("b"), before=first, now=NOW + 60)
    (group,) = later["nodeGroups"]
    assert group["health"]["lastTransitionTime"] == "2026-11-18T11:06:40Z"
    assert group["scaleUp"]["lastTransitionTime"] == "2026-11-18T11:07:40Z"
    assert group["health"]["lastProbeTime"] == "2026-11-18T11:07:40Z"
    assert not same_but_for_times(first, later)
    again = written(machine("a", REGISTERED, INITIALIZED), now=NOW + 5)
    assert same_but_for_times(first, again)


@pytest.mark.parametrize("before", [{"nodeGroups": "?", "clusterWide": 7}, {"nodeGroups": [{}, 1]}])
def test_what_somebody_else_wrote_counts_as_nothing(before: dict[str, Any]) -> None:
    assert same_but_for_times(written(before=before), written())


async def stored(kube: Kube) -> dict[str, Any]:
    found: dict[str, Any] = await kube.get(CONFIG_MAPS, NAME, "default")
    return found


async def test_it_is_made_renewed_and_left_alone_between(scheduler: Scheduler, kube: Kube) -> None:
    clock = FakeClock(wall=NOW)
    parts = (kube, scheduler.cluster, clock, PLACE, lambda: [POOL.key])
    await scheduler.show(nodepools=[POOL], machines=[machine("a", REGISTERED, INITIALIZED)])
    status = AutoscalerStatus(*parts)
    await status.step()
    first = await stored(kube)
    document = yaml.safe_load(first["data"]["status"])
    assert document["clusterWide"]["scaleDown"]["candidates"] == 1
    assert first["metadata"]["annotations"] == {
        "cluster-autoscaler.kubernetes.io/last-updated": document["time"]
    }
    clock.advance(1)
    await status.step()
    assert await stored(kube) == first
    clock.advance(REFRESH_SECONDS)
    restarted = AutoscalerStatus(*parts)
    await restarted.step()
    renewed = yaml.safe_load((await stored(kube))["data"]["status"])
    since = document["clusterWide"]["health"]["lastTransitionTime"]
    assert renewed["clusterWide"]["health"]["lastTransitionTime"] == since
    assert renewed["time"] != document["time"]


@pytest.mark.parametrize(
    "text",
    ["a: [", "[" * 5000, "a: 2020-13-01", "[]", "clusterWide: 5", "nodeGroups: [5, {name: 5}]"],
)
async def test_what_somebody_else_wrote_there_is_replaced(
    scheduler: Scheduler, kube: Kube, text: str
) -> None:
    body = {"metadata": {"name": NAME}, "data": {"status": text}}
    await kube.create(CONFIG_MAPS, body, "default")
    await scheduler.show(nodepools=[POOL])
    await AutoscalerStatus(kube, scheduler.cluster, FakeClock(wall=NOW), PLACE, list).step()
    assert "clusterWide" in yaml.safe_load((await stored(kube))["data"]["status"])


async def test_a_clock_that_jumped_back_holds_up_no_renewal(
    scheduler: Scheduler, kube: Kube
) -> None:
    clock = FakeClock(wall=NOW)
    await scheduler.show(nodepools=[POOL])
    status = AutoscalerStatus(kube, scheduler.cluster, clock, PLACE, list)
    await status.step()
    first = await stored(kube)
    clock.wall -= 3600
    clock.advance(REFRESH_SECONDS)
    await status.step()
    assert await stored(kube) != first


async def test_a_namespace_that_does_not_exist_stops_nobody(
    scheduler: Scheduler, kube: Kube
) -> None:
    clock = FakeClock(wall=NOW)
    await AutoscalerStatus(kube, scheduler.cluster, clock, "nowhere/status", lambda: ()).step()
