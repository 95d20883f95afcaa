"""One run: the world starts, users act, faults happen, the faults end, and everything promised must come true."""

from __future__ import annotations

import asyncio
import gc
import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from local.aws.capacity.bill import pool_of
from local.aws.ec2.instances import Instance
from local.cluster.kubeconfig import write_kubeconfig
from shared.concurrency.tasks import TaskGroup
from shared.kube.client import Kube
from simulation import determinism
from simulation.faults import Fault, end_faults
from simulation.invariants import Liveness, Safety, all_liveness, all_safety
from simulation.invariants.delivery import NEW_GROUP
from simulation.invariants.failures import observe_logs
from simulation.invariants.picture import Picture
from simulation.invariants.quiet import waiting_for_their_turn
from simulation.loop import START_SECONDS, SimulatedLoop, Stuck, run
from simulation.network.connections import Network
from simulation.owner import CURRENT, Owner
from simulation.plan import Plan
from simulation.preparation import ENTRIES
from simulation.processes import Kubelet
from simulation.rest import Missing, come_to_rest
from simulation.servers.aws import AwsServer
from simulation.servers.cluster import ClusterServer
from simulation.servers.redis import REDIS_6, REDIS_7, RedisServer
from simulation.settings import API, AWS, REDIS, RunSettings
from simulation.trace import Event, Trace
from simulation.users import NO_ANSWER, Action, perform, repeated
from simulation.world import (
    TrueClock,
    World,
    processes_of,
    service_environment,
    set_environment,
)

COLLECT_SECONDS = 600.0
"""Reference cycles are collected this often, in simulated time: never in the middle of something else."""
REDIS_6_SHARE = 0.25
"""Of the runs; the others have Redis 7.0."""
ACTION_SECONDS = 60.0
"""The longest time of one action or fault; an API server that is down may refuse it."""


OnBroken = Callable[[World, str, Sequence[str]], object]
"""Gets the world, the name of the broken invariant, and what is wrong."""


class Broken(Exception):
    """An invariant does not hold. ``sentences`` say what is wrong."""

    def __init__(self, invariant: str, sentences: Sequence[str]) -> None:
        super().__init__(f"{invariant}: {'; '.join(sentences)}")
        self.invariant, self.sentences = invariant, list(sentences)


@dataclass
class Outcome:
    """The result of one run. ``broken``: the invariant and what is wrong, None for a sound run."""

    seed: int
    digest: str
    broken: tuple[str, list[str]] | None
    simulated_seconds: float
    cpu_seconds: float
    steps: int
    events: int
    faults: dict[str, int] = field(default_factory=dict)
    last: list[str] = field(default_factory=list)
    """The last events in words; only for a broken run."""


class _Simulation:
    """The parts of one run while it is under way."""

    def __init__(
        self,
        settings: RunSettings,
        plan: Plan,
        write: Callable[[bytes], object] | None,
        on_broken: OnBroken | None,
    ) -> None:
        self.settings, self.plan, self.on_broken = settings, plan, on_broken
        self.network = Network(self._random("network"), self._carried)
        self.loop = SimulatedLoop(self._random("loop"), self.network)
        self.trace = Trace(lambda: self.loop.time() - START_SECONDS, write)
        self.faults: Counter[str] = Counter()
        self.loop.set_exception_handler(self._unseen)
        self.world: World | None = None
        self.safety: list[Safety] = []
        self._by_kind: dict[str, list[Safety]] = {}

    def _random(self, name: str) -> Random:
        return Random(f"{self.settings.seed} {name}")

    async def main(self, directory: Path) -> None:
        """The whole run. Raises Broken."""
        world = self.world = await self._build(directory)
        self._watch(world)
        users = self._as(Owner("users"), self._act(world, self.plan.actions, self._perform))
        faults = self._as(Owner("faults"), self._act(world, self.plan.faults, self._apply))
        kubelet = Kubelet(self.loop, self._random("restarts"))
        for process in world.processes.values():
            process.start()
        self._as(Owner("collector"), self._collect())
        self._as(Owner("kubelet"), kubelet.run(list(world.processes.values())))
        await asyncio.sleep(self.settings.seconds)
        await asyncio.gather(users, faults)
        end_faults(world)
        await self._quiet(world, all_liveness())

    def _carried(self, sender: str, receiver: str, data: bytes) -> None:
        """What is sent is part of the run: a record whose fields change places makes another one. Requests to AWS name
        the real date and what the client can do, in no fixed order."""
        if "aws" not in (sender, receiver):
            self.trace.carry(data)

    def _as(self, owner: Owner, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        context = copy_context()
        context.run(CURRENT.set, owner)
        task = self.loop.create_task(work, context=context)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.fail(error)

    def _unseen(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An error that no code looked at ends the run."""
        error = context.get("exception")
        text = f"{self.loop.owner().name}: {context.get('message')}: {error!r}"
        self.loop.fail(Broken("no error stays unseen", [text]))

    # The world

    async def _build(self, directory: Path) -> World:
        settings, loop = self.settings, self.loop
        clock = TrueClock(loop)
        # Redis 6.2 answers some commands otherwise, most of all those about deleted entries and streams.
        version = REDIS_6 if self._random("redis").random() < REDIS_6_SHARE else REDIS_7
        redis = RedisServer(loop.time, on_command=self._on_command, version=version)
        aws = AwsServer(
            settings,
            clock,
            loop,
            self._random("aws"),
            on_call=self._on_call,
            on_change=self._on_instance,
        )
        cluster = ClusterServer(
            settings, clock, loop, self._random("cluster"), aws, on_change=self._on_object
        )
        await self._as(Owner("redis"), loop.create_server(redis.connection, *REDIS))
        await self._as(Owner("aws"), loop.create_server(aws.connection, *AWS))
        await self._as(Owner("api"), loop.create_server(cluster.connection, *API))
        self._as(Owner("cluster"), cluster.run())
        url = f"http://{API[0]}:{API[1]}"
        cluster.write_kubeconfigs(directory, url)
        write_kubeconfig(directory / "admin", url)
        set_environment(service_environment(directory, settings))
        processes = processes_of(ENTRIES, settings.replicas, loop, self.network, self._on_process)
        kube = await Kube.connect(
            str(directory / "admin"),
            clock=clock,
            random=self._random("users' client"),
            user_agent="users",
        )
        return World(
            settings, loop, clock, self.network, self.trace, redis, cluster, aws, processes, kube
        )

    def _on_command(self, command: str, arguments: list[bytes]) -> None:
        stream = arguments[0].decode("utf-8", "replace").rpartition("}:")[2] if arguments else ""
        group = arguments[1].decode("utf-8", "replace") if command == NEW_GROUP else None
        self.trace.add(
            "redis", command=command, stream=stream, group=group, by=self.loop.owner().name
        )

    def _on_call(self, action: str, code: str | None, by: str) -> None:
        self.trace.add("aws", action=action, code=code, by=by)

    def _on_instance(self, instance: Instance, state: str) -> None:
        self.trace.add(
            "instance", id=instance.instance_id, state=state, **pool_of(instance)._asdict()
        )

    def _on_object(
        self, verb: str, resource: str, namespace: str | None, name: str, by: str
    ) -> None:
        self.trace.add("api", verb=verb, resource=resource, namespace=namespace, name=name, by=by)

    def _on_process(self, name: str, what: str) -> None:
        self.trace.add("process", name=name, what=what)

    def on_log(self, **fields: str | int | None) -> None:
        """A service logged a warning or an error."""
        name = self.loop.owner().name
        if self.world is not None and name in self.world.processes:
            self.trace.add("failure", name=name, **fields)

    async def _collect(self) -> None:
        while True:
            await asyncio.sleep(COLLECT_SECONDS)
            gc.collect()

    # Users and faults

    async def _act(
        self,
        world: World,
        entries: Sequence[Any],
        act: Callable[[World, Any], Coroutine[Any, Any, None]],
    ) -> None:
        async with TaskGroup() as group:
            for entry in entries:
                await asyncio.sleep(max(0.0, entry.at_seconds - world.elapsed))
                group.create_task(act(world, entry))

    async def _perform(self, world: World, action: Action) -> None:
        async def once() -> str:
            self.trace.add("user", what=action.text)
            outcome = NO_ANSWER
            with suppress(TimeoutError):
                async with asyncio.timeout(ACTION_SECONDS):
                    outcome = await perform(action, world)
            self.trace.add("user", what=action.text, outcome=outcome)
            return outcome

        await repeated(action, once)

    async def _apply(self, world: World, fault: Fault) -> None:
        self.faults[fault.kind] += 1
        seconds = fault.lasts_seconds
        self.trace.add("fault", what=fault.text, fault=fault.kind, seconds=seconds)
        async with asyncio.timeout(ACTION_SECONDS):
            await fault.apply(world)

    # Invariants

    def _watch(self, world: World) -> None:
        self.safety = all_safety()
        for invariant in self.safety:
            for kind in invariant.kinds:
                self._by_kind.setdefault(kind, []).append(invariant)
        self.trace.observe(lambda event: self._check(world, event))

    def _check(self, world: World, event: Event) -> None:
        for invariant in self._by_kind.get(event.kind, ()):
            try:
                found = invariant.check(event, world)
            except Exception as error:
                # Events come from within servers, which would answer "internal error" and go on.
                self.loop.fail(error)
                raise
            if found:
                self._break(invariant.name, found)

    def _break(self, name: str, found: Sequence[str]) -> None:
        if self.on_broken is not None and self.world is not None:
            self.on_broken(self.world, name, found)
        self.loop.fail(Broken(name, found))

    async def _quiet(self, world: World, promised: Sequence[Liveness]) -> None:
        """Wait until everything promised holds. Raises Broken."""

        def waiting() -> set[str]:
            return waiting_for_their_turn(Picture().refresh(world).machines(), world.clock.now())

        seconds = self.settings.quiet_seconds
        if missing := await come_to_rest(lambda: _first_missing(world, promised), waiting, seconds):
            self._break(*missing)


def _first_missing(world: World, promised: Sequence[Liveness]) -> Missing | None:
    """The first promise that is not kept, and what is wrong; those that take long to look at come last."""
    for one in promised:
        if found := one.check(world):
            return one.name, found
    return None


def simulate(
    settings: RunSettings,
    plan: Plan,
    write: Callable[[bytes], object] | None = None,
    on_broken: OnBroken | None = None,
) -> Outcome:
    """One run in this process, which must not be used for anything else afterwards.

    ``write`` gets every event as a line of JSON; ``on_broken`` is called where an invariant breaks, before the run
    ends. A fault of the simulation itself is raised.
    """
    gc.disable()
    logging.disable(logging.CRITICAL)
    begun = time.process_time()
    simulation = _Simulation(settings, plan, write, on_broken)
    observe_logs(simulation.on_log)
    loop = simulation.loop
    determinism.install(loop, Random(f"{settings.seed} libraries"))
    asyncio.set_event_loop(loop)
    broken: tuple[str, list[str]] | None = None
    with tempfile.TemporaryDirectory(prefix="dovetail-simulation-") as directory:
        try:
            run(loop, simulation.main(Path(directory)))
        except Broken as error:
            broken = error.invariant, error.sentences
        except Stuck as error:
            broken = "something can always run", [str(error)]
    return Outcome(
        seed=settings.seed,
        digest=simulation.trace.digest,
        broken=broken,
        simulated_seconds=loop.time() - START_SECONDS,
        cpu_seconds=time.process_time() - begun,
        steps=loop.steps,
        events=simulation.trace.number,
        faults=dict(sorted(simulation.faults.items())),
        last=[str(event) for event in list(simulation.trace.last)[-200:]] if broken else [],
    )
