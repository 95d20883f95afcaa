"""CreateFleet in the traces of its machines: one span in each trace, because a call may serve several plans."""

from __future__ import annotations

from collections.abc import Iterable

from services.launcher.launch.unavailable_offerings import reasons_of
from services.launcher.ports import Ports
from shared.cloud.ec2.records import FleetResult
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.redis.bus.trace_context import trace_id
from shared.runtime.tracing.tracer import MOST_NAMES

MOST_TRACES = 50


def trace_call(
    ports: Ports,
    machines: Iterable[Machine],
    began: float,
    *,
    result: FleetResult | None,
    error: str,
) -> None:
    """Record a call that ended. ``began``: seconds since the epoch; ``error``: of a call that failed as a whole."""
    if not ports.tracer.enabled:
        return
    now = ports.clock.now()
    instances = result.instances if result else ()
    errors = result.errors if result else ()
    said = error or ("" if instances else reasons_of(errors))
    for group in by_trace(machines)[:MOST_TRACES]:
        first, *others = (machine.annotations[keys.TRACE_ANNOTATION] for machine in group)
        ports.tracer.record(
            "CreateFleet",
            parent=first,
            links=others[:MOST_TRACES],
            start=began,
            end=now,
            error=said,
            machines=[machine.name for machine in group][:MOST_NAMES],
            pools=sorted({machine.pool for machine in group}),
            instances=[one.id for one in instances][:MOST_NAMES],
            errors=sorted({one.code for one in errors}),
        )


def by_trace(machines: Iterable[Machine]) -> list[list[Machine]]:
    """The machines of each trace; those without a trace are left out."""
    found: dict[str, list[Machine]] = {}
    for machine in machines:
        traceparent = machine.annotations.get(keys.TRACE_ANNOTATION, "")
        if traceparent:
            found.setdefault(trace_id(traceparent), []).append(machine)
    return list(found.values())
