"""Launched, registered, initialised (LCH-73..LCH-76)."""

from __future__ import annotations

from typing import Any

import pytest

from services.launcher.lifecycle.stages import (
    by_provider_id,
    is_open,
    lacks_boot_taint,
    node_of,
    registered_annotations,
    registered_labels,
    registered_taints,
    timed_out,
    waits_for,
)
from shared.domain import labels as keys
from shared.domain.expressions import Expression, Taint
from shared.domain.machines.machine import INITIALIZED, LAUNCHED, REGISTERED, Condition
from tests.support.planning.builders import make_machine, make_node

PROVIDER_ID = "aws:///us-west-2a/i-1"
BOOT = Taint(keys.UNREGISTERED_TAINT_KEY, "NoExecute")
SPECIAL, STARTUP = Taint("special", "NoSchedule", "x"), Taint("boot", "NoExecute")
TRUE = Condition("True")


def test_a_machine_has_exactly_the_one_node_with_its_provider_id() -> None:
    """LCH-73: registration; M-06: machine and node meet by provider id."""
    machine = make_machine(provider_id=PROVIDER_ID)
    node, other = make_node("n", provider_id=PROVIDER_ID), make_node("o")
    assert node_of(machine, by_provider_id([other, node])) == (node, "")
    assert node_of(machine, by_provider_id([other])) == (None, "NodeNotFound")
    assert node_of(machine, by_provider_id([node, node])) == (None, "MultipleNodesFound")


def test_a_machine_without_instance_does_not_take_a_node_without_provider() -> None:
    """Two empty ids are not the same id."""
    assert node_of(make_machine(), by_provider_id([make_node()])) == (None, "NodeNotFound")


def test_registration_adds_our_taints_and_takes_off_the_boot_taint() -> None:
    """LCH-74: what others put there stays."""
    machine = make_machine(taints=(SPECIAL,), startup_taints=(STARTUP,))
    other = Taint("node.kubernetes.io/not-ready", "NoSchedule")
    assert registered_taints(machine, make_node(taints=(BOOT, other))) == (other, SPECIAL, STARTUP)
    present = Taint("special", "NoSchedule", "changed")
    assert registered_taints(machine, make_node(taints=(present, BOOT))) == (present, STARTUP)


def test_a_node_that_renders_taints_itself_is_not_tainted_again() -> None:
    """LCH-39: only the boot taint goes."""
    machine = make_machine(taints=(SPECIAL,), startup_taints=(STARTUP,))
    node = make_node(taints=(BOOT,), labels={keys.DO_NOT_SYNC_TAINTS: "true"})
    assert registered_taints(machine, node) == ()


def test_a_node_that_was_registered_before_gets_no_startup_taint_again() -> None:
    """LCH-74: a crash before the condition was written; the startup taint's agent has done its work since."""
    machine = make_machine(taints=(SPECIAL,), startup_taints=(STARTUP,))
    node = make_node(taints=(SPECIAL,), labels={keys.REGISTERED: "true"})
    assert registered_taints(machine, node) == (SPECIAL,)
    assert not lacks_boot_taint(node)
    assert lacks_boot_taint(make_node())


def test_a_registered_node_carries_labels_its_kubelet_may_not_set_and_the_mark() -> None:
    """LCH-37, LCH-73: the Machine's own labels win over requirements with one value."""
    requirements = (
        Expression("team", "In", ("blue",)),
        Expression("kubernetes.io/os", "In", ("linux",)),
        Expression("zone", "In", ("a", "b")),
        Expression("generation", "Gt", ("2",)),
        Expression(keys.HOSTNAME, "In", ("placeholder",)),
    )
    machine = make_machine(labels={"team": "red"}, requirements=requirements)
    expected = {"team": "red", "kubernetes.io/os": "linux", keys.REGISTERED: "true"}
    assert registered_labels(machine) == expected


def test_a_registered_node_carries_the_machines_annotations_but_not_our_notes() -> None:
    """LCH-73: registration."""
    notes = {keys.PLAN_ANNOTATION: "p", keys.ATTEMPT_ANNOTATION: "1", "user": "x"}
    found = registered_annotations(make_machine(annotations=notes), "main")
    assert found == {"user": "x", keys.MANAGED_BY: "main"}


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        ({}, ""),
        ({"ready": False}, "NodeNotReady"),
        ({"taints": (STARTUP,)}, "StartupTaintsExist"),
        ({"taints": (Taint("boot", "NoSchedule"),)}, ""),
        ({"taints": (Taint("node.kubernetes.io/not-ready", "NoSchedule"),)}, "KnownEphemeralTaintsExist"),
        ({"taints": (Taint("readiness.k8s.io/x", "NoSchedule"),)}, "KnownEphemeralTaintsExist"),
        ({"taints": (SPECIAL,)}, ""),
        ({"allocatable": {"cpu": 4000, "memory": 1, "pods": 1}}, "ResourceNotRegistered"),
    ],
)  # fmt: skip
def test_a_node_is_initialised_when_nothing_is_missing(node: dict[str, Any], reason: str) -> None:
    """LCH-75: when a node is initialized."""
    machine = make_machine(
        taints=(SPECIAL,),
        startup_taints=(STARTUP,),
        requests={"cpu": 100, "nvidia.com/gpu": 1, "memory": 0},
    )
    size = {"cpu": 4000, "memory": 16, "nvidia.com/gpu": 1}
    assert waits_for(machine, make_node(**{"allocatable": size, **node}))[0] == reason


@pytest.mark.parametrize(
    ("conditions", "age", "reason"),
    [
        ({}, 300, None),
        ({}, 301, "launch_timeout"),
        ({LAUNCHED: Condition("Unknown", since=700.0)}, 301, None),
        ({LAUNCHED: Condition("Unknown", since=600.0)}, 500, "launch_timeout"),
        ({LAUNCHED: TRUE}, 10**6, None),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown")}, 900, None),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown")}, 901, "registration_timeout"),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown", since=600.0)}, 1000, None),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown", since=600.0)}, 1001, "registration_timeout"),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown", since=-3000.0)}, 900, None),
        ({LAUNCHED: TRUE, REGISTERED: Condition("Unknown", since=5000.0)}, 901, "registration_timeout"),
        ({LAUNCHED: Condition("Unknown", since=5000.0)}, 301, "launch_timeout"),
        ({LAUNCHED: TRUE, REGISTERED: TRUE}, 10**6, None),
    ],
)  # fmt: skip
def test_launch_and_registration_have_their_time_and_initialisation_any(
    conditions: dict[str, Condition], age: float, reason: str | None
) -> None:
    """LCH-76, ACC-66: 5 min since Launched changed, 15 min since Registered was first set, never.

    ``created_at`` is 500. The clock that wrote a condition before that, or far in the
    future, was wrong.
    """
    machine = make_machine(created_at=500.0, conditions=conditions)
    found = timed_out(machine, now=500.0 + age, launch_seconds=300, registration_seconds=900)
    assert found == reason


def test_an_initialised_machine_and_one_that_goes_are_open_no_more() -> None:
    assert is_open(make_machine(conditions={REGISTERED: TRUE}))
    assert not is_open(make_machine(conditions={INITIALIZED: TRUE}))
    assert not is_open(make_machine(terminating=True))
