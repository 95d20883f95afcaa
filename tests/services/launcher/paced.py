"""Many machines through one launcher in stepped time: every key is asked for again when its answer said.

EC2 answers in no time: nothing passes while a call is on its way, so the calls of a second are the launcher's own pace.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from services.launcher.launch.controller import LaunchController
from services.launcher.launch.saga import Answers, LaunchSaga
from shared.cloud.ec2.records import FleetResult
from shared.domain import labels as keys
from shared.redis.bus import RetryLater
from tests.services.conftest import create_machine, create_node_claim
from tests.services.launcher.crash_world import CrashWorld
from tests.services.launcher.mortal import Life

CREATE = {"Machine": create_machine, "NodeClaim": create_node_claim}
SOON_SECONDS = 0.5
"""A listing or another message may ask for a machine that nobody said a time for."""


@dataclass
class Calls:
    """CreateFleet as the launcher sees it; notes each call. What else is asked goes straight on."""

    ec2: Any
    world: CrashWorld
    throttled_seconds: float = 0.0
    """From the first call on."""
    times: list[float] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    _under_way: int = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ec2, name)

    async def create_fleet(self, request: dict[str, Any]) -> FleetResult:
        now = self.world.clock.monotonic()
        self.times.append(now)
        self.tokens.append(request["ClientToken"])
        if 0.0 < self.throttled_seconds <= now - self.times[0]:
            self.world.control.post("clear")
            self.throttled_seconds = 0.0
        found: FleetResult = await self.ec2.create_fleet(request)
        return found

    def follow(self, saga: LaunchSaga) -> None:
        """No time passes from the moment when the queue lets a call go to its answer."""
        wait, send = saga.queue.wait, saga.send

        async def wait_in_queue() -> float | None:
            at = await wait()
            self._under_way += at is not None
            return at

        async def send_at_once(*args: Any, **options: Any) -> Answers:
            try:
                return await send(*args, **options)
            finally:
                self._under_way -= 1

        vars(saga.queue).update(wait=wait_in_queue, sleep=self.sleep)
        vars(saga).update(send=send_at_once)

    async def sleep(self, seconds: float) -> None:
        """Time passes once all calls are answered."""
        while self._under_way:  # noqa: ASYNC110
            await asyncio.sleep(0.0005)
        self.world.clock.advance(seconds)

    def most_a_minute(self) -> int:
        """For one machine."""
        subjects = {
            body["spec"]["clientToken"]: [one["uid"] for one in body["spec"]["machines"]]
            for body in self.world.written
        }
        by_uid: dict[str, list[float]] = defaultdict(list)
        for token, at in zip(self.tokens, self.times, strict=True):
            for uid in subjects[token]:
                by_uid[uid].append(at)
        return max(most_within(times, 60.0) for times in by_uid.values())


def most_within(times: Sequence[float], seconds: float) -> int:
    """The most of these moments that lie in a span of this length."""
    return max((sum(first <= at < first + seconds for at in times) for first in times), default=0)


def watched(world: CrashWorld) -> tuple[LaunchController, Calls]:
    """A launcher whose calls are noted."""
    launch = world.incarnation(Life())
    calls = Calls(world.cloud.ec2, world)
    launch.saga.ports.cloud.ec2 = calls  # type: ignore[assignment]
    calls.follow(launch.saga)
    return launch, calls


async def make(
    world: CrashWorld, kind: str, wanted: Mapping[str, tuple[Sequence[str], str]]
) -> None:
    """A machine of this kind for each name: (instance types, zone), of either market."""

    async def one(name: str, types: Sequence[str], zone: str) -> None:
        rules = {keys.CAPACITY_TYPE: (keys.SPOT, keys.ON_DEMAND), keys.INSTANCE_TYPE: types}
        rules |= {keys.ZONE: (zone,)} if zone else {}
        listed = [{"key": key, "operator": "In", "values": [*rules[key]]} for key in rules]
        await CREATE[kind](world.kube, name, requirements=listed)

    works = [one(name, *asked) for name, asked in wanted.items()]
    for start in range(0, len(works), 50):
        await asyncio.gather(*works[start : start + 50])


async def ask_until_done(
    world: CrashWorld, launch: LaunchController, keys_wanted: Iterable[str], seconds: float
) -> dict[str, float]:
    """Ask for each when it is due, until none is left or the time is over. When each was done."""
    clock = world.clock
    due = dict.fromkeys(keys_wanted, clock.monotonic())
    end, done = clock.monotonic() + seconds, dict[str, float]()
    while due and (now := clock.monotonic()) < end:
        ready = [key for key, at in due.items() if at <= now]
        if not ready:
            clock.advance(min(due.values()) - now)
            continue
        ended = await asyncio.gather(*(launch.launch(k) for k in ready), return_exceptions=True)
        for key, answer in zip(ready, ended, strict=True):
            if answer is None:
                done[key] = clock.monotonic()
                del due[key]
                continue
            assert isinstance(answer, RetryLater), answer
            due[key] = clock.monotonic() + (answer.seconds or SOON_SECONDS)
    return done


async def one_instance_each(world: CrashWorld) -> bool:
    """I1, I2: nothing was started twice or for nobody."""
    owned = await world.owned()
    times = Counter(chain(owned, world.started()))
    return all(number == 2 for number in times.values())
