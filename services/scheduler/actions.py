"""What the scheduler does to Machines, whatever the reason: create, request the launch, delete, request the
termination.

The object is written to the API server before the message is sent. A message that gets lost costs time and no work: the
launcher and the terminator list what there is to do themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from services.scheduler.state.cluster import View
from services.scheduler.state.obstacles import Obstacles
from shared.api.core.references import to_pool
from shared.api.v1.node_claims import planned_object
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.domain.pools.nodepools import NodePool
from shared.domain.snapshot import Snapshot
from shared.errors import AlreadyExists, DovetailError, TransientError, Unavailable
from shared.kube.machines import Machines, Stored
from shared.redis import streams
from shared.redis.messages import LaunchMachine, TerminateMachine, send
from shared.redis.mirror.pending_writes import PendingWrites
from shared.runtime.environment import Environment
from shared.runtime.leadership import Leadership
from shared.runtime.tracing import Span
from shared.runtime.tracing.tracer import MOST_NAMES
from shared.settings import SchedulerSettings
from shared.solver.plan import PlannedMachine

REFUSED_SECONDS = 300.0
"""Between two events of one pool with the same refusal."""


@dataclass
class MachineActions:
    """Writes Machines and remembers what the mirror does not show of it yet."""

    env: Environment[SchedulerSettings]
    view: View
    machines: Machines
    leadership: Leadership
    _deleted: PendingWrites[str, None] = field(default_factory=PendingWrites)
    """By UID."""
    obstacles: Obstacles = field(init=False)

    def __post_init__(self) -> None:
        self.obstacles = Obstacles(self.env.clock)

    async def create(
        self,
        planned: PlannedMachine,
        snapshot: Snapshot,
        *,
        plan: str,
        reason: str,
        annotations: Mapping[str, str] | None = None,
    ) -> Machine:
        """Write one Machine, which is not launched yet. Raises AlreadyExists and other DovetailErrors."""
        with self._span(planned, plan, reason) as span:
            pool, body = self._body(planned, snapshot, plan, span.traceparent)
            body["metadata"].setdefault("annotations", {}).update(annotations or {})
            self._fence()
            return self._note(await self._written(body, pool), planned, pool, reason)

    async def create_or_adopt(
        self, planned: PlannedMachine, snapshot: Snapshot, *, plan: str, reason: str
    ) -> Machine:
        """As ``create``, but a Machine of this name will do that a crashed scheduler created, unless it terminates."""
        with self._span(planned, plan, reason) as span:
            pool, body = self._body(planned, snapshot, plan, span.traceparent)
            self._fence()
            try:
                stored = await self._written(body, pool)
            except AlreadyExists:
                stored = await self.machines.stored(key_of(planned))
                if stored.machine.terminating:
                    raise
            return self._note(stored, planned, pool, reason)

    async def _written(self, body: dict[str, Any], pool: NodePool) -> Stored:
        """The Machine as stored. Raises DovetailErrors; a refusal that stays becomes an event of the pool, since its
        pods wait and nothing else says why: a policy of the cluster, or a lack of rights."""
        try:
            return await self.machines.create(body)
        except (AlreadyExists, TransientError):
            raise
        except DovetailError as error:
            name = str(body["metadata"]["name"])
            text = f"no {pool.api.machine_kind} of it can be created: {error.message}"
            text = text.replace(name, "NAME")
            self.obstacles.refused(pool.key, text)
            await self.env.recorder.publish(
                to_pool(pool), "Warning", "MachineRefused", text, dedupe_seconds=REFUSED_SECONDS
            )
            raise

    def _fence(self) -> None:
        """Raises Unavailable for a former leader: it may have been stopped since it decided this (F14)."""
        # Right before the write: between this look and a request that is sent nothing else runs.
        if not self.leadership.held:
            raise Unavailable("another scheduler may lead by now: the lease is not held any more")

    def _span(
        self, planned: PlannedMachine, plan: str, reason: str
    ) -> AbstractContextManager[Span]:
        return self.env.tracer.span(
            "create machine",
            machine=planned.name,
            pool=planned.pool_key,
            plan=plan,
            reason=reason,
            pods=list(planned.pods[:MOST_NAMES]),
        )

    def _body(
        self, planned: PlannedMachine, snapshot: Snapshot, plan: str, trace: str
    ) -> tuple[NodePool, dict[str, Any]]:
        """``trace``: the span that creates it, for whoever goes on with it; "" without tracing."""
        pool = next(pool for pool in snapshot.pools if pool.key == planned.pool_key)
        node_class = next(c for c in snapshot.node_classes if c.key == pool.node_class_key)
        epoch = self.leadership.epoch
        body = planned_object(planned, pool, node_class, plan=plan, epoch=epoch)
        if trace:
            body["metadata"].setdefault("annotations", {})[keys.TRACE_ANNOTATION] = trace
        return pool, body

    def _note(
        self, stored: Stored, planned: PlannedMachine, pool: NodePool, reason: str
    ) -> Machine:
        self.view.assume(stored)
        self.obstacles.made(pool.key)
        relaxed = planned.min_values_relaxed
        self.env.metrics.count_created(reason, pool.name, pool.api, relaxed=relaxed)
        return stored.machine

    async def request_launch(self, key: str, cause: str) -> None:
        """Ask the launcher for an instance of the Machine with this key."""
        message = LaunchMachine(machine=key)
        await send(self.env.bus, streams.LAUNCHES, message, cause=cause, clock=self.env.clock)

    async def delete(self, machine: Machine) -> bool:
        """Order its deletion. False when it is gone, or another machine has its name. Raises Unavailable."""
        self._fence()
        if not await self.machines.delete(machine):
            return False
        self._deleted.note(machine.uid, None)
        return True

    def deleted(self, machines: Iterable[Machine]) -> set[str]:
        """UIDs of the machines that we deleted and ``machines``, as the view has them, show as staying."""
        staying = {machine.uid for machine in machines if not machine.terminating}
        return set(self._deleted.unshown(lambda uid, _: uid not in staying))

    async def request_termination(self, machine: Machine, reason: str, cause: str) -> None:
        """Ask the terminator to drain and end a deleted machine."""
        message = TerminateMachine.of(machine, reason)
        with self._ordered(machine, reason, cause):
            await send(
                self.env.bus, streams.TERMINATIONS, message, cause=cause, clock=self.env.clock
            )

    def _ordered(self, machine: Machine, reason: str, cause: str) -> AbstractContextManager[Span]:
        """The first span of the trace of a machine's end."""
        made = machine.annotations.get(keys.TRACE_ANNOTATION, "")
        return self.env.tracer.span(
            "disrupt machine",
            parent="",
            links=[made] if made else (),
            machine=machine.name,
            pool=machine.pool,
            reason=reason,
            decision=cause,
        )


def key_of(planned: PlannedMachine) -> str:
    """The key of the Machine that a planned machine becomes."""
    return f"{planned.api.machine_kind}/{planned.name}"
