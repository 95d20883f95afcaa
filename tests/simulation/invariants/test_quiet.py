"""What is true in the end: sound clusters pass, each fault in one is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from local.aws.capacity.reservations import Reservation
from shared.concurrency.clock import rfc3339
from shared.domain import labels
from shared.kube.resources import NODE_CLAIMS
from simulation.invariants.picture import Picture
from simulation.invariants.quiet import (
    DeletionsEnd,
    EmptyMachinesGo,
    MachinesAreReady,
    NodesAreOpen,
    NodesHaveMachines,
    NothingLeaked,
    NoticesAreSettled,
    RecordsEnd,
    ReservedAreReserved,
    StaticPoolsAreFull,
    TerminationsEnd,
    waiting_for_their_turn,
)
from tests.simulation.invariants.builders import History

HEALTHY = ("Launched", "Registered", "Initialized")


@pytest.fixture
def history() -> History:
    """One healthy machine with instance and node."""
    made = History()
    skew = SimpleNamespace(owner=SimpleNamespace(skew_seconds=0.0))
    made.processes = {"terminator-0": skew}
    made.pool(disruption={"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"})
    made.start("i-1")
    made.machine("a", "i-1", conditions=HEALTHY)
    made.node("i-1")
    made.pod("web-1", "node-i-1")
    return made


def check(kind: Any, history: History) -> list[str]:
    """What one of these invariants finds now."""
    found: list[str] = kind(Picture()).check(history)
    return found


@pytest.mark.parametrize(
    "kind",
    [
        NothingLeaked,
        NodesHaveMachines,
        MachinesAreReady,
        NodesAreOpen,
        RecordsEnd,
        DeletionsEnd,
        EmptyMachinesGo,
        StaticPoolsAreFull,
    ],
)
def test_a_healthy_cluster_is_sound(history: History, kind: Any) -> None:
    assert check(kind, history) == []


def test_an_instance_without_a_machine_is_leaked(history: History) -> None:
    # I2
    history.start("i-2")
    assert check(NothingLeaked, history) == ["i-2 runs without a machine"]


def hold(history: History, *reports: str) -> None:
    """A launcher reports what it holds back."""
    launcher = SimpleNamespace(status=lambda: {"deletionsHeld": [*reports]})
    history.processes["launcher-0"] = launcher


HELD = "deleting none of 6 instances without a machine: so many at once look like a wrong list"


@pytest.mark.parametrize(("orphans", "sound"), [(5, False), (6, True)])
def test_only_so_many_orphans_as_look_like_a_wrong_list_may_be_held(
    history: History, orphans: int, sound: bool
) -> None:
    # F23
    for number in range(2, 2 + orphans):
        history.start(f"i-{number}")
    hold(history, HELD)
    assert (check(NothingLeaked, history) == []) is sound


def test_nodes_of_held_instances_are_held_also_where_others_have_none(history: History) -> None:
    # F23, F24: seed 2024 of rollback, where twelve instances were held and three of them had a node
    for number in range(2, 8):
        history.start(f"i-{number}")
    history.node("i-2")
    hold(history, HELD)
    assert check(NodesHaveMachines, history) == []


def test_many_orphans_that_nobody_reports_are_leaked(history: History) -> None:
    for number in range(2, 8):
        history.start(f"i-{number}")
    hold(history)
    assert len(check(NothingLeaked, history)) == 6


def test_instances_of_others_are_not_ours(history: History) -> None:
    # I11
    foreign = history.start("i-2")
    foreign.tags.clear()
    assert check(NothingLeaked, history) == []


def test_a_machine_without_its_instance_is_lost(history: History) -> None:
    history.end("i-1")
    assert check(NothingLeaked, history) == [
        "NodeClaim/a names aws:///us-west-2a/i-1, which does not run"
    ]


def test_an_instance_with_two_machines_is_found(history: History) -> None:
    # I1
    history.machine("b", "i-1", conditions=HEALTHY)
    assert check(NothingLeaked, history) == ["2 machines name i-1"]


def test_a_node_without_its_machine_is_orphaned(history: History) -> None:
    # F24
    history.node("i-2")
    assert check(NodesHaveMachines, history) == ["node node-i-2 has no machine"]


def test_a_registered_machine_without_its_node_is_found(history: History) -> None:
    history.machine("b", "i-2", conditions=HEALTHY)
    history.machine("c", "i-3", conditions=("Launched",))
    assert check(NodesHaveMachines, history) == ["NodeClaim/b is registered and has no node"]


def test_a_record_of_a_launch_that_is_over_is_found(history: History) -> None:
    # F1
    history.record("t1", history.machine("b"))
    history.record("t2", "uid-of-nobody")
    assert check(RecordsEnd, history) == ["launch record t2 is left of a launch that is over"]


def test_a_deletion_that_does_not_end_is_found(history: History) -> None:
    history.store.delete("pods", "web-1", namespace="default", grace_seconds=0)
    history.delete_machine("a")
    history.store.delete("nodes", "node-i-1")
    assert check(DeletionsEnd, history) == [
        "NodeClaim/a is still being deleted",
        "node node-i-1 is still being deleted",
    ]


def test_a_budget_that_lets_nobody_go_holds_a_deletion(history: History) -> None:
    # F22
    history.pod_budget(desired=1, allowed=0)
    history.delete_machine("a")
    assert check(DeletionsEnd, history) == []


def test_an_annotated_pod_holds_a_deletion(history: History) -> None:
    # TRM-09
    history.pod("web-2", "node-i-1", annotations={labels.DO_NOT_DISRUPT: "true"})
    history.delete_machine("a")
    assert check(DeletionsEnd, history) == []


def test_nothing_holds_a_machine_with_a_deadline(history: History) -> None:
    # TRM-10
    history.pod_budget(desired=1, allowed=0)
    deadline = rfc3339(history.clock.now() + 60)
    history.annotate("a", labels.TERMINATION_TIMESTAMP, deadline)
    history.delete_machine("a")
    assert check(DeletionsEnd, history) == ["NodeClaim/a is still being deleted"]


def test_a_class_waits_for_its_machines(history: History) -> None:
    # F26
    for name in ("main", "unused"):
        body = {
            "metadata": {"name": name, "finalizers": [labels.CLASS_FINALIZER]},
            "spec": {
                "amiSelectorTerms": [{"alias": "al2023@latest"}],
                "subnetSelectorTerms": [{"id": "subnet-1234567"}],
                "securityGroupSelectorTerms": [{"id": "sg-1234567"}],
                "role": "nodes",
            },
        }
        history.store.create("ec2nodeclasses", body, group="karpenter.k8s.aws")
        history.store.delete("ec2nodeclasses", name, group="karpenter.k8s.aws")
    assert check(DeletionsEnd, history) == ["EC2NodeClass/unused is still being deleted"]


def test_an_empty_machine_goes(history: History) -> None:
    # DIS-30
    history.store.delete("pods", "web-1", namespace="default", grace_seconds=0)
    assert check(EmptyMachinesGo, history) == ["NodeClaim/a is left without pods"]


@pytest.mark.parametrize(
    ("replicas", "limits", "has_class", "found"),
    [
        (1, {}, True, []),
        (2, {}, True, ["NodePool/fixed has 1 of 2 machines"]),
        (2, {"nodes": "1"}, True, []),
        (2, {}, False, []),
        (0, {}, True, ["NodePool/fixed has 1 of 0 machines"]),
        (1, {"nodes": "0"}, True, []),
    ],
    ids=["full", "short", "limited", "class gone", "too many", "limited later"],
)
def test_a_static_pool_has_its_replicas(
    history: History, replicas: int, limits: Any, has_class: bool, found: list[str]
) -> None:
    # GAT-01
    if has_class:
        history.ready_class()
    history.pool("fixed", replicas=replicas, limits=limits)
    history.start("i-2")
    history.machine("b", "i-2", conditions=HEALTHY, pool="fixed")
    assert check(StaticPoolsAreFull, history) == found


def test_a_machine_that_still_leaves_takes_the_room_of_a_limit(history: History) -> None:
    # features 411
    history.ready_class()
    history.pool("fixed", replicas=2, limits={"nodes": "1"})
    history.start("i-2")
    history.machine("b", "i-2", conditions=HEALTHY, pool="fixed")
    history.delete_machine("b")
    assert check(StaticPoolsAreFull, history) == []


@pytest.mark.parametrize(("seconds", "sound"), [(59, True), (61, False)])
def test_a_machine_is_reserved_while_its_instance_is(
    history: History, seconds: int, sound: bool
) -> None:
    # LCH-84
    ends_at = history.clock.now() + 60
    reservation = Reservation("m5.large", "us-west-2a", "usw2-az1", 1, ends_at=ends_at)
    history.emulator.reservations.add(reservation)
    history.start("i-2").capacity_reservation_id = reservation.reservation_id
    history.machine("b", "i-2", conditions=HEALTHY)
    reserved = {"metadata": {"labels": {labels.CAPACITY_TYPE: labels.RESERVED}}}
    history.store.patch("nodeclaims", "b", reserved, group=NODE_CLAIMS.group)
    history.wait(seconds)
    assert (check(ReservedAreReserved, history) == []) is sound


@pytest.mark.parametrize(("nodes", "stays"), [("1", True), ("2", False)])
def test_an_empty_machine_stays_while_another_one_uses_up_the_budget(
    history: History, nodes: str, stays: bool
) -> None:
    # DIS-22
    history.pool(disruption={"budgets": [{"nodes": nodes}]})
    history.machine("b", "i-2", conditions=HEALTHY)
    history.node("i-2")
    history.delete_machine("b")
    history.store.delete("pods", "web-1", namespace="default", grace_seconds=0)
    assert (check(EmptyMachinesGo, history) == []) is stays


@pytest.mark.parametrize(
    "disruption",
    [
        {"consolidateAfter": "Never"},
        {"budgets": [{"nodes": "0"}]},
        {"budgets": [{"nodes": "0", "reasons": ["Empty"]}]},
    ],
)
def test_a_pool_may_keep_its_empty_machines(history: History, disruption: Any) -> None:
    history.store.delete("pods", "web-1", namespace="default", grace_seconds=0)
    history.pool(disruption=disruption)
    assert check(EmptyMachinesGo, history) == []


def test_a_machine_that_does_not_become_ready_is_found(history: History) -> None:
    # LCH-75, LCH-76
    history.machine("b", "i-2", conditions=("Launched", "Registered"))
    history.machine("c", "i-3", conditions=("Launched",))
    history.delete_machine("c")
    assert check(MachinesAreReady, history) == ["NodeClaim/b is launched and not initialized"]


def test_a_closed_node_that_stays_is_found(history: History) -> None:
    # DIS-02
    taint = {"key": labels.DISRUPTED_TAINT_KEY, "effect": "NoSchedule"}
    history.store.patch("nodes", "node-i-1", {"spec": {"taints": [taint]}})
    assert check(NodesAreOpen, history) == ["node node-i-1 is closed although it stays"]
    history.command("a")
    assert check(NodesAreOpen, history) == []


@pytest.mark.parametrize(
    ("open_", "sound"), [([], True), (["NodeClaim/a"], False), (["Instance/i-1"], True)]
)
def test_the_terminator_works_on_what_is_being_deleted(
    history: History, open_: list[str], sound: bool
) -> None:
    # I12
    history.processes["terminator-0"].status = lambda: {"open": open_}
    world: Any = history
    assert (TerminationsEnd(Picture()).check(world) == []) is sound
    history.delete_machine("a")
    assert TerminationsEnd(Picture()).check(world) == []


@pytest.mark.parametrize("left", [0, 2])
def test_the_queue_of_notices_is_empty_in_the_end(history: History, left: int) -> None:
    # INT-01
    world: Any = history
    world.aws = SimpleNamespace(messages=lambda _name: left)
    found = NoticesAreSettled().check(world)
    assert found == ([f"{left} messages are left in the queue"] if left else [])


def test_drifted_machines_wait_for_their_turn_until_they_are_deleted(history: History) -> None:
    for name in ("b", "c"):
        history.machine(name, f"i-{name}", conditions=(*HEALTHY, "Drifted"))
    history.delete_machine("c")
    picture: Any = Picture()
    machines, now = picture.refresh(history).machines(), history.clock.now()
    assert waiting_for_their_turn(machines, now) == {"NodeClaim/b"}


def test_one_that_a_budget_holds_has_until_its_deadline(history: History) -> None:
    """Mixed 60510: the last of many had its turn four minutes before the end, and five minutes from then."""
    history.machine("d", "i-d", conditions=(*HEALTHY, "Drifted"))
    history.annotate("d", labels.TERMINATION_TIMESTAMP, rfc3339(history.clock.now() + 300))
    history.delete_machine("d")
    picture: Any = Picture()
    machines, now = picture.refresh(history).machines(), history.clock.now()
    assert waiting_for_their_turn(machines, now) == {"NodeClaim/d until its deadline"}
    assert waiting_for_their_turn(machines, now + 301) == set()
