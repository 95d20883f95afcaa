"""A node that is not ours in an auto scaling group with a hook: terminator, keeper and taker around it, and a watcher.

API server, Redis, SQS and EC2 Auto Scaling are real; kubelets and controllers are those of the terminator's tests.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import msgspec

from services.interruption.actions.webhook import Webhook
from services.interruption.directory import KINDS, Directory, list_nodes
from services.interruption.notices.eventbridge import parse
from services.interruption.notices.notice import Notice, NoticeKind
from services.interruption.self_managed_nodes.hook_keeper import HookKeeper
from services.interruption.self_managed_nodes.lifecycle_hooks import (
    HookCalls,
    LifecycleHooks,
    action_of,
)
from shared.api.core.nodes import parse_node
from shared.concurrency.clock import SystemClock
from shared.domain.machines.lifecycle_actions import LifecycleAction
from shared.domain.nodes import Node, provider_instance_id
from shared.kube.machines import Machines
from shared.kube.resources import NODES
from shared.redis.bus import BadMessage
from shared.redis.mirror import Change, MirrorReader, MirrorWriter
from shared.settings import InterruptionSettings, read
from tests.services.conftest import CLUSTER
from tests.services.launcher.mortal import Life, Mortal
from tests.services.terminator.world import World
from tests.support.waiting import wait_until

HEARTBEAT_TIMEOUT = 60


@dataclass
class HookWorld:
    """``world`` is the terminator's; ``hooks`` and ``keeper`` the interruption service's."""

    world: World
    writer: MirrorWriter
    reader: MirrorReader
    name: str = ""
    """Of the node that this is about now."""
    instance: str = ""

    async def another(self) -> str:
        """A new node in a group of its own making; its name."""
        (provider_id,) = await self.world.instances(1)
        self.name = f"worker-{next(self.world.numbers)}"
        self.instance = provider_instance_id(provider_id)
        self.world.node(self.name, provider_id, labels={"role": "worker"}, finalizers=())
        await self.watch()
        return self.name

    def settings(self, **changes: Any) -> InterruptionSettings:
        return read(
            InterruptionSettings,
            cluster_name=CLUSTER,
            aws_region="us-west-2",
            **{"lifecycle_hooks": "drain", **changes},
        )

    def restart(self, life: Life | None = None, **changes: Any) -> None:
        """New incarnations of both services that remember nothing but what the objects say."""
        world, settings = self.world, self.settings(**changes)
        world.restart(life)
        kube: Any = Mortal(world.kube, life) if life else world.kube
        bus: Any = Mortal(world.bus, life) if life else world.bus
        self.directory = Directory(
            Machines(kube), SystemClock(), _no_pool, lambda: list_nodes(kube), self.reader
        )
        self.replay(self.directory)
        self.webhook = Webhook(settings, world.clock, random.Random(2))
        calls = HookCalls(world.cloud.autoscaling, world.cloud.ec2)
        env: Any = SimpleNamespace(
            settings=settings, kube=kube, bus=bus, clock=world.clock, metrics=world.metrics,
            recorder=world.recorder, random=random.Random(3),
        )  # fmt: skip
        self.hooks = LifecycleHooks(env, self.directory, self.webhook, calls)
        self.keeper = HookKeeper(env, world.cloud.autoscaling, self.directory, self.webhook)

    def replay(self, directory: Directory) -> None:
        """What a reader tells a new follower."""
        for kind in KINDS:
            for key, body in self.reader.kinds[kind].items():
                directory.note(Change(kind, key, body))

    async def watch(self) -> None:
        """The watcher shows the nodes as they are."""
        names = {raw["metadata"]["name"]: raw for raw in self.world.store.list(NODES.plural)}
        changes = [
            Change("nodes", name, msgspec.json.encode(parse_node(raw)))
            for name, raw in names.items()
        ]
        changes += [Change("nodes", n, None) for n in self.reader.kinds["nodes"] if n not in names]
        generation = await self.writer.apply(changes)
        await self.reader.wait_for(generation, 60)
        for change in changes:
            self.directory.note(change)

    def end_by_group(self) -> None:
        """The group ends the instance; the event goes to the queue."""
        self.world.control.post(
            "interruptions", kind="autoscaling", instanceId=self.instance,
            heartbeatTimeoutSeconds=HEARTBEAT_TIMEOUT,
        )  # fmt: skip

    async def notice(self) -> Notice:
        """The lifecycle event, as the queue holds it, said now by the test's clock."""
        sqs = self.world.cloud.sqs
        url = await sqs.queue_url(CLUSTER)
        for _ in range(20):
            for message in await sqs.receive(url, wait_seconds=1):
                try:
                    found = parse(message.body)
                except BadMessage:
                    continue
                if found.kind == NoticeKind.LIFECYCLE and found.instances == (self.instance,):
                    return msgspec.structs.replace(found, at=self.world.clock.now())
        raise AssertionError("the event did not come")

    async def turn(self, seconds: float = 1.0) -> None:
        """Everybody acts once, then time passes."""
        await self.watch()
        await self.keeper.check()
        await self.world.turn(seconds)

    async def turns(self, most: int, until: Any, seconds: float = 1.0) -> int:
        """Turns until something is so."""
        for count in range(most):
            if until():
                return count
            await self.turn(seconds)
        raise AssertionError(f"not after {most} turns")

    @property
    def node(self) -> Node:
        return parse_node(self.world.store.get(NODES.plural, self.name))

    @property
    def action(self) -> LifecycleAction | None:
        return action_of(self.node)

    @property
    def is_ended(self) -> bool:
        """EC2 Auto Scaling has let the instance go."""
        return self.world.control.states().get(self.instance) in {"shutting-down", "terminated"}

    def counted(self, result: str) -> float:
        name = "dovetail_lifecycle_actions_total"
        value = self.world.metrics.registry.get_sample_value(name, {"result": result})
        return value or 0.0

    def calls(self, action: str) -> int:
        return len(self.world.control.get(f"calls?action={action}")["calls"])


@asynccontextmanager
async def hook_world(world: World, redis_url: str) -> AsyncIterator[HookWorld]:
    """With the mirror running."""
    bus = world.bus
    writer = MirrorWriter(bus.redis, bus.prefix, epoch="a")
    await writer.begin({})
    reader = MirrorReader(
        redis_url, bus.prefix, clock=SystemClock(), kinds=KINDS, block_milliseconds=20
    )
    made = HookWorld(world, writer, reader)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run(stop))
        await wait_until(lambda: reader.complete, "the mirror")
        made.restart()
        await made.another()
        yield made
        stop.set()


async def _no_pool(_: str) -> None:
    return None
