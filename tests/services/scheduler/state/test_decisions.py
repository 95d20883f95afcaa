"""What the log of decisions says about what was not done, and about decisions that are neither plan nor command."""

from __future__ import annotations

from msgspec.structs import replace

from services.scheduler.disruption.methods import Findings
from services.scheduler.state.decisions import NO_CAPACITY, NOT_CREATED, DecisionLog, Rejected
from shared.disruption.records import Candidate, Command, Rejection
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.solver.plan import Plan
from shared.solver.solve import SolverSettings, solve
from tests.support.clock.fake import FakeClock
from tests.support.planning.builders import make_machine, make_pod, make_pool, make_snapshot
from tests.support.planning.disruption import make_running

ICE = ("spot", "m5.large", "us-west-2a")


def make_candidate(name: str) -> Candidate:
    pool = make_pool(generation_api=V1)
    running = make_running(name, pool=pool)
    return Candidate(running.machine, running.node, pool)


def rejected_by(log: DecisionLog) -> list[tuple[str, str]]:
    (found,) = log.documents()
    return [(one["what"], one["why"]) for one in found["rejected"]]


def test_a_plan_names_offerings_that_ec2_refused_recently() -> None:
    snapshot = make_snapshot(make_pod("web", unschedulable=True), unavailable=frozenset({ICE}))
    plan, log = solve(snapshot, now=0.0, settings=SolverSettings()), DecisionLog(FakeClock())
    log.plan(plan, plan.machines, snapshot)
    assert rejected_by(log) == [("m5.large us-west-2a spot", NO_CAPACITY)]


def test_a_plan_names_machines_that_were_not_created_and_faults_of_its_input() -> None:
    snapshot = make_snapshot(make_pod("web", unschedulable=True))
    plan: Plan = replace(
        solve(snapshot, now=0.0, settings=SolverSettings()),
        faults=('NodePool "a" cannot be used: x',),
    )
    log = DecisionLog(FakeClock())
    log.plan(plan, (), snapshot)
    (machine,) = plan.machines
    (first, why), fault = rejected_by(log)
    assert (first.split()[0], why) == (machine.name, NOT_CREATED)
    assert fault == ("input", 'NodePool "a" cannot be used: x')


def test_a_command_says_why_the_other_nodes_stay() -> None:
    """Of its own generation, and not of the nodes that it takes away."""
    going = make_candidate("going")
    found = Findings(
        surveyed=(Rejection("NodeClaim/a", "ip-a", "", "state node is nominated"),),
        by_method={
            ("emptiness", V1): (
                Rejection("NodeClaim/b", "ip-b", "", "too dear"),
                Rejection("NodeClaim/c", "ip-c", "", "too dear"),
                Rejection(going.machine.key, "ip-going", "", "not empty"),
            ),
            ("emptiness", "v1alpha5"): (Rejection("Machine/d", "ip-d", "", "old"),),
        },
    )
    command, log = Command("drift", "Drifted", (going,)), DecisionLog(FakeClock())
    log.command(command, "c-1", found.rejected(command))
    assert rejected_by(log) == [
        ("2 nodes", "too dear"),
        ("node ip-a", "state node is nominated"),
    ]


def test_a_command_without_other_nodes_rejects_nothing() -> None:
    log = DecisionLog(FakeClock())
    log.command(Command("drift", "Drifted", (make_candidate("going"),)), "c-1")
    assert rejected_by(log) == []
    assert Rejected("a", "b").document() == {"what": "a", "why": "b"}


def test_an_expired_machine_is_a_decision_with_its_saving() -> None:
    price = {keys.PRICE_ANNOTATION: "96000"}
    log = DecisionLog(FakeClock())
    log.expired(make_machine("old", node_name="ip-old", annotations=price))
    log.expired(make_machine("other", node_name="ip-other"))
    other, old = log.documents()
    assert (old["kind"], old["cost"]) == ("expiration", -0.096)
    assert old["text"] == "delete node ip-old: it passed its maximum age"
    assert other["cost"] is None


def test_static_pools_grow_and_shrink_as_decisions() -> None:
    snapshot = make_snapshot(make_pod("web", unschedulable=True))
    machines = solve(snapshot, now=0.0, settings=SolverSettings()).machines
    log, pool = DecisionLog(FakeClock()), make_pool()
    log.static_filled(pool, machines)
    log.static_filled(pool, ())
    log.static_shrunk(pool, [make_machine("a", annotations={keys.PRICE_ANNOTATION: "50000"})])
    shrunk, filled = log.documents()
    assert filled["text"] == "1 machine more for the static pool default"
    assert filled["cost"] == machines[0].offering.price_micro_usd_per_hour / 1e6
    assert shrunk["text"] == "delete 1 machine too many of the static pool default"
    assert shrunk["cost"] == -0.05
