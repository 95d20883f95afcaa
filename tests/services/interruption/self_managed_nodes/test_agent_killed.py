"""An agent that is killed at any of its writes: what the metadata announce is told on the objects, once (INT-20).

The next agent remembers nothing; it has the metadata, the objects, and what Redis says was told.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from services.interruption.actions.webhook import Webhook
from services.interruption.actions.worker import NoticeHandling
from services.interruption.self_managed_nodes.imds_source import Imds, ImdsSource, OwnNode
from shared.api.core.nodes import parse_node
from shared.concurrency.clock import SystemClock
from shared.kube.client import Kube
from shared.kube.machines import Machines
from shared.kube.recorder import LocalSeenEvents, Recorder
from shared.kube.resources import EVENTS, NODE_CLAIMS, NODES
from shared.metrics import Metrics
from shared.redis.bus import Bus
from shared.runtime.tracing import OFF
from shared.settings import InterruptionSettings, read
from tests.services.conftest import CLUSTER, Control, create_node, create_node_claim
from tests.services.launcher.mortal import Died, Life, Mortal
from tests.support.clock.fake import FakeClock

HOUR = 3600
ANNOUNCED = {"event": "instance-retirement", "eventInSeconds": 24 * HOUR}
DELETED = ("InstanceUnhealthy", "TerminatingOnInterruption")
CORDONED = ("Cordon", "InstanceUnhealthy")
LONGEST_STORY = 10
"""No agent writes as often in one of these stories."""


@dataclass
class Agents:
    """One after the other, each on the node of a NodeClaim of its own, all on one instance."""

    kube: Kube
    bus: Bus
    control: Control
    instance: str
    imds: Imds
    clock: FakeClock
    metrics: Metrics
    seen: LocalSeenEvents
    numbers: itertools.count[int] = field(default_factory=itertools.count)
    claim: str = ""
    node: str = ""

    async def settle(self) -> None:
        """A new claim with a new node."""
        number = next(self.numbers)
        self.claim, self.node = f"default-{number}", f"node-{number}"
        claim = await create_node_claim(self.kube, self.claim)
        await create_node(self.kube, f"aws:///us-west-2a/{self.instance}", name=self.node)
        owner = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": self.claim}
        owners = [{**owner, "uid": claim["metadata"]["uid"]}]
        await self.kube.patch(NODES, self.node, {"metadata": {"ownerReferences": owners}})

    async def live(self, life: Life, **changes: Any) -> None:
        """One agent: it looks, acts and writes its events, three times within ten minutes."""
        settings = read(
            InterruptionSettings, cluster_name=CLUSTER, aws_region="us-west-2",
            node_name=self.node, **changes,
        )  # fmt: skip
        kube: Any = Mortal(self.kube, life)
        own = OwnNode(kube, Machines(kube))
        recorder = Recorder(kube, clock=self.clock, random=random.Random(1), seen=self.seen)
        env: Any = SimpleNamespace(
            settings=settings, kube=kube, bus=self.bus, clock=self.clock, metrics=self.metrics,
            recorder=recorder, tracer=OFF,
        )  # fmt: skip
        handling = NoticeHandling.of(env, own, Webhook(settings, self.clock, random.Random(2)))
        worker, backlog = handling.worker, handling.backlog
        source = ImdsSource(
            settings, self.imds, backlog, own, self.clock, random.Random(3), self.metrics
        )
        stop = asyncio.Event()
        stop.set()
        for _ in range(3):
            await source.check()
            while len(backlog):
                await worker.work(await backlog.take(self.clock.monotonic))
            await recorder.run(stop)
            self.clock.advance(200)

    async def die(self, dies_at: int, *, after: bool, **changes: Any) -> bool:
        """Whether the agent got as far as this write; the next one goes on a moment later."""
        life = Life(dies_at, after)
        try:
            await self.live(life, **changes)
        except Died:
            self.clock.advance(5)
            await self.live(Life(), **changes)
        return life.dead

    async def told(self) -> Counter[tuple[str, str]]:
        """(reason, object) of every event about claim and node of now."""
        found = [
            (one["reason"], one["involvedObject"]["name"])
            for one in (await self.kube.list(EVENTS)).items
        ]
        return Counter(one for one in found if one[1] in (self.claim, self.node))

    def expected(self, *reasons: str) -> Counter[tuple[str, str]]:
        return Counter((reason, name) for reason in reasons for name in (self.claim, self.node))


@pytest.fixture
async def agents(
    kube: Kube, bus: Bus, control: Control, instance: str, aws_emulator_url: str, clock: FakeClock,
    metrics: Metrics,
) -> AsyncIterator[Agents]:  # fmt: skip
    imds = Imds(f"{aws_emulator_url}/_dovetail/imds/{instance}", SystemClock())
    yield Agents(kube, bus, control, instance, imds, clock, metrics, LocalSeenEvents(clock))
    await imds.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reasons", "choices"),
    [
        (DELETED, {}),
        (CORDONED, {"interruption_mode": "cordon"}),
        (("InstanceUnhealthy",), {"maintenance_lead": "1h"}),
    ],
    ids=["delete", "cordon", "wait"],
)
async def test_a_scheduled_event_is_told_once_whenever_the_agent_is_killed(
    agents: Agents, reasons: tuple[str, ...], choices: dict[str, str]
) -> None:
    """Before each write and after it."""
    agents.control.post("statuses", instanceId=agents.instance, **ANNOUNCED)
    for dies_at, after in itertools.product(range(1, LONGEST_STORY), (False, True)):
        await agents.settle()
        if not await agents.die(dies_at, after=after, **choices):
            break
        assert await agents.told() == agents.expected(*reasons), (dies_at, after)
    assert dies_at >= 2 * len(reasons) + 1
    claim = await agents.kube.get(NODE_CLAIMS, agents.claim)
    assert ("deletionTimestamp" in claim["metadata"]) == (reasons == DELETED)


@pytest.mark.slow
async def test_a_cancellation_is_told_once_whenever_the_agent_is_killed(agents: Agents) -> None:
    """And the node is open again: nobody calls an event off a second time."""
    for dies_at, after in itertools.product(range(1, LONGEST_STORY), (False, True)):
        agents.control.post("statuses", instanceId=agents.instance, **ANNOUNCED)
        await agents.settle()
        await agents.live(Life(), interruption_mode="cordon")
        agents.control.post("statuses", instanceId=agents.instance)
        if not await agents.die(dies_at, after=after, interruption_mode="cordon"):
            break
        told = await agents.told()
        assert told == agents.expected(*CORDONED, "ScheduledEventOver"), (dies_at, after)
        assert not parse_node(await agents.kube.get(NODES, agents.node)).taints
    assert dies_at > 4
