"""A gang whose size stands in a PodGroup, on real Redis and a real API server (SCH-114)."""

from __future__ import annotations

from msgspec.structs import replace

from shared.domain.workloads.gang_sizes import GangSizes
from shared.kube.client import Kube
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import make_pod


async def test_nothing_is_bought_before_as_many_pods_wait_as_the_group_has(
    scheduler: Scheduler, kube: Kube
) -> None:
    """Also when the PodGroup is written after its pods were seen, or says a smaller number later."""
    group = GangSizes("PodGroup", "default", "train", {"train": 3})
    pods = [make_pod(f"train-{n}", cpu="1", gang="train") for n in range(2)]
    await scheduler.show(nodepools=[await pool_of(kube)], gangsizes=[group], pods=pods)
    await scheduler.plan()
    assert await machines(kube) == []
    await scheduler.show(gangsizes=[replace(group, sizes={"train": 2})])
    await scheduler.plan("smaller")
    bought = await machines(kube)
    assert sum(float(m["spec"]["resources"]["requests"]["cpu"]) for m in bought) == 2
