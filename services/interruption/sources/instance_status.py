"""EC2's status checks as a source of notices, every minute, with or without a queue (INT-30, INT-31).

A failing check is announced again each minute: that costs nothing once the Machine is being deleted, and repeats an
action that failed without keeping a list of such.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from services.interruption.directory import Directory
from services.interruption.notices.backlog import Backlog, Entry
from services.interruption.notices.notice import rank
from services.interruption.notices.status_checks import (
    Name,
    called_off,
    first_seen,
    healed,
    name_of,
    notice_of,
    passing_since,
    serious,
)
from shared.cloud.ec2.instance_status import InstanceStatuses, StatusProblem
from shared.concurrency.clock import Clock
from shared.concurrency.waiting import pause, run_until
from shared.errors import DovetailError, Unauthorized
from shared.log import get_logger
from shared.metrics import Metrics
from shared.runtime.services import MOST_FAILURES
from shared.settings import InterruptionSettings

log = get_logger(__name__)

OFF_PAUSE_SECONDS = 15.0
"""How often the setting is read while it says never."""
OFTEN_SECONDS = 60.0
"""With a longer period than this, silence is no sign of trouble."""
DENIED = "UnauthorizedOperation"


@dataclass
class InstanceStatusSource:
    """Reads the checks and puts notices about instances of Machines into the backlog."""

    settings: InterruptionSettings
    statuses: InstanceStatuses
    backlog: Backlog
    directory: Directory
    clock: Clock
    metrics: Metrics
    stopped: bool = False
    """The role may not read them, which was logged."""
    problem: str = ""
    failures: int = 0
    """In a row."""
    last_progress: float = 0.0
    _since: dict[Name, float] = field(default_factory=dict)
    _passing: dict[str, float] = field(default_factory=dict)
    """Instance -> since when it passes its checks, while its node is still closed."""
    _counted: set[Name] = field(default_factory=set)

    def progress(self) -> float:
        """Monotonic time of the last answer; now while there is none to wait for."""
        waits = self.stopped or self.settings.instance_status_period > OFTEN_SECONDS
        return self.clock.monotonic() if waits else self.last_progress

    def complaint(self) -> str:
        """Why the statuses cannot be relied on, for /readyz. One failure is the network's; a refusal is a choice."""
        if self.stopped or self.failures <= MOST_FAILURES:
            return ""
        return f"instance statuses cannot be read, {self.failures} times in a row: {self.problem}"

    async def run(self, stop: asyncio.Event) -> None:
        """Read until ``stop``, or until EC2 says that the role may not."""
        await run_until(
            stop, self.directory.loaded()
        )  # without the mirror no instance would belong to a Machine
        while not stop.is_set() and not self.stopped:
            period = self.settings.instance_status_period
            if period <= 0 or await self._ask():
                self.last_progress = self.clock.monotonic()
            await pause(stop, period or OFF_PAUSE_SECONDS)
        await stop.wait()

    async def _ask(self) -> bool:
        """Whether EC2 answered."""
        try:
            await self.check(await self.statuses.problems())
        except DovetailError as error:
            refused = isinstance(error, Unauthorized) and error.context.get("code") == DENIED
            self.stopped = refused
            self.failures += 1
            self._report_problem(error)
            return False
        self.problem, self.failures = "", 0
        return True

    def _report_problem(self, error: DovetailError) -> None:
        if error.message != self.problem:
            log.error("cannot read instance statuses", problem=error.message, gives_up=self.stopped)
        self.problem = error.message

    async def check(self, problems: tuple[StatusProblem, ...]) -> None:
        """Put notices about what EC2 says now; instances without a Machine are passed by."""
        now = self.clock.now()
        ours = [one for one in problems if self.directory.count([one.instance])]
        self._since = first_seen(ours, self._since, now=now)
        found = serious(ours, self._since, now=now)
        self._count(found)
        for one in found:
            notice = notice_of(one, self._since[name_of(one)], now=now)
            await self.backlog.put(Entry(notice), rank(notice, 1))
        self._passing = passing_since(self.directory.impaired(), ours, self._passing, now=now)
        over = called_off(self.directory.scheduled(), found, now=now)
        for notice in (*over, *healed(self._passing, now=now)):
            await self.backlog.put(Entry(notice), rank(notice, 1))

    def _count(self, found: list[StatusProblem]) -> None:
        """INT-31: once per instance and category while it lasts."""
        names = {name_of(one) for one in found}
        for _, category in names - self._counted:
            self.metrics.instances_unhealthy.labels(category).inc()
        self._counted = names
