"""In which trace a plan stands: that of a pod that it gives a machine; it links to the traces of the others.

A pod's trace is kept while the pod waits: often the first plan has no place for it, and a later one does, which no
message asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from shared.domain.workloads.pods import Pod
from shared.runtime.tracing import OFF, Span, Tracer
from shared.solver.plan import Plan, PlannedMachine

MOST_PODS = 20_000
MOST_LINKS = 100


@dataclass
class PlanTrace:
    """``note`` each message about a pod; ``plan`` is the span of what is done about a plan."""

    tracer: Tracer
    _of_pods: dict[str, str] = field(default_factory=dict)
    """UID -> traceparent, of pods that wait."""
    _planned: set[str] = field(default_factory=set)
    """UIDs of those whose first plan is in their trace."""

    def note(self, uid: str, traceparent: str) -> None:
        """This pod waits; its trace is "" without tracing."""
        if traceparent and len(self._of_pods) < MOST_PODS:
            self._of_pods[uid] = traceparent

    def plan(
        self, plan: Plan, desired: Sequence[PlannedMachine], waiting: Sequence[Pod], *, start: float
    ) -> AbstractContextManager[Span]:
        """``desired``: the machines to create. ``start``: when the planning began, in seconds since the epoch.

        A plan that creates nothing is recorded once for each pod: pods that wait are planned again every few seconds.
        """
        if not self._of_pods:
            return OFF.span("plan")
        known = {pod.uid: self._of_pods[pod.uid] for pod in waiting if pod.uid in self._of_pods}
        served = [uid for machine in desired for uid in machine.pods if uid in known]
        fresh = [uid for uid in known if uid not in self._planned]
        self._of_pods, self._planned = known, set(known)
        if not (served or fresh):
            return OFF.span("plan")
        first, *others = dict.fromkeys(known[uid] for uid in (*served, *fresh))
        return self.tracer.span(
            "plan",
            parent=first,
            links=others[:MOST_LINKS],
            start=start,
            plan=plan.id,
            pods=len(waiting),
            machines=len(desired),
            unschedulable=len(plan.unschedulable),
        )
