"""What the scheduler created counts until the mirror has reached it, however long that takes (BAT-05, design 3.2)."""

from __future__ import annotations

import msgspec
from msgspec.json import encode

from services.scheduler.state.cluster import View
from shared.api.v1alpha5.machines import parse_machine
from shared.kube.client import Kube
from shared.kube.machines import Stored
from shared.kube.resources import MACHINES
from shared.redis.mirror import MirrorReader
from shared.redis.mirror.bodies import Bodies
from tests.services.conftest import create_machine
from tests.services.scheduler.conftest import (
    SOUND,
    Later,
    Scheduler,
    hear,
    machines,
    machines_at,
    pool_of,
)
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_pod


async def test_a_mirror_that_stands_still_does_not_make_the_scheduler_buy_twice(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A minute after the machine was written the mirror still lacks it, and a new pod comes: it fits on the first."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web", cpu="1")])
    await scheduler.plan("a")
    planner, cluster = scheduler.planner, scheduler.cluster
    planner.clock = cluster.clock = Later(planner.clock, 45.0)
    await scheduler.writer.heartbeat(SOUND)
    await scheduler.show(pods=[make_pod("small", cpu="100m")])
    await scheduler.plan("b")
    (machine,) = await machines(kube)
    assert planner.last_plan is not None
    assert set(planner.last_plan.existing[machine["metadata"]["name"]]) == {
        "uid-web",
        "uid-small",
    }


async def test_a_machine_that_the_mirror_went_past_is_gone(
    scheduler: Scheduler, kube: Kube
) -> None:
    """It was deleted before the mirror ever showed it: its pods are planned for anew."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    (raw,) = await machines(kube)
    version = int(raw["metadata"]["resourceVersion"])
    await kube.patch(MACHINES, raw["metadata"]["name"], {"metadata": {"finalizers": None}})
    await kube.delete(MACHINES, raw["metadata"]["name"])
    await hear(scheduler, machines_at(str(version - 1)))
    assert len(scheduler.view.machines()) == 1
    await hear(scheduler, machines_at(str(version)))
    assert not scheduler.view.machines()


async def test_a_new_leader_counts_what_the_last_one_wrote(
    scheduler: Scheduler, kube: Kube
) -> None:
    """Its machine is on the API server, the mirror does not show it yet."""
    await scheduler.show(nodepools=[await pool_of(kube)], pods=[make_pod("web")])
    await scheduler.plan("a")
    scheduler.view.created.clear()  # as in another process
    await scheduler.show(pods=[make_pod("small")])
    await scheduler.plan("b")
    assert len(await machines(kube)) == 1


async def test_a_namesake_that_the_mirror_shows_is_not_ours(kube: Kube) -> None:
    """Another machine had the name before: ours takes its place until the mirror shows it."""
    reader = MirrorReader("redis://nowhere.invalid", "t", clock=FakeClock())
    view, raw = View(reader), await create_machine(kube)
    ours = parse_machine(raw)
    view.assume(Stored(ours, "9"))
    before = msgspec.structs.replace(ours, uid="before")
    for shown, expected in (([before], [ours]), ([ours], [ours]), ([], [])):
        reader.kinds["machines"] = Bodies({one.key: encode(one) for one in shown})
        assert [one.uid for one in view.machines()] == [one.uid for one in expected]
