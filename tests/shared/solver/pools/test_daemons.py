"""Overhead of daemon sets whose pods have other requests than the template (SCH-46)."""

from __future__ import annotations

import pytest

from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.workloads.pods import Owner, Pod
from shared.solver.pools.daemons import with_running_daemons
from tests.support.planning.builders import (
    amounts,
    make_bound_pod,
    make_daemon_set,
    make_node,
    make_pod,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for


def daemon_pod(name: str, cpu: str, created_at: float, **changes: object) -> Pod:
    """A running pod of the daemon set ``agent``."""
    owner = Owner("DaemonSet", "agent", "daemon-agent")
    return make_bound_pod(
        name, "node-1", cpu=cpu, memory="64Mi", created_at=created_at, owner=owner, **changes
    )


def planned_cpu(*daemon_pods: Pod) -> int:
    """CPU requests of the machine for one pod of 100m, with the template asking for 100m."""
    full = make_node(cpu="0")
    snapshot = make_snapshot(
        make_pod(), *daemon_pods, nodes=(full,), daemon_sets=(make_daemon_set(),)
    )
    [machine] = plan_for(snapshot).machines
    return machine.requests["cpu"]


def test_the_template_counts_while_nothing_runs() -> None:
    assert planned_cpu() == 200


def test_the_newest_pod_counts_once_something_runs() -> None:
    """A vertical autoscaler changes pods, not templates."""
    assert planned_cpu(daemon_pod("new", "700m", 2.0), daemon_pod("old", "400m", 1.0)) == 800


@pytest.mark.parametrize("label", [keys.INITIALIZED, keys.REGISTERED])
@pytest.mark.parametrize(
    ("operator", "values", "cpu"),
    [("In", ("true",), 200), ("Exists", (), 200), ("DoesNotExist", (), 200), ("In", ("no",), 100)],
)
def test_a_daemon_that_waits_for_a_node_of_ours_counts_on_a_new_machine(
    label: str, operator: str, values: tuple[str, ...], cpu: int
) -> None:
    """These labels are set when the node joins; a pod that ran before stays."""
    waiting = make_daemon_set(required_terms=((Expression(label, operator, values),),))
    [machine] = plan_for(make_snapshot(make_pod(), daemon_sets=(waiting,))).machines
    assert machine.requests["cpu"] == cpu


def test_of_equally_old_pods_the_last_by_uid_counts() -> None:
    pods = (daemon_pod("a", "300m", 1.0), daemon_pod("b", "500m", 1.0))
    assert planned_cpu(*pods) == planned_cpu(*reversed(pods)) == 600


def test_a_pod_that_could_not_be_read_does_not_count() -> None:
    assert planned_cpu(daemon_pod("odd", "1m", 9.0, faults=("spec: odd",))) == 200


def test_pods_of_another_daemon_set_of_that_name_do_not_count() -> None:
    """UIDs decide, since the daemon set was deleted and created again."""
    stranger = make_bound_pod("x", "node-1", cpu="2", owner=Owner("DaemonSet", "agent", "before"))
    assert planned_cpu(stranger) == 200


def test_a_resource_that_only_the_running_pods_ask_for_counts() -> None:
    gpus = {**amounts(cpu="100m", pods="1"), "nvidia.com/gpu": 1}
    running = daemon_pod("gpu", "100m", 1.0)
    snapshot = make_snapshot(
        make_pod(),
        daemon_pod("agent", "100m", 0.0, uid="a"),
        make_bound_pod("g", "node-1", requests=gpus, owner=running.owner, created_at=5.0),
        daemon_sets=(make_daemon_set(),),
    )
    [daemon] = with_running_daemons(snapshot).daemon_sets
    assert daemon.requests["nvidia.com/gpu"] == 1
    assert list(plan_for(snapshot).unschedulable) == ["uid-pod"]


def test_a_cluster_without_daemon_pods_is_the_same_snapshot() -> None:
    snapshot = make_snapshot(make_pod(), daemon_sets=(make_daemon_set(),))
    assert with_running_daemons(snapshot) is snapshot
