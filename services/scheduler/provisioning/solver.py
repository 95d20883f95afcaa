"""Computes plans in a thread, as the operator's settings say, within a bound of time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from shared.concurrency.clock import Clock
from shared.domain.pools.usage import Counting
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import SpreadConstraint
from shared.settings import SchedulerSettings
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve

SOLVE_SECONDS = 60.0
"""After this a plan holds what is placed by then (BAT-07)."""


@dataclass(frozen=True)
class Solver:
    """``default_spread`` is for pods without constraints of their own (SCH-85)."""

    settings: SchedulerSettings
    clock: Clock
    default_spread: tuple[SpreadConstraint, ...] = ()

    async def plan(self, snapshot: Snapshot, moving: frozenset[str]) -> Plan:
        """Place the pods that wait and those of ``moving`` (UIDs of pods on terminating nodes)."""
        started = self.clock.monotonic()
        # In a thread: a large plan takes seconds, and the loop must answer probes and renew the Lease meanwhile.
        return await asyncio.to_thread(
            solve,
            snapshot,
            now=self.clock.now(),
            settings=self.options(),
            reschedule=moving,
            time_is_up=lambda: self.clock.monotonic() - started >= SOLVE_SECONDS,
        )

    def options(self) -> SolverSettings:
        """As the settings are now: they may change while the process runs (OPS-04)."""
        return SolverSettings(
            preference_policy=self.settings.preference_policy,
            min_values_policy=self.settings.min_values_policy,
            packing_policy=self.settings.packing_policy,
            effort=self.settings.packing_effort,
            most_node_cpu_milli=self.settings.packing_most_cpu * 1000 or None,
            ignore_device_claims=self.settings.ignore_dra_requests,
            default_spread=self.default_spread,
            counting=Counting(self.settings.limits_count_terminating),
        )
