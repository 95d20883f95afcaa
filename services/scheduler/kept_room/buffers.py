"""Writes the status of CapacityBuffers, and remembers where the last plan put their virtual pods (GAT-02).

Each turn compares what the mirror shows with what it should show and writes the difference, so a lost write or a
restart is mended by the next turn. What may go wrong: another autoscaler follows the same objects; then both write.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from services.scheduler.kept_room.buffer_status import Outcome, desired_status, outcomes_of
from services.scheduler.state.cluster import View
from shared.api.core.autoscaling.capacity_buffers import status_object
from shared.concurrency.clock import Clock
from shared.domain.machines.machine import Condition
from shared.domain.records import CAPACITY_BUFFERS as RECORDS
from shared.domain.records import POD_TEMPLATES
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.capacity_buffers import CapacityBuffer
from shared.domain.workloads.virtual_pods import Resolution, resolved
from shared.errors import Conflict, InvalidObject, NotFound, TransientError
from shared.kube.client import Kube
from shared.kube.resources import CAPACITY_BUFFERS
from shared.log import get_logger
from shared.metrics import Metrics
from shared.redis.mirror.pending_writes import PendingWrites
from shared.solver.plan import Plan

log = get_logger(__name__)

CHECK_SECONDS = 2.0
STATES = ("ready", "starting", "unplaced")
MIRROR_LAG_SECONDS = 10.0
"""By then the mirror must show a status; if it does not, it is written again."""


@dataclass
class Buffers:
    """``noted`` is called with every plan, ``step`` now and then."""

    kube: Kube
    view: View
    clock: Clock
    metrics: Metrics
    _outcomes: Mapping[str, Outcome] = field(default_factory=dict)
    """By UID of the buffer."""
    _measured: set[tuple[str, str]] = field(default_factory=set)
    """Namespace and name of those that have a gauge."""
    _written: PendingWrites[str, tuple[object, ...]] = field(default_factory=PendingWrites)
    """UID -> what was written."""

    def noted(self, plan: Plan, snapshot: Snapshot) -> None:
        """A plan was made of this snapshot, virtual pods included."""
        self._outcomes = outcomes_of(plan, snapshot)

    @property
    def all_fit(self) -> bool:
        """Did the last plan find room on nodes that run for every virtual pod?"""
        return not any(one.starting or one.unplaced for one in self._outcomes.values())

    async def step(self) -> None:
        """Bring the status of every buffer up to date. One that cannot be written does not stop the others."""
        buffers = [one for one in self.view.records(RECORDS).values() if one.is_active]
        self._measure(buffers)
        if not buffers:
            return
        templates = self.view.records(POD_TEMPLATES)
        for buffer in buffers:
            try:
                await self._write(resolved(buffer, templates))
            except (NotFound, Conflict, InvalidObject) as error:
                log.debug("status overtaken by a change", buffer=buffer.key, error=error.message)
            except TransientError as error:
                log.warning("status waits", buffer=buffer.key, error=error.message)

    def _measure(self, buffers: list[CapacityBuffer]) -> None:
        gauge = self.metrics.capacity_buffer_pods
        names = {(buffer.namespace, buffer.name) for buffer in buffers}
        for gone in self._measured - names:
            for state in STATES:
                with suppress(KeyError):  # another scheduler led meanwhile
                    gauge.remove(*gone, state)
        self._measured = names
        for buffer in buffers:
            outcome = self._outcomes.get(buffer.uid, Outcome())
            for state in STATES:
                gauge.labels(buffer.namespace, buffer.name, state).set(getattr(outcome, state))

    async def _write(self, found: Resolution) -> None:
        buffer, now = found.buffer, self.clock.monotonic()
        outcome = self._outcomes.get(buffer.uid)
        shown, conditions = desired_status(found, outcome, now=self.clock.now())
        content = _content(shown, conditions)
        if content in (
            _content(buffer.shown, buffer.conditions),
            self._written.get(buffer.uid, now=now),
        ):
            return
        stored = await self.kube.get(CAPACITY_BUFFERS, buffer.name, buffer.namespace)
        version = stored["metadata"]["resourceVersion"]
        patch = {
            "metadata": {"uid": buffer.uid, "resourceVersion": version},
            "status": status_object(shown, conditions),
        }
        await self.kube.patch(
            CAPACITY_BUFFERS, buffer.name, patch, buffer.namespace, subresource="status"
        )
        self._written.note(buffer.uid, content, now=now, most_seconds=MIRROR_LAG_SECONDS)


def _content(
    shown: Mapping[str, str | int], conditions: Mapping[str, Condition]
) -> tuple[object, ...]:
    """What two equal statuses have in common: all but the times."""
    found = {n: (c.status, c.reason, c.message, c.generation) for n, c in conditions.items()}
    return (dict(shown), found)
