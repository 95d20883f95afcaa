"""From when until when an instance costs money, as its machine says. Pure; times are seconds since the epoch."""

from __future__ import annotations

from shared.domain.machines.machine import INSTANCE_TERMINATING, LAUNCHED, Machine

HOUR = 3600.0


WHOLE_SECOND = 1.0
"""Kubernetes' times are whole seconds, rounded down: the moment was before the next one."""


def launch_of(at: float, machine: Machine) -> float:
    """When its instance was launched. ``at``: when that was seen."""
    launched = machine.conditions.get(LAUNCHED)
    if launched is None or not launched.since:
        return at
    return min(at, max(launched.since + WHOLE_SECOND, machine.created_at))


def end_of(at: float, machine: Machine | None) -> float | None:
    """When its instance was ordered to end, as seen ``at``, or when the object went without that; None: not yet."""
    if machine is None:
        return at
    ended = machine.conditions.get(INSTANCE_TERMINATING)
    if ended is None or ended.status != "True":
        return None
    return min(at, ended.since + WHOLE_SECOND) if ended.since else at
