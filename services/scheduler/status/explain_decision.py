"""``POST /explain`` about a plan or command: what its machines would cost by each packing policy, on the inputs of that
moment.

Plans again in a process of its own, one question at a time, and only for decisions whose inputs are still kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from services.scheduler.state.plan_inputs import (
    MOST_KEPT,
    CommandInputs,
    PlanInputs,
    RecentInputs,
)
from services.scheduler.status.one_at_a_time import OneAtATime
from shared.disruption.simulation import Simulation, removal_by_policy
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer
from shared.simulation.policies import plans_by_policy
from shared.solver.plan import Plan, PlannedMachine

BOUNDS = Bounds("the explanation", seconds=120.0, memory_bytes=1024 << 20, niceness=10)


@dataclass
class DecisionExplainer:
    """Answers about one plan or command at a time."""

    inputs: RecentInputs
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "another decision is being explained; try again when it is done"
        ),
        init=False,
    )

    async def answer(self, decision_id: str) -> Answer:
        """Costs in US dollars an hour by policy; 404 for a decision whose inputs are not kept, 429 while busy."""
        return await self._turn.answer(partial(self._answer, decision_id))

    async def _answer(self, decision_id: str) -> Answer:
        inputs = self.inputs.of(decision_id)
        if inputs is None:
            text = (
                f"the inputs of {decision_id[:100]!r} are not kept; "
                f"this scheduler keeps those of its latest {MOST_KEPT} decisions that bought machines"
            )
            return json_answer(404, {"error": text})
        return await in_child(answer_request, inputs, self.bounds)


def answer_request(inputs: PlanInputs | CommandInputs) -> Answer:
    """The body of the computing process."""
    return json_answer(200, {"policies": _policies(inputs)})


def _policies(inputs: PlanInputs | CommandInputs) -> dict[str, Any]:
    if isinstance(inputs, PlanInputs):
        plans = plans_by_policy(
            inputs.snapshot, inputs.settings, now=inputs.now, moving=inputs.moving
        )
        return {name: _of_plan(plan) for name, plan in plans.items()}
    world, candidates = inputs.world, inputs.candidates
    found = removal_by_policy(world, candidates, consolidating=inputs.consolidating)
    return {name: _of_removal(outcome) for name, outcome in found.items()}


def _of_plan(plan: Plan) -> dict[str, Any]:
    return {**_machines(plan.machines), "unplaced": len(plan.unschedulable)}


def _of_removal(outcome: Simulation) -> dict[str, Any]:
    """Of the machines that the command would need; those for pending pods are bought anyway."""
    return {**_machines(outcome.machines), "unplaced": 0, "problem": outcome.problem}


def _machines(machines: tuple[PlannedMachine, ...]) -> dict[str, Any]:
    cost = sum(machine.offering.price_micro_usd_per_hour for machine in machines)
    return {"cost": cost / 1e6, "machines": len(machines)}
