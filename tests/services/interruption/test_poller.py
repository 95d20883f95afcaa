"""Interruptions acted on, against API server, EC2's queue and Redis (INT-03..INT-23, scenarios 77, 78)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from services.interruption import parsers
from services.interruption.parsers import Interruption
from services.interruption.poller import Poller
from shared import streams
from shared.api.machines import parse_machine
from shared.bus import Bus
from shared.clock import SystemClock
from shared.cloud.session import Cloud
from shared.errors import TransientError
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import Recorder
from shared.kube.resources import MACHINES
from shared.messages import InterruptionReceived, TerminateMachine
from shared.metrics import Metrics
from shared.mirror import MirrorReader, MirrorWriter
from shared.mirror.offerings import UnavailableOfferings
from shared.settings import InterruptionSettings, read
from tests.services.conftest import CLUSTER, Control, create_machine
from tests.support.cluster_fixture import connect, write_kubeconfig
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until

NAME, INSTANCE = "default-a", "i-0123456789abcdef0"
SPOT = Interruption("event-1", parsers.SPOT, (INSTANCE,), 5.0)


@pytest.fixture
def poller(
    kube: Kube, cloud: Cloud, bus: Bus, clock: FakeClock, metrics: Metrics, recorder: Recorder,
    redis_url: str,
) -> Poller:  # fmt: skip
    settings = read(
        InterruptionSettings,
        cluster_name=CLUSTER,
        aws_region="us-west-2",
        interruption_queue=CLUSTER,
        receive_wait_seconds=1,
    )
    return Poller(
        settings=settings,
        cloud=cloud,
        machines=Machines(kube),
        bus=bus,
        clock=clock,
        metrics=metrics,
        recorder=recorder,
        unavailable=UnavailableOfferings(bus.redis, bus.prefix, clock),
        mirror=MirrorReader(redis_url, bus.prefix, clock=SystemClock(), kinds=("machines",)),
    )


@pytest.fixture
async def machine(kube: Kube) -> dict[str, Any]:
    """A spot Machine with its instance, not registered yet (INT-23)."""
    await create_machine(kube, NAME)
    status = {"providerID": f"aws:///us-west-2a/{INSTANCE}"}
    await kube.patch(MACHINES, NAME, {"status": status}, subresource="status")
    labels = {
        "karpenter.sh/capacity-type": "spot",
        "node.kubernetes.io/instance-type": "m5.large",
        "topology.kubernetes.io/zone": "us-west-2a",
    }
    return await kube.patch(MACHINES, NAME, {"metadata": {"labels": labels}})


async def is_deleted(kube: Kube) -> bool:
    return bool((await kube.get(MACHINES, NAME))["metadata"].get("deletionTimestamp"))


async def test_a_spot_notice_deletes_the_machine_and_marks_the_offering(
    poller: Poller, kube: Kube, machine: Any, published: Any, events: Any, metrics: Metrics
) -> None:
    """INT-10, INT-20, INT-22: terminator and scheduler hear of it at the same time."""
    await poller.handle(SPOT)
    assert await is_deleted(kube)
    assert await poller.unavailable.current() == {("spot", "m5.large", "us-west-2a")}
    order = TerminateMachine(name=NAME, reason=parsers.SPOT)
    assert await published(streams.TERMINATIONS) == [order]
    assert await published(streams.INTERRUPTIONS) == [
        InterruptionReceived(
            kind=parsers.SPOT, instances=(INSTANCE,), deadline=5.0, event="event-1"
        )
    ]
    assert await events() == [("SpotInterrupted", NAME), ("TerminatingOnInterruption", NAME)]
    labels = {"reason": parsers.SPOT, "nodepool": "default", "capacity_type": "spot"}
    name = "karpenter_nodeclaims_disrupted_total"
    assert metrics.registry.get_sample_value(name, labels) == 1


async def test_a_repeated_notice_changes_nothing(
    poller: Poller, kube: Kube, machine: Any, published: Any, events: Any
) -> None:
    """INT-21, scenario 78: SQS delivers more than once."""
    await poller.handle(SPOT)
    first = await kube.get(MACHINES, NAME)
    await poller.handle(SPOT)
    await poller.handle(Interruption("event-2", parsers.TERMINATED, (INSTANCE,)))
    assert await kube.get(MACHINES, NAME) == first
    assert len(await published(streams.TERMINATIONS)) == 1
    assert [r for r, _ in await events()].count("SpotInterrupted") == 1


async def test_foreign_instances_are_nobodys_business(
    poller: Poller, kube: Kube, machine: Any, published: Any, metrics: Metrics
) -> None:
    """INT-07, scenario 77."""
    await poller.handle(Interruption("e", parsers.SCHEDULED, ("i-foreign",)))
    await poller.handle(Interruption("e", parsers.SPOT, ()))
    assert not await is_deleted(kube)
    assert await published(streams.INTERRUPTIONS) == []
    name, labels = "karpenter_interruption_received_messages_total", {"message_type": parsers.SPOT}
    assert metrics.registry.get_sample_value(name, labels) == 1


async def test_a_recommendation_is_only_told(
    poller: Poller, kube: Kube, machine: Any, published: Any, events: Any
) -> None:
    """INT-11, INT-40."""
    await poller.handle(Interruption("e", parsers.REBALANCE, (INSTANCE,)))
    assert not await is_deleted(kube)
    assert await events() == [("SpotRebalanceRecommendation", NAME)]
    assert await published(streams.INTERRUPTIONS) == []
    assert await poller.unavailable.current() == frozenset()


async def test_a_mirror_that_knows_the_machine_is_believed_for_finding_it_only(
    poller: Poller, kube: Kube, machine: Any, bus: Bus
) -> None:
    """R5: the deletion names the UID, so an old picture cannot delete a successor."""
    old = msgspec.structs.replace(parse_machine(machine), uid="uid-of-before")
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="a")
    await writer.begin({"machines": {NAME: msgspec.json.encode(old)}})
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(poller.mirror.run(stop))
        await wait_until(lambda: poller.mirror.complete, "the mirror")
        await poller.handle(SPOT)
        stop.set()
    assert not await is_deleted(kube)


async def queue_length(poller: Poller) -> int:
    messages = await poller.cloud.sqs.receive(poller.url, wait_seconds=0, visibility_seconds=0)
    return len(messages)


async def test_a_message_is_deleted_once_it_is_handled(
    poller: Poller, kube: Kube, machine: Any, control: Control, metrics: Metrics
) -> None:
    """INT-03, INT-04, by the real queue: a notice for ours and one for a foreign instance."""
    for instance in (INSTANCE, "i-00000000000000000"):
        control.post("interruptions", kind="spot", instanceId=instance, foreign=True)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(poller.run(stop))
        await wait_until(lambda: poller.handled.get(parsers.SPOT) == 2, "both are handled")
        deleted = "karpenter_interruption_deleted_messages_total"
        await wait_until(
            lambda: metrics.registry.get_sample_value(deleted) == 2, "both are deleted"
        )
        stop.set()
    assert await is_deleted(kube)
    assert await queue_length(poller) == 0


async def test_a_message_that_could_not_be_handled_comes_again(
    poller: Poller, machine: Any, control: Control, tmp_path: Any, metrics: Metrics
) -> None:
    """INT-04, scenario 77: the API server is away, the message stays in the queue."""
    path = write_kubeconfig(tmp_path / "nobody", "http://127.0.0.1:9")
    nobody = await connect(path)
    nobody._first_backoff = 0.001
    poller.machines = Machines(nobody)
    with pytest.raises(TransientError):
        await poller.handle(SPOT)
    control.post("interruptions", kind="spot", instanceId=INSTANCE, foreign=True)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(poller.run(stop))
        await wait_until(lambda: poller.handled.get(parsers.SPOT, 0) >= 2, "it was tried")
        stop.set()
    await nobody.close()
    name = "karpenter_interruption_deleted_messages_total"
    assert metrics.registry.get_sample_value(name) == 0


async def test_a_missing_queue_is_said_and_not_a_crash(poller: Poller, machine: Any) -> None:
    """OPS-12: it says which variable to mend."""
    poller.settings = poller.settings.model_copy(update={"interruption_queue": "nowhere"})
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(poller.run(stop))
        await wait_until(lambda: poller.problem, "the problem")
        stop.set()
    assert "nowhere does not exist" in poller.problem
    assert "INTERRUPTION_QUEUE" in poller.problem
