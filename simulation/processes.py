"""Simulated processes: services that are started, terminated, killed and paused as an operating system does it.

A killed process runs nothing more: its tasks are never resumed and never cleaned up, its kernel closes its connections.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from shared.concurrency.clock import SystemClock
from shared.runtime import services as runtime
from shared.runtime.environment import Entry, running_services
from simulation.loop import SimulatedLoop
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner

RESTART_SECONDS = (0.5, 5.0)
"""How long the kubelet takes to restart a process, by the seed."""
KILL_AFTER_SECONDS = 30.0
"""From SIGTERM to SIGKILL, as Kubernetes' default grace period."""
Record = Callable[..., None]


class SimulatedProcess:
    """One replica of one service. ``on_event`` gets (name, what)."""

    def __init__(
        self,
        name: str,
        entry: Entry[Any],
        loop: SimulatedLoop,
        network: Network,
        on_event: Callable[[str, str], None],
    ) -> None:
        self.name, self.entry = name, entry
        self._loop, self._network, self._on_event = loop, network, on_event
        self.owner = Owner(name)
        self.owner.alive = False
        self.services: Sequence[runtime.Service] = ()
        self.starts = 0
        self.ended: list[Owner] = []
        """Earlier starts: if their tasks were collected, the ``finally`` blocks of a killed process would run."""
        self.is_wanted = False
        """Whether the kubelet restarts it when it ends."""

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.owner.alive

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self.owner.alive:
            return
        skew = self.owner.skew_seconds
        self.owner = Owner(self.name, self.starts)
        self.owner.skew_seconds = skew
        self.starts += 1
        self.is_wanted = True
        self.services = ()
        context = copy_context()
        context.run(CURRENT.set, self.owner)
        self._on_event(self.name, "start")
        self._loop.create_task(self._main(self.owner), context=context)

    async def _main(self, owner: Owner) -> None:
        outcome = "exit"
        try:
            async with running_services([self.entry]) as services:
                self.services = services
                pages = runtime.Loop("pages", runtime.until_stopped)
                await runtime.run(services, pages, clock=SystemClock())
        except Exception as error:  # noqa: BLE001  # the end of a process
            outcome = f"exit with an error: {_described(error)}"
        self._ended(owner, outcome)

    def _ended(self, owner: Owner, outcome: str) -> None:
        """The process ended by itself."""
        if self.owner is owner:
            self._end(outcome)

    def _end(self, what: str) -> None:
        owner = self.owner
        self._loop.kill(owner)
        self._network.kill(owner)
        self.ended.append(owner)
        self._on_event(self.name, what)

    def kill(self) -> None:
        """SIGKILL."""
        if self.owner.alive:
            self._end("kill")

    def kill_after(self, callbacks: int) -> None:
        """SIGKILL after that many further callbacks of the process: between two awaits of any of its tasks."""
        self.owner.budget, self.owner.exhausted = callbacks, self.kill

    def terminate(self) -> None:
        """SIGTERM, and SIGKILL after the grace period."""
        owner = self.owner
        if not owner.alive:
            return
        self._on_event(self.name, "terminate")
        handler = owner.signals.get(signal.SIGTERM)
        if handler is None:
            self._end("terminated")
            return
        context = copy_context()
        context.run(CURRENT.set, owner)
        self._loop.call_soon(handler, context=context)
        self._loop.call_later(KILL_AFTER_SECONDS, self._kill_if_running, owner)

    def _kill_if_running(self, owner: Owner) -> None:
        if self.owner is owner and owner.alive:
            self.kill()

    def pause(self, seconds: float) -> None:
        """SIGSTOP, and SIGCONT after ``seconds``."""
        owner = self.owner
        if not owner.alive:
            return
        self._on_event(self.name, "pause")
        self._loop.pause(owner)
        self._loop.call_later(seconds, self._resume, owner)

    def _resume(self, owner: Owner) -> None:
        self._loop.resume(owner)
        if owner.alive:
            self._on_event(self.name, "continue")

    def skew(self, seconds: float) -> None:
        """Set the wall clock of the process ahead by ``seconds``."""
        self.owner.skew_seconds = seconds
        self._on_event(self.name, f"clock {seconds:+g} s")

    def end_loop(self, choice: float) -> None:
        """End one supervised loop, whose supervisor is cancelled too. ``choice`` from 0 to 1 chooses it."""
        running = self.supervisors()
        if running:
            name = sorted(running)[int(choice * len(running))]
            self._on_event(self.name, f"loop {name} ends")
            running[name].cancel()

    def supervisors(self) -> dict[str, asyncio.Task[Any]]:
        """The tasks that supervise the loops, by the name of the loop."""
        tasks = {task.get_name(): task for task in self.unfinished()}
        return {one.name: tasks[one.name] for one in self.loops() if one.name in tasks}

    def loops(self) -> list[runtime.Loop]:
        """The loops of the running process; none while it starts."""
        return [loop for service in self.services for loop in service.loops]

    def unready(self) -> list[str]:
        """Why the process is not ready; empty when it says that it is."""
        if not self.owner.alive:
            return ["the process does not run"]
        if not self.services:
            return ["the process starts"]
        now = self._loop.time()
        return [reason for service in self.services for reason in service.unready(now)]

    def status(self) -> dict[str, object]:
        """What the service says of itself."""
        return dict(self.services[0].status()) if self.services else {}

    def unfinished(self) -> list[asyncio.Task[Any]]:
        """Tasks of the running process."""
        return self.owner.unfinished()


class Kubelet:
    """Restarts processes that ended."""

    def __init__(self, loop: SimulatedLoop, random: Any) -> None:
        self._loop, self._random = loop, random

    async def run(self, processes: Sequence[SimulatedProcess]) -> None:
        """Look at every process once a second."""
        while True:
            await asyncio.sleep(1.0)
            for process in processes:
                if process.is_wanted and not process.alive:
                    shortest, longest = RESTART_SECONDS
                    await asyncio.sleep(self._random.uniform(shortest, longest))
                    process.start()


def _described(error: BaseException) -> str:
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(_described(one) for one in error.exceptions)
    return f"{type(error).__name__}: {error}"
