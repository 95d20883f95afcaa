"""The end of a machine as a trace: what ordered it, the drain of its node, and the end of its instance.

It is no part of the trace in which the machine was made, because a machine lives for days; it links to that.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.concurrency.clock import Clock
from shared.domain import labels as keys
from shared.domain.machines.machine import DRAINED, INSTANCE_TERMINATING, Machine
from shared.domain.nodes import provider_instance_id
from shared.runtime.tracing import Tracer

MOST_ORDERS = 20_000


@dataclass
class TerminationTraces:
    """``ordered`` with each message; ``ended`` records a termination that is over, ``forget`` one that never came."""

    tracer: Tracer
    clock: Clock
    _orders: dict[str, str] = field(default_factory=dict)
    """Machine key -> traceparent of the message that ordered its end."""

    def ordered(self, key: str, traceparent: str) -> None:
        """A message about this machine; the first one that belongs to a trace counts."""
        if traceparent and len(self._orders) < MOST_ORDERS:
            self._orders.setdefault(key, traceparent)

    def forget(self, key: str) -> None:
        """The machine is gone."""
        self._orders.pop(key, None)

    def ended(self, machine: Machine) -> None:
        """Our finalizer was taken off. The times are those of the machine's conditions: whole seconds."""
        if not self.tracer.enabled:
            return
        now, made = self.clock.now(), machine.annotations.get(keys.TRACE_ANNOTATION, "")
        began = machine.deleted_at or now
        whole = self.tracer.record(
            "terminate machine",
            parent=self._orders.get(machine.key, ""),
            links=[made] if made else (),
            start=began,
            end=now,
            machine=machine.name,
            pool=machine.pool,
        )
        ending = machine.conditions.get(INSTANCE_TERMINATING)
        self._drain(machine, whole, began, ending.since if ending else now)
        if ending:
            instance = provider_instance_id(machine.provider_id)
            self.tracer.record(
                "end instance", parent=whole, start=ending.since, end=now, instance=instance
            )

    def _drain(self, machine: Machine, whole: str, began: float, ended: float) -> None:
        """A drain that the grace period cut off ends with the instance, as an error."""
        drain = machine.conditions.get(DRAINED)
        if drain is None:
            return
        done = machine.has(DRAINED)
        self.tracer.record(
            "drain node",
            parent=whole,
            start=began,
            end=drain.since if done else ended,
            error="" if done else "not drained when the instance was ended",
            node=machine.node_name,
        )
