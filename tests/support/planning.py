"""Solving in tests, and an independent check that a plan keeps every promise."""

from __future__ import annotations

from collections import Counter

from shared.domain import labels as keys
from shared.domain.expressions import first_untolerated
from shared.domain.pods import Pod
from shared.domain.requirements import Requirements
from shared.domain.resources import add, fits, subtract
from shared.domain.snapshot import Snapshot
from shared.solver.plan import Plan, PlannedMachine
from shared.solver.solve import SolverSettings, solve


def plan_for(snapshot: Snapshot, *reschedule: str, **settings: object) -> Plan:
    """``solve`` with default settings."""
    chosen = SolverSettings(**settings)  # type: ignore[arg-type]
    return solve(snapshot, now=0.0, settings=chosen, reschedule=frozenset(reschedule))


def pods_per_machine(plan: Plan) -> list[int]:
    """Sizes of the planned machines, largest first."""
    return sorted((len(m.pods) for m in plan.machines), reverse=True)


def requirement_values(machine: PlannedMachine, key: str) -> list[str]:
    """The In values that a planned machine has for a key."""
    return [v for e in machine.requirements if e.key == key for v in e.values]


def check_plan(plan: Plan, snapshot: Snapshot) -> None:
    """Each pod once; capacity, taints and selectors respected on every possible machine."""
    pods = {pod.uid: pod for pod in snapshot.pods}
    placed = [uid for machine in plan.machines for uid in machine.pods]
    placed += [uid for uids in plan.existing.values() for uid in uids]
    repeated = [uid for uid, n in Counter(placed + list(plan.unschedulable)).items() if n > 1]
    assert repeated == []
    for machine in plan.machines:
        _check_machine(machine, [pods[uid] for uid in machine.pods], snapshot)
    for node in snapshot.nodes:
        content = [p for p in snapshot.pods if p.node_name == node.name]
        added = [pods[uid] for uid in plan.existing.get(node.name, ())]
        total = add(*(p.requests for p in content + added))
        assert not added or fits(total, node.allocatable)
        for pod in added:
            assert first_untolerated(node.taints, pod.tolerations) is None
            assert all(node.labels.get(k) == v for k, v in pod.node_selector.items())


def _check_machine(machine: PlannedMachine, pods: list[Pod], snapshot: Snapshot) -> None:
    types = {t.name: t for t in snapshot.catalogue.types}
    wanted = add(*(p.requests for p in pods))
    overhead = subtract(machine.requests, wanted)
    assert all(amount >= 0 for amount in overhead.values())
    requirements = Requirements.of(machine.requirements)
    for name in machine.instance_types:
        assert fits(wanted, types[name].allocatable()), name
    _check_neighbours(pods)
    for pod in pods:
        assert first_untolerated(machine.taints, pod.tolerations) is None
        for key, value in pod.node_selector.items():
            allowed = requirements.get(key)
            assert allowed is not None
            assert allowed.single_value == value
    chosen = types[machine.instance_type]
    assert machine.offering in chosen.offerings
    key = (machine.offering.capacity_type, chosen.name, machine.offering.zone)
    assert key not in snapshot.unavailable


def _check_neighbours(pods: list[Pod]) -> None:
    """On one machine: no port twice, nobody that a required host anti-affinity keeps away."""
    ports = Counter((protocol, port) for pod in pods for protocol, _, port in pod.host_ports)
    assert all(count == 1 for count in ports.values())
    for pod in pods:
        for term in pod.anti_affinity:
            if term.weight is None and term.topology_key == keys.HOSTNAME:
                others = [p for p in pods if p is not pod and p.namespace == pod.namespace]
                assert not any(p.labels.items() >= term.match_labels.items() for p in others)
