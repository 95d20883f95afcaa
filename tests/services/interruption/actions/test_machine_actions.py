"""What pools may choose beyond Karpenter, on the API server: cordon, dry run, rebalance, lead time, cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.interruption.notices.notice import Notice, NoticeKind, parse_maintenance
from services.interruption.sources.scheduled_events import ScheduledEventSource
from shared.api.core.nodes import parse_node
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import parse_machine
from shared.concurrency.clock import rfc3339
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import CORDON, DRAIN, DRY_RUN
from shared.kube.resources import NODES
from tests.services.interruption.conftest import INSTANCES, NAMES, RESOURCES, World
from tests.support.planning.builders import make_pool

PARSERS = {"Machine": parse_machine, "NodeClaim": parse_node_claim}
OURS = INSTANCES["NodeClaim"]
DAY = 86_400.0


async def choose(world: World, **choices: Any) -> None:
    """The pools of both generations say so."""
    await world.show("nodepools", make_pool("default", generation_api=V1, **choices))
    await world.show("nodepools", make_pool("default", **choices))


async def look_again(world: World) -> None:
    """The watcher mirrors what was written."""
    for kind, parse in PARSERS.items():
        await world.show("machines", parse(await world.kube.get(RESOURCES[kind], NAMES[kind])))
    await world.show("nodes", parse_node(await world.kube.get(NODES, "node-1")))


async def taints(world: World) -> list[tuple[str, str]]:
    node = parse_node(await world.kube.get(NODES, "node-1"))
    return [(taint.key, taint.value) for taint in node.taints]


async def annotation(world: World, kind: str, key: str) -> str | None:
    raw = await world.kube.get(RESOURCES[kind], NAMES[kind])
    found: str | None = (raw["metadata"].get("annotations") or {}).get(key)
    return found


async def handle(world: World, kind: NoticeKind, **fields: Any) -> None:
    await world.worker.handle(Notice(f"{kind}-1", kind, tuple(INSTANCES.values()), **fields))


def event_in(world: World, seconds: float, **fields: Any) -> dict[str, Any]:
    return {"deadline": float(int(world.clock.now() + seconds)), "event": "arn:1", **fields}


async def test_cordon_only_closes_the_node_and_drains_nothing(world: World, events: Any) -> None:
    """INT-42: by the taint that the Node Termination Handler's users know, once."""
    await choose(world, interruption=CORDON)
    await handle(world, NoticeKind.SPOT)
    await handle(world, NoticeKind.SPOT)
    assert await taints(world) == [(keys.SPOT_ITN_TAINT_KEY, "dovetail")]
    assert [await world.is_deleted(kind) for kind in NAMES] == [False, False]
    assert ("Cordon", "node-1") in await events()
    await world.notifier.send()
    assert await world.notifier.unavailable.current() == {("spot", "m5.large", "us-west-2a")}


async def test_a_dry_run_only_says_what_would_be_done(world: World, events: Any) -> None:
    await choose(world, interruption=DRY_RUN)
    await handle(world, NoticeKind.SPOT)
    await handle(world, NoticeKind.REBALANCE)
    await handle(world, NoticeKind.SCHEDULED, **event_in(world, 60))
    await world.notifier.send()
    assert [await world.is_deleted(kind) for kind in NAMES] == [False, False]
    assert await taints(world) == []
    assert await world.notifier.unavailable.current() == frozenset()
    assert ("SpotInterrupted", NAMES["Machine"]) in await events()
    assert world.actions.deleted == 0


@pytest.mark.parametrize(("answer", "tainted"), [(CORDON, True), (DRAIN, False), ("off", False)])
async def test_a_recommendation_is_followed_as_the_pool_says(
    world: World, answer: str, tainted: bool
) -> None:
    """INT-40, INT-43: drain leaves a mark for the scheduler, and the offering is not bought again meanwhile."""
    await choose(world, rebalance=answer)
    await handle(world, NoticeKind.REBALANCE)
    await handle(world, NoticeKind.REBALANCE)
    await world.notifier.send()
    marked = [await annotation(world, kind, keys.REPLACE_ANNOTATION) for kind in NAMES]
    drains = answer == DRAIN
    assert [mark is not None for mark in marked] == [drains, drains]
    assert bool(await taints(world)) is tainted
    assert bool(await world.notifier.unavailable.current()) is drains
    assert [await world.is_deleted(kind) for kind in NAMES] == [False, False]


async def test_a_scheduled_event_waits_on_the_machine_until_its_lead_time(world: World) -> None:
    """A restart finds it there: the queue forgets after five minutes."""
    await choose(world, maintenance_lead_seconds=DAY)
    await handle(world, NoticeKind.SCHEDULED, **event_in(world, 2 * DAY))
    held = parse_maintenance(await annotation(world, "Machine", keys.MAINTENANCE_ANNOTATION) or "")
    assert held is not None
    assert held.event == "arn:1"
    await look_again(world)
    source = ScheduledEventSource(
        world.settings, world.worker.backlog, world.directory, world.clock
    )
    await source.check()
    assert len(world.worker.backlog) == 0
    world.clock.advance(DAY + 1)
    await source.check()
    assert len(world.worker.backlog) == 2
    for _ in NAMES:
        await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
    assert [await world.is_deleted(kind) for kind in NAMES] == [True, True]


async def test_of_two_events_the_earlier_is_waited_for_and_one_may_be_moved(world: World) -> None:
    await choose(world, maintenance_lead_seconds=0.0)

    async def start() -> str:
        text = await annotation(world, "Machine", keys.MAINTENANCE_ANNOTATION) or ""
        return text.split(" ")[0]

    first = event_in(world, DAY)
    await handle(world, NoticeKind.SCHEDULED, **first)
    await look_again(world)
    await handle(world, NoticeKind.SCHEDULED, **event_in(world, 3 * DAY, event="arn:2"))
    assert await start() == rfc3339(first["deadline"])
    moved = event_in(world, 2 * DAY)
    await handle(world, NoticeKind.SCHEDULED, **moved)
    assert await start() == rfc3339(moved["deadline"])


async def test_a_cancelled_event_opens_the_node_again(world: World, events: Any) -> None:
    """Only our own taint goes, and only by the event that put it there."""
    await choose(world, interruption=CORDON)
    await handle(world, NoticeKind.SCHEDULED, **event_in(world, 60))
    await world.kube.patch(NODES, "node-1", {"spec": {"unschedulable": True}})
    await look_again(world)
    await handle(world, NoticeKind.SCHEDULED_OVER, event="arn:other")
    assert await taints(world) == [(keys.MAINTENANCE_TAINT_KEY, "dovetail")]
    await handle(world, NoticeKind.SCHEDULED_OVER, event="arn:1")
    assert await taints(world) == []
    assert await annotation(world, "NodeClaim", keys.MAINTENANCE_ANNOTATION) is None
    assert parse_node(await world.kube.get(NODES, "node-1")).unschedulable
    assert ("ScheduledEventOver", "node-1") in await events()


async def test_a_cancellation_at_the_heels_of_its_event_finds_what_that_did(world: World) -> None:
    """Both waited in the queue: they are in hand together, and the mirror is behind for both."""
    await choose(world, interruption=CORDON)
    told = event_in(world, 60)
    over = {"event": told["event"], "kind": NoticeKind.SCHEDULED_OVER}
    await asyncio.gather(
        *(
            world.worker.handle(Notice("n", said.pop("kind"), (OURS,), **said))
            for said in ({**told, "kind": NoticeKind.SCHEDULED}, over)
        )
    )
    assert await taints(world) == []
    assert await annotation(world, "NodeClaim", keys.MAINTENANCE_ANNOTATION) is None


async def test_an_event_that_is_announced_again_after_its_end_is_waited_for_again(
    world: World,
) -> None:
    """All within a moment, so that what was done last must not pass for done."""
    await choose(world, interruption=CORDON)
    told = event_in(world, 60)
    for _ in range(2):
        await handle(world, NoticeKind.SCHEDULED, **told)
        await look_again(world)
        assert await annotation(world, "NodeClaim", keys.MAINTENANCE_ANNOTATION) is not None
        assert await taints(world) == [(keys.MAINTENANCE_TAINT_KEY, "dovetail")]
        await handle(world, NoticeKind.SCHEDULED_OVER, event="arn:1")
        await look_again(world)
        assert await annotation(world, "NodeClaim", keys.MAINTENANCE_ANNOTATION) is None
        assert await taints(world) == []


async def test_an_event_without_a_start_can_be_called_off_too(world: World) -> None:
    await choose(world, interruption=CORDON)
    await handle(world, NoticeKind.SCHEDULED, event="arn:1", at=world.clock.now())
    assert await taints(world) == [(keys.MAINTENANCE_TAINT_KEY, "dovetail")]
    await look_again(world)
    await handle(world, NoticeKind.SCHEDULED_OVER, event="arn:1")
    assert await taints(world) == []


async def test_a_node_that_was_closed_for_its_checks_is_opened_when_they_pass(
    world: World, events: Any
) -> None:
    """Our own taint goes, once; what a person or another notice closed stays closed."""
    await choose(world, interruption=CORDON)
    await handle(world, NoticeKind.SYSTEM_STATUS)
    await handle(world, NoticeKind.SCHEDULED, **event_in(world, 60))
    await world.kube.patch(NODES, "node-1", {"spec": {"unschedulable": True}})
    await look_again(world)
    assert world.directory.impaired() == [OURS]
    for _ in range(2):
        await handle(world, NoticeKind.HEALED)
    assert await taints(world) == [(keys.MAINTENANCE_TAINT_KEY, "dovetail")]
    assert parse_node(await world.kube.get(NODES, "node-1")).unschedulable
    assert [reason for reason, _ in await events()].count("InstanceHealthy") == 2
    await look_again(world)
    assert world.directory.impaired() == []
    await handle(world, NoticeKind.SYSTEM_STATUS)
    assert (keys.IMPAIRED_TAINT_KEY, "dovetail") in await taints(world)


async def test_a_taint_of_somebody_else_is_left_alone(world: World, events: Any) -> None:
    """The same key with another value is not ours."""
    foreign = {"key": keys.IMPAIRED_TAINT_KEY, "value": "by-hand", "effect": "NoSchedule"}
    await world.kube.patch(NODES, "node-1", {"spec": {"taints": [foreign]}})
    await look_again(world)
    await handle(world, NoticeKind.HEALED)
    assert await taints(world) == [(keys.IMPAIRED_TAINT_KEY, "by-hand")]
    assert await events() == []


async def test_without_choices_a_cancelled_event_is_nobodys_business(
    world: World, events: Any
) -> None:
    await handle(world, NoticeKind.SCHEDULED_OVER, event="arn:1")
    assert await events() == []


async def test_while_the_mirror_is_away_the_pool_is_asked_at_the_api_server(world: World) -> None:
    """A pool that wants no drain must not get one because Redis is away."""
    world.directory.reader = None
    pool = make_pool("default", generation_api=V1, interruption=CORDON)

    async def pools(key: str) -> Any:
        return pool if key == pool.key else None

    world.directory.pools = pools
    await world.worker.handle(Notice("n", NoticeKind.SPOT, (OURS,)))
    assert not await world.is_deleted("NodeClaim")
