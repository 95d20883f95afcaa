"""One run: users act, faults strike, the faults end, and everything promised must come true. In real time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from shared.concurrency.tasks import TaskGroup
from simulation.chaos.logs import unordered_ends, unseen_errors
from simulation.chaos.promises import NO_END, NO_UNSEEN_ERROR, QUEUES, Broken, Promises
from simulation.chaos.scenario import CHAOS
from simulation.chaos.stack import CLUSTER
from simulation.chaos.world import UNREADABLE, ChaosWorld, Observer
from simulation.faults import Fault, end_faults
from simulation.faults.plan import faults_of
from simulation.trace import Event
from simulation.users import Action, UserSettings, perform, plan_users, repeated

PEOPLE = UserSettings(cluster=CLUSTER, actions_per_minute=4.0, most_pods=80, weights=CHAOS.users)
"""A cluster that two cores can carry together with the stack."""
POLL_SECONDS = 5.0
QUEUES_SECONDS = 10.0
ACTION_SECONDS = 60.0
READABLE = "the stack can be read"


@dataclass
class Outcome:
    """The result of one run."""

    actions: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    checks: Counter[str] = field(default_factory=Counter)
    broken: list[Broken] = field(default_factory=list)
    launched: int = 0
    """Instances."""
    quiet_seconds: float | None = None
    """From the end of the faults until everything held; None if it never did."""


@dataclass(frozen=True)
class Limits:
    """How long a run has. ``minutes``: of users and faults, the last one of them calm."""

    minutes: float
    quiet_minutes: float


class Chaos:
    """One run. ``say`` gets a line for everything that happens; ``logs`` returns the log file of a service."""

    def __init__(
        self, world: ChaosWorld, say: Callable[[str], object], logs: Callable[[str], Path]
    ) -> None:
        self._world: Any = world
        self._say, self._logs = say, logs
        self._promises = Promises(world, self._broke)
        self._observer = Observer(world)
        self.outcome = Outcome(checks=self._promises.checks, broken=self._promises.broken)
        world.trace.observe(self._promises.observe)

    async def run(self, limits: Limits, seed: int) -> Outcome:
        """The whole run."""
        actions = plan_users(Random(f"{seed} users"), limits.minutes, PEOPLE)
        faults = faults_of(CHAOS, Random(f"{seed} faults"), limits.minutes)
        async with TaskGroup() as group:
            background = (
                group.create_task(self._observer.follow(Random(f"{seed} watches"))),
                group.create_task(self._look_at_queues()),
            )
            await self._disturb(actions, faults, limits.minutes)
            await asyncio.to_thread(end_faults, self._world)
            self._tell("the faults have ended")
            await self._become_quiet(limits.quiet_minutes * 60)
            await asyncio.to_thread(self._read_logs)
            self.outcome.launched = len(self._world.emulator.inventory.all())
            for task in background:
                task.cancel()
        return self.outcome

    # Users and faults

    async def _disturb(
        self, actions: Sequence[Action], faults: Sequence[Fault], minutes: float
    ) -> None:
        async with TaskGroup() as group:
            group.create_task(self._act("user", actions, self._perform))
            group.create_task(self._act("fault", faults, self._apply))
            group.create_task(asyncio.sleep(minutes * 60))

    async def _act(
        self,
        kind: str,
        entries: Sequence[Any],
        act: Callable[[Any], Coroutine[Any, Any, str]],
    ) -> None:
        async with TaskGroup() as group:
            for entry in entries:
                await asyncio.sleep(max(0.0, entry.at_seconds - self._world.elapsed))
                group.create_task(self._do(kind, entry, act))

    async def _do(
        self, kind: str, entry: Any, act: Callable[[Any], Coroutine[Any, Any, str]]
    ) -> None:
        self._world.trace.add(kind, what=entry.text)
        try:
            async with asyncio.timeout(ACTION_SECONDS):
                outcome = await act(entry)
        except UNREADABLE as error:
            outcome = f"failed: {type(error).__name__} {error}"
        self._tell(f"{entry.text}{': ' * bool(outcome)}{outcome}")

    async def _perform(self, action: Action) -> str:
        self.outcome.actions += 1
        return await repeated(action, partial(perform, action, self._world))

    async def _apply(self, fault: Fault) -> str:
        self.outcome.faults[fault.kind] += 1
        await fault.apply(self._world)
        return ""

    # Promises

    async def _look_at_queues(self) -> None:
        while True:
            await asyncio.sleep(QUEUES_SECONDS)
            event = Event(0, self._world.elapsed, QUEUES, {})
            try:
                found = await asyncio.to_thread(self._promises.queues, event)
            except UNREADABLE:
                continue  # Redis is away.
            for promise, sentences in found.items():
                self._promises.judge(promise, sentences)

    async def _become_quiet(self, seconds: float) -> None:
        begun, shown = self._world.elapsed, ""
        while missing := await self._missing():
            if self._world.elapsed - begun > seconds:
                for promise, sentences in missing.items():
                    self._promises.judge(promise, sentences)
                return
            promise, sentences = next(iter(missing.items()))
            if (text := f"not yet: {promise}: {sentences[0]}") != shown:
                self._tell(shown := text)
            await asyncio.sleep(POLL_SECONDS)
        self.outcome.quiet_seconds = self._world.elapsed - begun
        self._tell(f"everything holds after {self.outcome.quiet_seconds:.0f} s")

    async def _missing(self) -> dict[str, list[str]]:
        try:
            await self._observer.read_all()
            return await asyncio.to_thread(self._promises.missing)
        except UNREADABLE as error:
            return {READABLE: [f"{type(error).__name__}: {error}"]}

    def _read_logs(self) -> None:
        for process in self._world.processes.values():
            lines = self._logs(process.name).read_text(errors="replace").splitlines()
            unseen = [f"{process.name}: {line}" for line in unseen_errors(lines)]
            self._promises.judge(NO_UNSEEN_ERROR, unseen)
            ends = unordered_ends(process.name, process.starts, process.ordered, lines)
            self._promises.judge(NO_END, ends)

    def _broke(self, broken: Broken) -> None:
        self._tell("\n".join((str(broken), *(f"    {line}" for line in broken.evidence))))

    def _tell(self, text: str) -> None:
        self._say(f"{self._world.elapsed:8.1f}  {text}")
