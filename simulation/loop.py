"""An asyncio event loop with virtual time, a seeded order of processes and connections in memory.

Time passes only when no callback can run: then it jumps to the next timer. Within one process callbacks run in the
order in which they were scheduled, as asyncio promises; which process runs next is drawn from the seed. Executors run
their function inline and deliver the result after a simulated time. The loop opens no socket and starts no thread.
"""

from __future__ import annotations

import asyncio
import heapq
import socket
from asyncio import events
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from itertools import count
from random import Random
from typing import Any, TypeVarTuple
from weakref import WeakKeyDictionary

from simulation.network.connections import Address, Network, SimulatedServer
from simulation.owner import CURRENT, Owner

Arguments = TypeVarTuple("Arguments")
START_SECONDS = 1_000.0
EXECUTOR_SECONDS = (0.0002, 0.005)
"""Shortest and longest simulated time of a call in an executor."""
TIMER_LATENESS_SECONDS = 0.0005
"""Longest delay of a timer after its time, which shuffles timers of one instant."""


class Stuck(RuntimeError):
    """Nothing can run and no timer is set, although the run has not ended."""


class _Handle(events.Handle):
    """A handle that is made in a third of the time: this loop has no debug mode."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled = False
        self._repr = self._source_traceback = None


class _Timer(events.TimerHandle):
    """The same for a timer."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        self._callback, self._args, self._loop, self._context = callback, args, loop, context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None
        self._when = when


class SimulatedTask(asyncio.Task[Any]):
    """A task whose hash does not depend on its address: asyncio keeps tasks in sets and iterates over them."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimulatedFuture(asyncio.Future[Any]):
    """A future whose hash does not depend on its address."""

    number = 0

    def __hash__(self) -> int:
        return self.number


class SimulatedLoop(asyncio.BaseEventLoop):
    """``random`` decides which process runs next and how long executors and timers take."""

    def __init__(self, random: Random, network: Network) -> None:
        super().__init__()
        self._now = START_SECONDS
        self._random = random
        self._network = network
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Owner]] = []
        self._numbers = count(1)
        self._world = Owner("world")
        self._active: list[Owner] = []
        """Owners with ready callbacks that may run."""
        self._connecting: WeakKeyDictionary[socket.socket, Address] = WeakKeyDictionary()
        self.steps = 0
        """How many callbacks ran."""
        self.failure: BaseException | None = None
        """Set by ``fail``; the run ends with it."""
        self.set_task_factory(self._task)
        network.attach(self)

    # Time and callbacks

    def time(self) -> float:
        """Virtual monotonic seconds."""
        return self._now

    def call_soon(
        self,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.Handle:
        """Schedule ``callback`` for its owner, which the context names."""
        if context is None:
            context = copy_context()
        handle = _Handle(callback, args, self, context)
        owner = context.get(CURRENT) or self._world
        if owner.alive:
            if not owner.ready and not owner.paused:
                self._active.append(owner)
            owner.ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # There is one thread.

    def call_at(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule ``callback`` for the virtual time ``when``."""
        if context is None:
            context = copy_context()
        timer = _Timer(when, callback, args, self, context)
        due = when if when > self._now else self._now
        due += self._random.random() * TIMER_LATENESS_SECONDS
        owner = context.get(CURRENT) or self._world
        heapq.heappush(self._timers, (due, next(self._numbers), timer, owner))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule ``callback`` after ``delay`` virtual seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_exactly(
        self,
        when: float,
        callback: Callable[[*Arguments], object],
        *args: *Arguments,
        context: Context,
    ) -> None:
        """As ``call_at``, but never late: deliveries of one connection keep their order."""
        timer = _Timer(when, callback, args, self, context)
        due = when if when > self._now else self._now
        owner = context.get(CURRENT) or self._world
        heapq.heappush(self._timers, (due, next(self._numbers), timer, owner))

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are dropped when they become due."""

    def _run_once(self) -> None:
        """Run callbacks until the loop stops: nothing else is to be done between them."""
        active, random = self._active, self._random.random
        while not self._stopping:  # type: ignore[attr-defined]  # BaseEventLoop.stop sets it
            if not active:
                self._advance()
                continue
            index = int(random() * len(active)) if len(active) > 1 else 0
            owner = active[index]
            handle = owner.ready.popleft()
            if not owner.ready:
                active[index] = active[-1]
                active.pop()
            if handle._cancelled:
                continue
            self.steps += 1
            try:
                handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # asyncio's own
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001  # as asyncio's Handle does
                context = {"message": f"Exception in callback {handle!r}", "exception": error}
                self.call_exception_handler(context)
            if owner.budget is not None:
                self._spend(owner)

    def _spend(self, owner: Owner) -> None:
        owner.budget = (owner.budget or 0) - 1
        if owner.budget <= 0 and owner.exhausted is not None:
            owner.budget = None
            owner.exhausted()

    def _advance(self) -> None:
        """Jump to the next timer and make it ready. No callback is ready now."""
        while self._timers:
            due, _, timer, owner = heapq.heappop(self._timers)
            if timer._cancelled:
                continue
            if due > self._now:
                self._now = due
            if owner.alive:
                if not owner.ready and not owner.paused:
                    self._active.append(owner)
                owner.ready.append(timer)
            return
        raise Stuck("nothing can run and no timer is set")

    # Owners

    def owner(self, context: Context | None = None) -> Owner:
        """The owner of what runs now, or of ``context``."""
        found = CURRENT.get() if context is None else context.get(CURRENT)
        return found or self._world

    def pause(self, owner: Owner) -> None:
        """Stop running callbacks of ``owner``; they stay in order."""
        owner.paused = True
        if owner in self._active:
            self._active.remove(owner)

    def resume(self, owner: Owner) -> None:
        """Run the callbacks of ``owner`` again."""
        owner.paused = False
        if owner.alive and owner.ready and owner not in self._active:
            self._active.append(owner)

    def kill(self, owner: Owner) -> None:
        """No callback of ``owner`` runs any more; its tasks stay where they are, and nothing is cleaned up."""
        owner.alive = False
        owner.kept = owner.unfinished()
        owner.ready.clear()
        if owner in self._active:
            self._active.remove(owner)

    # Tasks, futures, executors

    def _task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> SimulatedTask:
        number = next(self._numbers)
        context = options.get("context")
        owner = self.owner(context)
        SimulatedTask.number = number  # The base class hashes the task inside __init__.
        task = SimulatedTask(coroutine, loop=loop, **options)
        task.number = number
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a killed process leaves its tasks
        owner.started(task)
        return task

    def create_future(self) -> asyncio.Future[Any]:
        """A future of this loop."""
        future = SimulatedFuture(loop=self)
        future.number = next(self._numbers)
        return future

    def run_in_executor(  # type: ignore[override]
        self, executor: object, function: Callable[..., Any], *arguments: Any
    ) -> asyncio.Future[Any]:
        """Run the function inline, in a callback of its own; its result arrives later."""
        future = self.create_future()
        self.call_soon(self._execute, future, function, arguments)
        return future

    def _execute(
        self, future: asyncio.Future[Any], function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        if future.cancelled():
            return
        shortest, longest = EXECUTOR_SECONDS
        delay = shortest + self._random.random() * (longest - shortest)
        try:
            result = function(*arguments)
        except Exception as error:  # noqa: BLE001  # the caller gets every error
            self.call_later(delay, _settle, future, error, True)
        else:
            self.call_later(delay, _settle, future, result, False)

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """There is none."""

    # Signals and failures

    def add_signal_handler(
        self, sig: int, callback: Callable[[*Arguments], object], *args: *Arguments
    ) -> None:
        """The handler of the current simulated process."""
        self.owner().signals[sig] = lambda: callback(*args)

    def remove_signal_handler(self, sig: int) -> bool:
        """Whether there was a handler."""
        return self.owner().signals.pop(sig, None) is not None

    def fail(self, error: BaseException) -> None:
        """End the run with ``error``."""
        self.failure = self.failure or error
        self.stop()

    # The network

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> list[Any]:
        """Every name is an address already."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, int(port or 0)))]

    async def sock_connect(self, sock: socket.socket, address: Any) -> None:
        """Connect in the simulated network; ``create_connection`` with this socket uses the connection."""
        await self._network.reach(self.owner(), (address[0], address[1]))
        self._connecting[sock] = (address[0], address[1])

    async def create_connection(
        self,
        protocol_factory: Callable[[], Any],
        host: str | None = None,
        port: int | None = None,
        *,
        sock: socket.socket | None = None,
        **_options: Any,
    ) -> tuple[Any, Any]:
        """Connect to a server of the simulated network. Raises ConnectionRefusedError and what ``reach`` raises."""
        if sock is not None:
            address = self._connecting.pop(sock)
            sock.close()
        else:
            address = (str(host), int(port or 0))
            await self._network.reach(self.owner(), address)
        return self._network.connect(self.owner(), address, protocol_factory())

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int, **_options: Any
    ) -> SimulatedServer:
        """Accept connections at an address of the simulated network."""
        return self._network.listen(self.owner(), (host, port), protocol_factory)

    def _process_events(self, event_list: list[Any]) -> None:
        """There are no file descriptors."""

    def _write_to_self(self) -> None:
        """There is no other thread."""


def _settle(future: asyncio.Future[Any], outcome: Any, failed: bool) -> None:
    if future.done():
        return
    if failed:
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def run(loop: SimulatedLoop, work: Awaitable[Any]) -> Any:
    """The result of ``work``, or the loop's failure. Unlike asyncio.run it cleans up nothing at the end."""
    task = asyncio.ensure_future(work, loop=loop)
    task.add_done_callback(lambda _: loop.stop())
    try:
        loop.run_forever()
    finally:
        loop.close()
    if loop.failure is not None:
        raise loop.failure
    return task.result()
