"""What a planning round says in the log, in each generation's words (BAT-09, BAT-10)."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from services.scheduler.provisioning import logs
from services.scheduler.provisioning.logs import some
from shared.domain import labels as keys
from shared.domain.expressions import Expression
from shared.domain.machines.machine import INITIALIZED, Condition
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import PreferredTerm
from tests.support.planning.builders import (
    make_daemon_set,
    make_machine,
    make_node_class,
    make_pod,
    make_pods,
    make_pool,
    make_snapshot,
)
from tests.support.planning.snapshots import plan_for


def logged(snapshot: Snapshot) -> list[dict[str, Any]]:
    """The lines of one round whose Machines are all created."""
    plan = plan_for(snapshot)
    with capture_logs() as lines:
        logs.considering(snapshot.pods, frozenset())
        logs.decided(plan, plan.machines, snapshot, seconds=0.0123)
        logs.created(plan.machines)
    return [dict(line) for line in lines]


def snapshot_of(generation: str, **changes: Any) -> Snapshot:
    """Seven pods and five daemons, which one new machine takes."""
    fields = {
        "pools": (make_pool(generation_api=generation),),
        "node_classes": (make_node_class(generation_api=generation),),
        "daemon_sets": tuple(make_daemon_set(f"d{n}", cpu="10m") for n in range(5)),
    }
    return make_snapshot(*make_pods(7, cpu="100m"), **{**fields, **changes})


def test_a_provisioners_round_speaks_as_v0_24_did() -> None:
    """BAT-10, ACC-13 and ACC-14: daemons and their pods are in the request, five types are named."""
    lines = logged(snapshot_of(V1ALPHA5))
    assert [line["event"].partition(" with ")[0] for line in lines] == [
        "computing scheduling decision for provisionable pod(s)",
        "found provisionable pod(s)",
        "launching machine",
        "computed new node(s) to fit pod(s)",
        "created machine",
    ]
    launching, computed = lines[2], lines[3]
    assert launching["event"].startswith('launching machine with 7 pods requesting {"cpu":"750m",')
    assert '"pods":"12"}' in launching["event"]
    assert launching["provisioner"] == "default"
    assert (computed["nodes"], computed["pods"]) == (1, 7)


def test_a_nodepools_round_speaks_as_karpenter_does_now() -> None:
    """BAT-09: log lines of a plan."""
    before, found, computed, created = logged(snapshot_of(V1))
    assert (before["pending-pods"], before["deleting-pods"]) == (7, 0)
    assert before["log_level"] == "debug"
    assert found["event"] == "found provisionable pod(s)"
    assert found["Pods"].endswith(" and 2 other(s)")
    assert found["duration"] == "12.300ms"
    assert computed["event"] == "computed new nodeclaim(s) to fit pod(s)"
    assert (computed["nodeclaims"], computed["pods"]) == (1, 7)
    assert created["event"] == "created nodeclaim"
    assert created["NodePool"] == {"name": "default"}
    assert created["NodeClaim"]["name"].startswith("default-")
    assert created["requests"]["pods"] == "12"
    assert created["instance-types"]


@pytest.mark.parametrize("ready", [False, True], ids=["on its way", "initialized"])
def test_only_nodes_on_their_way_are_said_to_take_pods(ready: bool) -> None:
    """BAT-09: a round that buys nothing says no more than that."""
    conditions = {INITIALIZED: Condition("True", INITIALIZED, "", 0.0)} if ready else {}
    machine = make_machine(
        provider_id="aws:///us-west-2a/i-1",
        allocatable={"cpu": 4000, "memory": 2**34, "pods": 50},
        conditions=conditions,
    )
    lines = logged(make_snapshot(make_pod(), pools=(make_pool(),), machines=(machine,)))[1:]
    if ready:
        assert lines == []
    else:
        (line,) = lines
        assert line["event"] == "computed unready node(s) will fit pod(s)"
        assert (line["nodes"], line["pods"]) == (1, 1)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, ""),
        (1, "n0"),
        (5, "n0, n1, n2, n3, n4"),
        (6, "n0, n1, n2, n3, n4 and 1 other(s)"),
        (187, "n0, n1, n2, n3, n4 and 182 other(s)"),
    ],
)
def test_five_names_and_how_many_more(count: int, text: str) -> None:
    """BAT-09: lists of names in logs have an end."""
    assert some(f"n{i}" for i in range(count)) == text


def test_what_pods_give_up_is_logged() -> None:
    """SCH-24: relaxation within the round."""
    wish = PreferredTerm(1, (Expression(keys.ZONE, "In", ("mars",)),))
    pods = [make_pod(f"p{n}", preferred_terms=(wish,)) for n in range(3)]
    words = "relaxing soft constraints for pod since it previously failed to schedule"
    (line,) = [one for one in logged(make_snapshot(*pods)) if one["event"] == words]
    assert (line["Pod"], line["pods"], line["log_level"]) == (pods[0].key, 3, "debug")
    assert line["reason"].startswith("removing: spec.affinity.nodeAffinity.preferred")
