"""``POST /explain`` about a plan: what its machines would cost by each packing policy, on the inputs of that moment.

Plans again in a process of its own, one question at a time, and only for plans whose inputs are still kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from services.scheduler.state.plan_inputs import MOST_PLANS, PlanInputs, RecentInputs
from services.scheduler.status.one_at_a_time import OneAtATime
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.policies import plans_by_policy
from shared.solver.plan import Plan

BOUNDS = Bounds("the explanation", seconds=60.0, memory_bytes=1024 << 20, niceness=10)


@dataclass
class DecisionExplainer:
    """Answers about one plan at a time."""

    inputs: RecentInputs
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "another decision is being explained; try again when it is done"
        ),
        init=False,
    )

    async def answer(self, plan_id: str) -> Answer:
        """Costs in US dollars an hour by policy; 404 for a plan whose inputs are not kept, 429 while busy."""
        return await self._turn.answer(partial(self._answer, plan_id))

    async def _answer(self, plan_id: str) -> Answer:
        inputs = self.inputs.of(plan_id)
        if inputs is None:
            text = (
                f"the inputs of {plan_id[:100]!r} are not kept; "
                f"this scheduler keeps those of its latest {MOST_PLANS} plans that bought machines"
            )
            return json_answer(404, {"error": text})
        return await in_child(answer_request, inputs, self.bounds)


def answer_request(inputs: PlanInputs) -> Answer:
    """The body of the computing process."""
    plans = plans_by_policy(inputs.snapshot, inputs.settings, now=inputs.now, moving=inputs.moving)
    return json_answer(200, {"policies": {name: _summary(plan) for name, plan in plans.items()}})


def _summary(plan: Plan) -> dict[str, Any]:
    return {
        "cost": plan.cost_micro_usd_per_hour / 1e6,
        "machines": len(plan.machines),
        "unplaced": len(plan.unschedulable),
    }
