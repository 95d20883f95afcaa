"""Notices acted on, against API server and Redis (INT-07, INT-20..24, INT-16; ACC-47, ACC-48, ACC-77, ACC-78)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from services.interruption.notices.backlog import Entry
from services.interruption.notices.notice import Notice, NoticeKind
from shared.api.v1alpha5.machines import parse_machine
from shared.concurrency.clock import parse_rfc3339
from shared.domain import labels as keys
from shared.errors import TransientError
from shared.kube.machines import Machines
from shared.kube.resources import MACHINES
from shared.redis import streams
from shared.redis.bus import Bus
from shared.redis.bus.trace_context import trace_id
from shared.redis.messages import InterruptionReceived, TerminateMachine
from tests.services.conftest import envelopes_on
from tests.services.interruption.conftest import INSTANCES, NAMES, RESOURCES, World
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.network.recorded_spans import RecordedSpans, trace_of

KINDS = ("Machine", "NodeClaim")
BOTH = tuple(INSTANCES.values())
DISRUPTED = "karpenter_nodeclaims_disrupted_total"


def notice(kind: str, *instances: str, **fields: Any) -> Notice:
    return Notice(**{"id": "event-1", "kind": kind, "instances": instances, **fields})


async def test_a_spot_warning_deletes_the_machine_and_everybody_hears_of_it(
    world: World, published: Any, events: Any
) -> None:
    """INT-10, INT-20, INT-22, INT-23, ACC-47; both generations, with a node and without."""
    spot = notice(NoticeKind.SPOT, *BOTH, at=world.clock.now() - 3, deadline=5.0)
    await world.worker.handle(spot)
    await world.notifier.send()
    assert [await world.is_deleted(kind) for kind in KINDS] == [True, True]
    assert await world.notifier.unavailable.current() == {("spot", "m5.large", "us-west-2a")}
    (received,) = await published(streams.INTERRUPTIONS)
    assert isinstance(received, InterruptionReceived)
    assert (received.kind, sorted(received.instances)) == (NoticeKind.SPOT, sorted(BOTH))
    assert (received.deadline, received.event) == (5.0, "event-1")
    orders = await published(streams.TERMINATIONS)
    assert sorted((o.kind, o.name, o.reason) for o in orders if isinstance(o, TerminateMachine)) == [
        (kind, NAMES[kind], NoticeKind.SPOT) for kind in KINDS
    ]  # fmt: skip
    told = [*NAMES.values(), "node-1"]
    assert await events() == sorted(
        (reason, name) for reason in ("SpotInterrupted", "TerminatingOnInterruption") for name in told
    )  # fmt: skip
    labels = {"reason": NoticeKind.SPOT, "nodepool": "default", "capacity_type": "spot"}
    labels |= {"consolidation_policy": "", "termination_mode": "forceful"}
    assert world.counted(DISRUPTED, **labels) == 2
    name = "karpenter_interruption_message_queue_duration_seconds"
    assert world.counted(f"{name}_count") == 1
    assert world.counted(f"{name}_sum") == pytest.approx(3)


async def test_the_trace_of_a_machines_end_begins_with_the_notice(world: World, bus: Bus) -> None:
    spans = RecordedSpans(world.clock)
    world.actions.env.tracer = spans.tracer
    spot = notice(NoticeKind.SPOT, INSTANCES["NodeClaim"], at=world.clock.now() - 3)
    await world.worker.handle(spot)
    await world.notifier.send()
    (sent,) = await envelopes_on(bus, streams.TERMINATIONS)
    (span,) = await spans.all()
    assert trace_of(span) == trace_id(sent.trace)
    assert ((span.end_time or 0) - (span.start_time or 0)) / 1e9 == pytest.approx(3)
    assert (span.attributes or {})["instance"] == INSTANCES["NodeClaim"]


async def test_repeated_notices_are_one_deletion_and_one_event(
    world: World, published: Any, events: Any
) -> None:
    """INT-21, ACC-78: SQS delivers more than once; and the mirror is behind for all of them."""
    spot = notice(NoticeKind.SPOT, INSTANCES["Machine"])
    await world.worker.handle(spot)
    first = await world.kube.get(MACHINES, NAMES["Machine"])
    await world.worker.handle(spot)
    await world.show("machines", parse_machine(first))
    await world.worker.handle(spot)
    await world.notifier.send()
    assert await world.kube.get(MACHINES, NAMES["Machine"]) == first
    assert world.actions.deleted == 1
    assert len(await published(streams.TERMINATIONS)) == 1
    assert [reason for reason, _ in await events()].count("SpotInterrupted") == 1


@pytest.mark.parametrize(
    "kind",
    [NoticeKind.STOPPED, NoticeKind.TERMINATED, NoticeKind.SCHEDULED, NoticeKind.EVENT_STATUS],
)
async def test_other_kinds_delete_and_leave_the_offering_alone(world: World, kind: str) -> None:
    """8.3."""
    await world.worker.handle(notice(kind, INSTANCES["NodeClaim"]))
    await world.notifier.send()
    assert await world.is_deleted("NodeClaim")
    assert not await world.is_deleted("Machine")
    assert await world.notifier.unavailable.current() == frozenset()


async def test_a_reclaimed_reservation_is_marked_as_such(world: World) -> None:
    """INT-14: a reservation that takes its instance back."""
    await world.worker.handle(notice(NoticeKind.CAPACITY_RESERVATION, INSTANCES["Machine"]))
    await world.notifier.send()
    assert await world.is_deleted("Machine")
    assert await world.notifier.unavailable.current() == {("reserved", "m5.large", "us-west-2a")}


@pytest.mark.parametrize("status", [NoticeKind.INSTANCE_STATUS, NoticeKind.SYSTEM_STATUS])
async def test_a_broken_instance_is_not_drained_gracefully(world: World, status: str) -> None:
    """8.3: the termination timestamp is now, and stands before the deletion."""
    for kind in KINDS:
        await world.worker.handle(notice(status, INSTANCES[kind]))
        raw = await world.kube.get(RESOURCES[kind], NAMES[kind])
        written = raw["metadata"]["annotations"][keys.TERMINATION_TIMESTAMP]
        assert parse_rfc3339(written) == int(world.clock.now())
        assert raw["metadata"]["deletionTimestamp"]


async def test_a_broken_instance_that_drains_already_is_hurried_once(world: World) -> None:
    await world.worker.handle(notice(NoticeKind.SPOT, INSTANCES["Machine"]))
    raw = await world.kube.get(MACHINES, NAMES["Machine"])
    await world.show("machines", parse_machine(raw))
    await world.worker.handle(notice(NoticeKind.SYSTEM_STATUS, INSTANCES["Machine"]))
    hurried = await world.kube.get(MACHINES, NAMES["Machine"])
    assert hurried["metadata"]["annotations"][keys.TERMINATION_TIMESTAMP]
    await world.show("machines", parse_machine(hurried))
    world.clock.advance(3600)
    await world.worker.handle(notice(NoticeKind.SYSTEM_STATUS, INSTANCES["Machine"]))
    assert await world.kube.get(MACHINES, NAMES["Machine"]) == hurried


async def test_a_recommendation_is_only_told(world: World, published: Any, events: Any) -> None:
    """INT-11, INT-40, ACC-48; what a pool may choose instead is in test_deeds."""
    await world.worker.handle(notice(NoticeKind.REBALANCE, INSTANCES["Machine"]))
    await world.notifier.send()
    assert not await world.is_deleted("Machine")
    assert await events() == [("SpotRebalanceRecommendation", NAMES["Machine"])]
    assert await published(streams.INTERRUPTIONS) == []
    assert await world.notifier.unavailable.current() == frozenset()


async def test_foreign_instances_are_nobodys_business_and_cost_no_listing(
    world: World, published: Any, events: Any
) -> None:
    """INT-07, ACC-77: the mirror alone says so."""
    world.directory.machines = None  # type: ignore[assignment]  # any call would fail
    await world.writer.heartbeat()
    await world.worker.handle(notice(NoticeKind.SCHEDULED, "i-foreign", "i-other"))
    await world.worker.handle(notice(NoticeKind.SPOT))
    assert await events() == []
    assert await published(streams.TERMINATIONS) == []
    assert world.worker.handled == {NoticeKind.SCHEDULED: 1, NoticeKind.SPOT: 1}


async def test_a_message_of_an_unknown_instance_is_left_for_others_if_asked_for(
    world: World,
) -> None:
    """One of two instances that is known here is enough: then nobody else handles the message."""
    await world.writer.heartbeat()
    done: list[str] = []

    async def work(*instances: str) -> None:
        spot = notice(NoticeKind.SPOT, *instances)
        await world.worker.work(Entry(spot, lambda: done.append(" ".join(instances))))

    await work("i-foreign")
    world.worker.deletes_unknown = False
    ours = INSTANCES["Machine"]
    for instances in (("i-foreign",), ("i-foreign", ours), ()):
        await work(*instances)
    assert done == ["i-foreign", f"i-foreign {ours}", ""]


async def test_without_a_mirror_the_machines_are_listed_once_for_many_notices(
    world: World,
) -> None:
    """Redis is away: notices must be acted on all the same."""
    lone = Machines(world.kube)
    listed = 0

    class Counting:
        async def list(self) -> Any:
            nonlocal listed
            listed += 1
            return await lone.list()

    world.directory.machines = Counting()  # type: ignore[assignment]
    world.directory.reader = None
    await world.worker.handle(notice(NoticeKind.SPOT, *BOTH, "i-foreign"))
    await world.worker.handle(notice(NoticeKind.SPOT, "i-foreign"))
    assert [await world.is_deleted(kind) for kind in KINDS] == [True, True]
    assert listed == 1


async def test_an_old_picture_cannot_delete_a_successor(world: World) -> None:
    """R5: the deletion names the UID."""
    raw = await world.kube.get(MACHINES, NAMES["Machine"])
    await world.show("machines", msgspec.structs.replace(parse_machine(raw), uid="uid-of-before"))
    await world.worker.handle(notice(NoticeKind.SPOT, INSTANCES["Machine"]))
    assert not await world.is_deleted("Machine")
    assert world.actions.deleted == 0


async def test_a_failure_is_not_done_and_the_repeat_is(world: World, tmp_path: Any) -> None:
    """INT-04, ACC-77: the API server is away, then back."""
    path = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    nobody = await connect(path)
    nobody._first_backoff = 0.001
    there, done = world.actions.machines, []
    world.actions.machines = Machines(nobody)
    spot = notice(NoticeKind.SPOT, *BOTH)
    with pytest.raises(TransientError):
        await world.worker.handle(spot)
    await world.worker.work(Entry(spot, lambda: done.append("failed")))
    assert done == []
    world.actions.machines = there
    await world.worker.work(Entry(spot, lambda: done.append("handled")))
    await nobody.close()
    assert done == ["handled"]
    assert world.actions.deleted == 2
    assert [await world.is_deleted(kind) for kind in KINDS] == [True, True]


async def test_one_notice_that_cannot_be_handled_does_not_stop_the_others(world: World) -> None:
    """A fault of our own, too."""
    done: list[str] = []
    world.directory.reader = None
    world.directory.machines = None  # type: ignore[assignment]
    await world.worker.work(Entry(notice(NoticeKind.SPOT, "i-1"), lambda: done.append("no")))
    assert done == []
