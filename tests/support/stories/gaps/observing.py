"""Observes the effects of a gap: the mirror, the launched instances, and the readiness that the services reported."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from cli.demo.snapshot import Snapshot
from services.watcher.conversion import KINDS, Kind
from shared.domain.nodes import provider_instance_id
from shared.kube.resources import REPLICA_SETS
from shared.redis.bus import connect
from shared.redis.bus.connection import call, key_prefix
from shared.redis.mirror.change import MirrorKeys
from tests.support.stories.playground import POLL_SECONDS, Playground, until

READY_SECONDS = 0.25
"""Interval between two requests for the readiness of a service."""
ANSWER_SECONDS = 5.0
"""Timeout of a kubelet's readiness probe."""
Keys = dict[str, set[str]]
"""Mirrored kind -> keys of its objects."""


async def mirrored(ground: Playground) -> Keys:
    """The keys in the mirror, by kind."""
    environment = ground.environment
    names = MirrorKeys(key_prefix(environment.cluster_name))
    redis = connect(environment.redis_url, connections=1)
    try:
        return {
            kind.name: {
                key.decode()
                for key in await call(redis, "read the mirror", "HKEYS", names.objects(kind.name))
            }
            for kind in KINDS
        }
    finally:
        await redis.aclose()


async def existing(ground: Playground) -> Keys:
    """The expected keys of the mirror: every object of the watched kinds, from lists of the API server. A kind that it
    does not serve is watched nowhere."""
    found: Keys = {kind.name: set() for kind in KINDS}
    for kind in KINDS:
        if kind.resource.group and not await ground.kube.serves(kind.resource):
            continue
        objects = (await ground.kube.list(kind.resource)).items
        found[kind.name] |= {kind.key(raw) for raw in objects if _is_mirrored(kind, raw)}
    return found


def _is_mirrored(kind: Kind, raw: dict[str, Any]) -> bool:
    """A ReplicaSet of a Deployment is not: the Deployment stands for it."""
    return kind.resource != REPLICA_SETS or kind.convert(raw).record is not None


async def differences(ground: Playground) -> dict[str, dict[str, list[str]]]:
    """Kind -> keys that only one of the two has; empty when the mirror is equal to the cluster."""
    theirs, ours = await existing(ground), await mirrored(ground)
    return {
        kind: {"ghosts": sorted(ours[kind] - keys), "missing": sorted(keys - ours[kind])}
        for kind, keys in theirs.items()
        if ours[kind] != keys
    }


async def assert_mirror_follows(ground: Playground, seconds: float) -> None:
    """Wait at most this many seconds until the mirror is equal to the cluster."""
    last: dict[str, dict[str, list[str]]] = {}

    async def equal() -> bool:
        nonlocal last
        last = await differences(ground)
        return not last

    await until(equal, "the mirror is equal to the cluster", seconds=seconds, show=lambda: last)


@dataclass(frozen=True)
class Said:
    """One answer of /readyz. ``at`` is monotonic; ``reasons`` are empty where it says ready."""

    at: float
    reasons: tuple[str, ...]


async def readiness(ground: Playground, service: str) -> Said:
    """The current /readyz answer of a service."""
    url = f"{ground.environment.services[service]}/readyz"
    timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS)
    async with aiohttp.ClientSession(timeout=timeout) as session, session.get(url) as answer:
        document = await answer.json()
    assert document["ready"] == (answer.status == 200)
    return Said(time.monotonic(), tuple(document["reasons"]))


async def is_ready(ground: Playground, service: str, within: float) -> None:
    """Wait until the service reports ready."""
    last: tuple[str, ...] = ()

    async def ready() -> bool:
        nonlocal last
        last = (await readiness(ground, service)).reasons
        return not last

    await until(ready, f"{service} is ready", seconds=within, show=lambda: last)


async def is_not_ready(ground: Playground, service: str, within: float, why: str) -> None:
    """Wait until the service reports not ready, with ``why`` in one of its reasons."""
    last: tuple[str, ...] = ()

    async def told() -> bool:
        nonlocal last
        last = (await readiness(ground, service)).reasons
        return any(why in reason for reason in last)

    await until(told, f"{service} is not ready: {why}", seconds=within, show=lambda: last)


@asynccontextmanager
async def listening(ground: Playground, service: str) -> AsyncIterator[list[Said]]:
    """All readiness answers of a service during the context."""
    said: list[Said] = []

    async def listen() -> None:
        while True:
            said.append(await readiness(ground, service))
            await asyncio.sleep(READY_SECONDS)

    async with asyncio.TaskGroup() as group:
        task = group.create_task(listen())
        yield said
        task.cancel()


@dataclass
class Purchases:
    """Which instances came after a moment, and which nodes ever had a pod of the workload."""

    before: frozenset[str]
    served: set[str] = field(default_factory=set)
    bought: dict[str, str] = field(default_factory=dict)
    """Instance -> its type."""

    @classmethod
    async def since_now(cls, ground: Playground) -> Purchases:
        return cls(frozenset(one.instance_id for one in await ground.emulator.instances()))

    def note(self, now: Snapshot) -> None:
        """Take one snapshot of the cluster."""
        self.served |= {provider_instance_id(node.provider_id) for node in now.nodes if node.pods}
        for one in now.instances:
            if one.instance_id not in self.before:
                self.bought[one.instance_id] = one.instance_type

    @property
    def for_nobody(self) -> set[str]:
        """Instances on which no pod ever ran."""
        return self.bought.keys() - self.served


async def reached(
    ground: Playground,
    what: str,
    there: Callable[[Snapshot], bool],
    purchases: Purchases | None = None,
) -> Snapshot:
    """Wait until the cluster reaches the state; records every instance launched until then."""
    last = Snapshot()

    async def look() -> Snapshot | None:
        nonlocal last
        last = await ground.look()
        if purchases:
            purchases.note(last)
        return last if there(last) else None

    found = await until(look, what, show=lambda: last, every=POLL_SECONDS)
    assert found is not None
    return found
