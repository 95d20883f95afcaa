"""What EC2 says about the instances that go: one question for all of them every five seconds (TRM-14, LCH-55, F20).

EC2's lists lag behind its deeds: an instance that is missing in one of them may well run. Only ``terminated``, or a
minute in which no list had it, is proof. What may go wrong: EC2 does not answer. Then the last word stands, so that a
drain goes on meanwhile, and the question is put again five seconds later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.clock import Clock
from shared.cloud.ec2 import Ec2
from shared.cloud.records import Instance
from shared.errors import DovetailError
from shared.log import get_logger

log = get_logger(__name__)

ASK_SECONDS = 5.0
ABSENT_SECONDS = 60.0
"""F20: an instance that EC2 does not know proves nothing before it was unknown for this long."""
TERMINATED, SHUTTING_DOWN = "terminated", "shutting-down"
ABSENT, UNKNOWN = "absent", "unknown"
"""Beside EC2's own states: EC2 does not have it; EC2 was not heard yet."""
NEVER = float("-inf")


@dataclass
class Sighting:
    """EC2's last word on one instance. Times are monotonic."""

    asked: float = NEVER
    heard: float = NEVER
    instance: Instance | None = None
    absent_since: float | None = None

    @property
    def state(self) -> str:
        """EC2's word for it, ABSENT or UNKNOWN."""
        if self.instance is not None:
            return self.instance.state
        return UNKNOWN if self.absent_since is None else ABSENT

    @property
    def is_gone(self) -> bool:
        """Is it proven that nothing of it is left?"""
        if self.absent_since is not None:
            return self.heard - self.absent_since >= ABSENT_SECONDS
        return self.state == TERMINATED

    def hear(self, instance: Instance | None, now: float) -> None:
        """EC2 answered; None: it does not know the instance."""
        self.heard, self.instance = now, instance
        if instance is not None:
            self.absent_since = None
        elif self.absent_since is None:
            self.absent_since = now


class Instances:
    """All instances that somebody waits for; whoever no longer does calls ``forget``."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._sightings: dict[str, Sighting] = {}
        self._asking = asyncio.Lock()

    async def look(self, instance_id: str) -> Sighting:
        """EC2's word, not older than five seconds if EC2 answers."""
        sighting = self._sightings.setdefault(instance_id, Sighting())
        if self._age(sighting) >= ASK_SECONDS:
            async with self._asking:
                if self._age(sighting) >= ASK_SECONDS:
                    await self._ask()
        return sighting

    def last_seen(self, instance_id: str) -> Sighting:
        """EC2's last word, without asking."""
        return self._sightings.get(instance_id, Sighting())

    async def terminate(self, instance_id: str) -> None:
        """Order its end; the next look asks afresh. Raises what EC2 answers."""
        await self._ec2.terminate([instance_id])
        if instance_id in self._sightings:
            self._sightings[instance_id].asked = NEVER

    def forget(self, instance_id: str) -> None:
        """Nobody waits for it any more."""
        self._sightings.pop(instance_id, None)

    def _age(self, sighting: Sighting) -> float:
        return self._clock.monotonic() - sighting.asked

    async def _ask(self) -> None:
        """About all whose time comes soon as well: so they end up in the same question."""
        due = {
            instance_id: sighting
            for instance_id, sighting in self._sightings.items()
            if self._age(sighting) >= ASK_SECONDS / 2
        }
        now = self._clock.monotonic()
        for sighting in due.values():
            sighting.asked = now
        try:
            found = {one.id: one for one in await self._ec2.instances(ids=due)}
        except DovetailError as error:
            log.warning("cannot ask EC2 about instances", number=len(due), error=error.message)
            return
        for instance_id, sighting in due.items():
            sighting.hear(found.get(instance_id), now)
