"""A plan stands in the trace of a pod that it serves, and links to those of the others."""

from __future__ import annotations

from services.scheduler.provisioning.plan_trace import PlanTrace
from shared.redis.bus.trace_context import trace_id
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.network.recorded_spans import RecordedSpans, trace_of
from tests.support.planning.builders import make_pod, make_snapshot

WEB, DB = make_pod("web"), make_pod("db")
PODS = [WEB, DB]
SERVED = solve(make_snapshot(WEB, DB), now=0.0, settings=SolverSettings())
NOTHING = Plan("nothing", 1, (), {}, {pod.uid: "no pool" for pod in PODS})


def recorded(traces: PlanTrace, plan: Plan) -> str:
    with traces.plan(plan, plan.machines, PODS, start=1.0) as span:
        return span.traceparent


async def test_it_is_the_trace_of_a_pod_that_gets_a_machine() -> None:
    """Both pods are on one machine: the other's trace is linked."""
    spans = RecordedSpans()
    traces, begun = PlanTrace(spans.tracer), {pod.uid: spans.begun() for pod in PODS}
    for uid, trace in begun.items():
        traces.note(uid, trace)
    assert recorded(traces, SERVED)
    (plan,) = [span for span in await spans.all() if span.name == "plan"]
    (machine,) = SERVED.machines
    first, second = (trace_id(begun[uid]) for uid in machine.pods)
    assert trace_of(plan) == first
    assert [f"{link.context.trace_id:032x}" for link in plan.links] == [second]
    assert dict(plan.attributes or {}) == {
        "plan": SERVED.id, "pods": 2, "machines": 1, "unschedulable": 0,
    }  # fmt: skip


def test_a_plan_without_a_place_is_recorded_once_and_the_one_that_has_it_again() -> None:
    """Pods that wait are planned anew every few seconds."""
    spans = RecordedSpans()
    traces = PlanTrace(spans.tracer)
    traces.note(WEB.uid, spans.begun())
    found = [bool(recorded(traces, plan)) for plan in (NOTHING, NOTHING, NOTHING, SERVED)]
    assert found == [True, False, False, True]


def test_the_trace_of_a_pod_that_waits_no_more_is_forgotten() -> None:
    spans = RecordedSpans()
    traces = PlanTrace(spans.tracer)
    traces.note(WEB.uid, spans.begun())
    with traces.plan(NOTHING, (), [], start=1.0):
        pass
    assert not recorded(traces, SERVED)


def test_without_traces_nothing_is_recorded() -> None:
    traces = PlanTrace(RecordedSpans().tracer)
    traces.note(WEB.uid, "")
    assert recorded(traces, SERVED) == ""
