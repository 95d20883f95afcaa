"""EC2's view of the instances that are terminated: one call for all of them every five seconds (TRM-14, LCH-55, F20).

EC2's lists lag behind its writes: an instance that is missing in one list may well run. Only ``terminated``, or
minutes in which no list had it, are proof. What may go wrong: EC2 does not answer. Then its last answer stands, so that
a drain goes on meanwhile, and EC2 is called again five seconds later.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.cloud.ec2.calls import Ec2
from shared.cloud.ec2.records import ALL_LISTED_SECONDS, Instance
from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.log import get_logger

log = get_logger(__name__)

READ_SECONDS = 5.0
TERMINATED, SHUTTING_DOWN = "terminated", "shutting-down"
ENDED_STATES = frozenset({SHUTTING_DOWN, TERMINATED, "stopping", "stopped"})
"""In these an instance costs nothing."""
ABSENT, UNKNOWN = "absent", "unknown"
"""Beside EC2's own states: EC2 does not know the instance; EC2 has not answered yet."""
NEVER = float("-inf")


@dataclass
class InstanceView:
    """EC2's last answer about one instance. Times are monotonic: of the last call, and of the last answer."""

    called: float = NEVER
    answered: float = NEVER
    instance: Instance | None = None
    absent_since: float | None = None

    @property
    def state(self) -> str:
        """EC2's state, ABSENT or UNKNOWN."""
        if self.instance is not None:
            return self.instance.state
        return UNKNOWN if self.absent_since is None else ABSENT

    @property
    def stopped_at(self) -> float:
        """When it stopped or began to end, in seconds since the epoch; 0: it runs, or EC2 does not say it."""
        if self.instance is None or self.instance.state not in ENDED_STATES:
            return 0.0
        return self.instance.stopped_at

    @property
    def is_gone(self) -> bool:
        """Is it proven that the instance does not exist any more?"""
        if self.absent_since is not None:
            return self.answered - self.absent_since >= ALL_LISTED_SECONDS
        return self.state == TERMINATED

    def update(self, instance: Instance | None, now: float) -> None:
        """EC2 answered; None: it does not know the instance."""
        self.answered, self.instance = now, instance
        if instance is not None:
            self.absent_since = None
        elif self.absent_since is None:
            self.absent_since = now


class Instances:
    """The instances that callers wait for; one that no longer does calls ``forget``."""

    def __init__(self, ec2: Ec2, clock: Clock) -> None:
        self._ec2 = ec2
        self._clock = clock
        self._views: dict[str, InstanceView] = {}
        self._reading = asyncio.Lock()

    async def read(self, instance_id: str) -> InstanceView:
        """EC2's view, not older than five seconds if EC2 answers."""
        view = self._views.setdefault(instance_id, InstanceView())
        if self._age(view) >= READ_SECONDS:
            async with self._reading:
                if self._age(view) >= READ_SECONDS:
                    await self._read_due()
        return view

    def last_seen(self, instance_id: str) -> InstanceView:
        """EC2's last answer, without a call."""
        return self._views.get(instance_id, InstanceView())

    async def terminate(self, instance_id: str) -> None:
        """Order its end; the next ``read`` calls EC2. Raises EC2's error."""
        await self._ec2.terminate([instance_id])
        if instance_id in self._views:
            self._views[instance_id].called = NEVER

    def due(self, instance_id: str) -> float:
        """Monotonic time from which ``read`` calls EC2 about it."""
        return self.last_seen(instance_id).called + READ_SECONDS

    def forget(self, instance_id: str) -> None:
        """No caller waits for it any more."""
        self._views.pop(instance_id, None)

    def _age(self, view: InstanceView) -> float:
        return self._clock.monotonic() - view.called

    async def _read_due(self) -> None:
        """Read all that are due soon as well, so that they end up in the same call."""
        due = {
            instance_id: view
            for instance_id, view in self._views.items()
            if self._age(view) >= READ_SECONDS / 2
        }
        now = self._clock.monotonic()
        for view in due.values():
            view.called = now
        try:
            found = {one.id: one for one in await self._ec2.instances(ids=due)}
        except DovetailError as error:
            log.warning("cannot ask EC2 about instances", number=len(due), error=error.message)
            return
        for instance_id, view in due.items():
            view.update(found.get(instance_id), now)
