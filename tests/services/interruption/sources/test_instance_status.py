"""EC2's status checks as notices (INT-30, INT-31), without a queue too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from services.interruption.notices.notice import QUEUE, STATUS_CHECKS, Maintenance, NoticeKind
from services.interruption.sources.instance_status import InstanceStatusSource
from shared.api.core.nodes import parse_node
from shared.api.v1.node_claims import parse_node_claim
from shared.api.v1alpha5.machines import parse_machine
from shared.cloud.ec2.instance_status import (
    EVENT_STATUS,
    SYSTEM_STATUS,
    InstanceStatuses,
    StatusProblem,
)
from shared.domain.labels import MAINTENANCE_ANNOTATION
from shared.domain.pools.generations import V1
from shared.domain.pools.nodepools import CORDON
from shared.errors import DovetailError, Unauthorized, Unavailable
from shared.kube.resources import NODES
from tests.services.interruption.conftest import INSTANCES, NAMES, RESOURCES, World
from tests.support.planning.builders import make_pool
from tests.support.waiting import wait_until

OURS, FOREIGN = INSTANCES["Machine"], "i-00000000000000000"
UNHEALTHY = "karpenter_interruption_instance_status_unhealthy_total"


class Answers(InstanceStatuses):
    """EC2 as a script: what it says or raises, the last for ever."""

    def __init__(self, *script: tuple[StatusProblem, ...] | DovetailError) -> None:
        self.script = list(script)
        self.asked = 0

    async def problems(self) -> tuple[StatusProblem, ...]:
        self.asked += 1
        said = self.script[min(self.asked, len(self.script)) - 1]
        if isinstance(said, DovetailError):
            raise said
        return said


def source(world: World, *script: Any, period: float = 0.01) -> InstanceStatusSource:
    settings = world.settings.model_copy(update={"instance_status_period": period})
    return InstanceStatusSource(
        settings, Answers(*script), world.worker.backlog, world.directory, world.clock,
        world.metrics,
    )  # fmt: skip


async def test_an_impaired_instance_of_ours_is_deleted_without_grace(world: World) -> None:
    """INT-30, INT-16; a foreign one and one that fails for a moment only are left alone."""
    since = world.clock.now() - 121
    problems = (
        StatusProblem(OURS, SYSTEM_STATUS, since=since),
        StatusProblem(FOREIGN, SYSTEM_STATUS, since=since),
        StatusProblem(INSTANCES["NodeClaim"], SYSTEM_STATUS, since=since + 60),
    )
    looking = source(world)
    await looking.check(problems)
    await looking.check(problems)
    assert world.counted(UNHEALTHY, category=SYSTEM_STATUS) == 1
    entries = [await world.worker.backlog.take(lambda: 0.0) for _ in range(2)]
    assert len(world.worker.backlog) == 0
    assert {entry.notice.instances for entry in entries} == {(OURS,)}
    for entry in entries:
        await world.worker.work(entry)
    assert world.actions.deleted == 1
    assert (await world.is_deleted("Machine"), await world.is_deleted("NodeClaim")) == (True, False)


async def test_a_category_is_counted_again_after_it_healed(world: World) -> None:
    """INT-31: once per instance and category while unhealthy."""
    looking = source(world)
    event = StatusProblem(OURS, EVENT_STATUS, due=world.clock.now() + 3600)
    for problems in ((event,), (event,), (), (event,)):
        await looking.check(problems)
    assert world.counted(UNHEALTHY, category=EVENT_STATUS) == 2
    assert (await world.worker.backlog.take(lambda: 0.0)).notice.kind == NoticeKind.EVENT_STATUS


async def test_an_event_that_ec2_no_longer_lists_is_called_off(world: World) -> None:
    """Only what the status checks announced; what the queue announced is the queue's to call off."""
    due = world.clock.now() + 3600
    for kind, source_ in (("Machine", STATUS_CHECKS), ("NodeClaim", QUEUE)):
        note = {MAINTENANCE_ANNOTATION: Maintenance(due, source_).text}
        body = {"metadata": {"annotations": note}}
        raw = await world.kube.patch(RESOURCES[kind], NAMES[kind], body)
        parse = parse_machine if kind == "Machine" else parse_node_claim
        await world.show("machines", parse(raw))
    looking = source(world)
    await looking.check((StatusProblem(OURS, EVENT_STATUS, due=due),))
    assert (await world.worker.backlog.take(lambda: 0.0)).notice.kind == NoticeKind.EVENT_STATUS
    await looking.check(())
    over = (await world.worker.backlog.take(lambda: 0.0)).notice
    assert (over.kind, over.instances) == (NoticeKind.SCHEDULED_OVER, (OURS,))
    assert len(world.worker.backlog) == 0


async def test_a_closed_node_is_opened_when_its_instance_passes_for_two_minutes(
    world: World,
) -> None:
    """From the node in the mirror alone, so that a restart knows it."""
    await world.show("nodepools", make_pool("default", generation_api=V1, interruption=CORDON))
    ours = INSTANCES["NodeClaim"]
    failing = StatusProblem(ours, SYSTEM_STATUS, since=world.clock.now() - 121)
    await source(world).check((failing,))
    await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
    await world.show("nodes", parse_node(await world.kube.get(NODES, "node-1")))
    restarted = source(world)
    for problems, later in (((), 60), ((failing,), 60), ((), 119), ((), 1)):
        await restarted.check(problems)
        while len(world.worker.backlog):
            await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
        assert parse_node(await world.kube.get(NODES, "node-1")).taints
        world.clock.advance(later)
    await restarted.check(())
    await world.worker.work(await world.worker.backlog.take(lambda: 0.0))
    assert not parse_node(await world.kube.get(NODES, "node-1")).taints


async def test_without_permission_it_says_so_once_and_stops_asking(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """INT-30: status checks."""
    denied = Unauthorized("allow ec2:DescribeInstanceStatus", code="UnauthorizedOperation")
    looking, stop = source(world, denied), asyncio.Event()
    running = asyncio.create_task(looking.run(stop))
    await wait_until(lambda: looking.stopped, "it stops")
    stop.set()
    await running
    assert isinstance(looking.statuses, Answers)
    assert looking.statuses.asked == 1
    assert capsys.readouterr().out.count("cannot read instance statuses") == 1
    assert looking.progress() > 0
    assert looking.complaint() == "", "a right that was not given is a choice"


async def test_two_failures_in_a_row_are_no_progress_and_are_told(world: World) -> None:
    """Readiness must know: who cannot read the statuses deletes no impaired machine."""
    away = Unavailable("EC2 is away")
    looking, stop = source(world, away, away, away, ()), asyncio.Event()
    looking.statuses = answers = Answers(away, away, away, ())
    told: list[tuple[int, str, float]] = []
    ask = looking._ask

    async def noted() -> bool:
        answered = await ask()
        told.append((answers.asked, looking.complaint(), looking.last_progress))
        return answered

    looking._ask = noted  # type: ignore[method-assign]
    running = asyncio.create_task(looking.run(stop))
    await wait_until(lambda: looking.last_progress > 0, "it is read")
    stop.set()
    await running
    assert [bool(complaint) for _, complaint, _ in told[:4]] == [False, True, True, False]
    assert "2 times in a row: EC2 is away" in told[1][1]
    assert [progress for _, _, progress in told[:4]] == [0.0] * 4


async def test_any_other_failure_is_tried_again(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    away = Unavailable("EC2 is away")
    looking, stop = source(world, away, away, ()), asyncio.Event()
    running = asyncio.create_task(looking.run(stop))
    assert isinstance(looking.statuses, Answers)
    statuses = looking.statuses
    await wait_until(lambda: statuses.asked >= 3, "it asks again")
    await wait_until(lambda: not looking.problem, "it is read")
    stop.set()
    await running
    assert capsys.readouterr().out.count("cannot read instance statuses") == 1
