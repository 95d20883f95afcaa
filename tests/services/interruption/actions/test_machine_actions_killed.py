"""Actions that were cut off or came too early: a kill after the deletion, a node that is not there yet (INT-20..23)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.interruption.actions.machine_actions import NODE_WAIT_SECONDS
from services.interruption.actions.policy import Policy, caused
from services.interruption.notices.backlog import Entry
from services.interruption.notices.notice import (
    QUEUE,
    STATUS_CHECKS,
    Maintenance,
    Notice,
    NoticeKind,
)
from services.interruption.sources.scheduled_events import ScheduledEventSource
from shared.api.core.nodes import parse_node
from shared.api.v1alpha5.machines import parse_machine
from shared.domain import labels as keys
from shared.domain.pools.nodepools import CORDON
from shared.kube.resources import MACHINES, NODES
from tests.services.conftest import create_node
from tests.services.interruption.conftest import INSTANCES, NAMES, World
from tests.support.planning.builders import make_machine, make_pool

TOLD = "TerminatingOnInterruption"
OURS, NAME = INSTANCES["Machine"], NAMES["Machine"]
"""Of a machine whose node is not registered yet."""


async def delete_and_die(world: World) -> float:
    """What a killed incarnation leaves: a machine that is deleting, nothing said. When that was, in whole seconds."""
    await world.kube.delete(MACHINES, NAME)
    machine = parse_machine(await world.kube.get(MACHINES, NAME))
    await world.show("machines", machine)
    return machine.deleted_at


async def test_after_a_kill_between_deletion_and_event_the_repeat_tells_it_once(
    world: World, events: Any
) -> None:
    """INT-20, INT-21: the message comes again, and finds the machine deleting."""
    deleted_at = await delete_and_die(world)
    spot = Notice("n", NoticeKind.SPOT, (OURS,), at=deleted_at - 1)
    await world.worker.handle(spot)
    world.clock.advance(600)
    await world.worker.handle(spot)
    assert (await events()).count((TOLD, NAME)) == 1
    assert world.actions.deleted == 0


@pytest.mark.parametrize("source", [QUEUE, STATUS_CHECKS])
async def test_a_machine_that_waited_and_was_deleted_unsaid_is_told_of_once(
    world: World, events: Any, source: str
) -> None:
    """The killed process ordered the deletion when the lead time was reached; the next one looks once and is quiet."""
    held = Maintenance(float(int(world.clock.now()) + 3600), source, "")
    note = {"metadata": {"annotations": {keys.MAINTENANCE_ANNOTATION: held.text}}}
    await world.kube.patch(MACHINES, NAME, note)
    await delete_and_die(world)
    looking = ScheduledEventSource(
        world.settings, world.worker.backlog, world.directory, world.clock
    )
    looks = 0
    for _ in range(3):
        await looking.check()
        while len(world.worker.backlog):
            looks += 1
            await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
        world.clock.advance(1000)
    assert looks == 1
    assert (await events()).count((TOLD, NAME)) == 1


async def test_a_machine_that_waits_and_is_deleted_early_has_another_cause(
    world: World, events: Any
) -> None:
    """Its lead time is not reached."""
    held = Maintenance(world.clock.now() + 3600, QUEUE, "arn:1")
    note = {"metadata": {"annotations": {keys.MAINTENANCE_ANNOTATION: held.text}}}
    await world.kube.patch(MACHINES, NAME, note)
    await world.show("nodepools", make_pool("default", maintenance_lead_seconds=60.0))
    await delete_and_die(world)
    world.clock.advance(3550)
    looking = ScheduledEventSource(
        world.settings, world.worker.backlog, world.directory, world.clock
    )
    await looking.check()
    await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
    assert TOLD not in [reason for reason, _ in await events()]


async def test_a_deletion_is_logged_once(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """INT-20: event and log line of a deletion."""
    spot = Notice("n", NoticeKind.SPOT, (OURS,), at=world.clock.now())
    await world.worker.handle(spot)
    await world.worker.handle(spot)
    assert capsys.readouterr().out.count("initiating delete from interruption message") == 1


@pytest.mark.parametrize("kind", [NoticeKind.SPOT, NoticeKind.TERMINATED])
async def test_what_is_announced_after_the_deletion_was_not_its_cause(
    world: World, events: Any, kind: NoticeKind
) -> None:
    """EC2 tells the end of every instance, also of one that we end for another reason."""
    deleted_at = await delete_and_die(world)
    await world.worker.handle(Notice("n", kind, (OURS,), at=deleted_at + 1))
    assert TOLD not in [reason for reason, _ in await events()]


async def choose_cordon(world: World) -> None:
    await world.show("nodepools", make_pool("default", interruption=CORDON, rebalance=CORDON))


@pytest.mark.parametrize(
    "kind", [NoticeKind.SPOT, NoticeKind.REBALANCE, NoticeKind.CAPACITY_RESERVATION]
)
async def test_a_node_that_registers_after_its_notice_is_closed_all_the_same(
    world: World, kind: NoticeKind
) -> None:
    """The message comes again until the node is there."""
    await choose_cordon(world)
    notice, done = Notice("n", kind, (OURS,), at=world.clock.now()), []
    entry = Entry(notice, lambda: done.append(kind))
    await world.worker.work(entry)
    assert done == []
    node = await create_node(world.kube, f"aws:///us-west-2a/{OURS}", name="node-2")
    await world.show("nodes", parse_node(node))
    world.clock.advance(20)
    await world.worker.work(entry)
    assert done == [kind]
    (taint,) = parse_node(await world.kube.get(NODES, "node-2")).taints
    assert (taint.key.split("/")[0], taint.value) == ("aws-node-termination-handler", "dovetail")
    assert not await world.is_deleted("Machine")


async def test_a_node_that_was_made_anew_is_closed_once_the_mirror_knows_it(world: World) -> None:
    """A kubelet may replace its node; the taint names the UID that it means."""
    await choose_cordon(world)
    raw = await create_node(world.kube, f"aws:///us-west-2a/{OURS}", name="node-2")
    await world.show("nodes", replace(parse_node(raw), uid="uid-of-before"))
    done: list[str] = []
    entry = Entry(
        Notice("n", NoticeKind.SPOT, (OURS,), at=world.clock.now()), lambda: done.append("handled")
    )
    await world.worker.work(entry)
    assert done == []
    await world.show("nodes", parse_node(raw))
    await world.worker.work(entry)
    assert done == ["handled"]
    assert (
        parse_node(await world.kube.get(NODES, "node-2")).taints[0].key == keys.SPOT_ITN_TAINT_KEY
    )


async def test_a_node_that_never_comes_is_not_waited_for_without_end(world: World) -> None:
    """As long as a machine may take to register."""
    await choose_cordon(world)
    done: list[str] = []
    notice = Notice("n", NoticeKind.REBALANCE, (OURS,), at=world.clock.now())
    for seconds in (NODE_WAIT_SECONDS - 1, 2):
        world.clock.advance(seconds)
        assert done == []
        await world.worker.work(Entry(notice, lambda: done.append("given up")))
    assert done == ["given up"]


@pytest.mark.parametrize(
    ("kind", "said", "expected"),
    [
        (NoticeKind.SPOT, 99.9, True),
        (NoticeKind.SPOT, 100.9, True),
        (NoticeKind.SPOT, 101.0, False),
        (NoticeKind.SPOT, None, False),
        (NoticeKind.TERMINATED, 99.9, True),
        (NoticeKind.TERMINATED, 100.0, False),
        (NoticeKind.STOPPED, 101.0, False),
    ],
)
def test_a_deletion_has_its_cause_in_what_was_said_before_it(
    kind: NoticeKind, said: float | None, expected: bool
) -> None:
    """Deletion timestamps know whole seconds; the end of an instance in the same second may be our own doing."""
    machine = make_machine("a", terminating=True, deleted_at=100.0)
    assert caused(Notice("n", kind, ("i-1",), at=said), machine, Policy()) is expected
    assert not caused(Notice("n", kind, ("i-1",), at=said), make_machine("a"), Policy())
