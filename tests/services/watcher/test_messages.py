"""What a change of the cluster is told to whom (docs/spec/design.md)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from services.watcher.messages import Record, messages_for
from shared.domain import labels as keys
from shared.domain.pools.generations import V1
from shared.redis import streams
from shared.redis.messages import (
    LaunchMachine,
    Message,
    NodeClassChanged,
    NodeJoined,
    NodePoolChanged,
    PodUnschedulable,
    TerminateMachine,
)
from tests.support.planning.builders import (
    make_bound_pod,
    make_daemon_set,
    make_machine,
    make_node,
    make_node_class,
    make_pod,
    make_pool,
)


def told(old: Record, new: Record) -> list[tuple[str, Message]]:
    return messages_for(old, new, generation=7, version="55")


POD = make_pod("p")
BOUND = make_bound_pod("p", "n")
WAITS = (streams.PODS, PodUnschedulable(uid="uid-p", pod="default/p", generation=7))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, POD, [WAITS]),
        (BOUND, POD, [WAITS]),
        (POD, replace(POD, labels={"a": "b"}), []),
        (POD, BOUND, []),
        (POD, None, []),
        (POD, replace(POD, terminating=True), []),
        (None, BOUND, []),
        (BOUND, None, []),
    ],
)
def test_a_pod_is_announced_when_it_begins_to_wait_and_never_again(
    old: Record, new: Record, expected: list[tuple[str, Message]]
) -> None:
    """POD-01: which pods are provisioned for; BAT-01: what opens a batch."""
    assert told(old, new) == expected


MACHINE = make_machine("m")
LEAVING = replace(MACHINE, terminating=True)
DELETED = (
    streams.TERMINATIONS,
    TerminateMachine(name="m", reason="deleted", resource_version="55"),
)


def test_a_node_claim_is_told_in_its_own_generation() -> None:
    """MAP-01: one generation owns a node."""
    claim = replace(MACHINE, generation_api=V1)
    leaving = replace(claim, terminating=True)
    assert told(None, claim) == [(streams.LAUNCHES, LaunchMachine(machine="NodeClaim/m"))]
    order = TerminateMachine(kind="NodeClaim", name="m", reason="deleted", resource_version="55")
    assert told(claim, leaving) == [(streams.TERMINATIONS, order)]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, MACHINE, [(streams.LAUNCHES, LaunchMachine(machine="Machine/m"))]),
        (MACHINE, replace(MACHINE, labels={}), []),
        (None, replace(MACHINE, provider_id="aws:///z/i-1"), []),
        (MACHINE, LEAVING, [DELETED]),
        (None, LEAVING, [DELETED]),
        (LEAVING, replace(LEAVING, labels={}), []),
        (LEAVING, None, []),
    ],
)
def test_a_machine_is_told_when_it_needs_an_instance_and_when_it_goes(
    old: Record, new: Record, expected: list[tuple[str, Message]]
) -> None:
    """M-05: owners of machine and node; TRM-01: every way to terminate."""
    assert told(old, new) == expected


NODE = make_node("n", provider_id="aws:///us-west-2a/i-1")
INITIALIZED = make_node("n", provider_id="aws:///us-west-2a/i-1", labels={keys.INITIALIZED: "true"})
GOING = replace(NODE, terminating=True, finalizers=(keys.FINALIZER,))
NODE_DELETED = (
    streams.TERMINATIONS,
    TerminateMachine(kind="Node", name="n", reason="node deleted", resource_version="55"),
)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, NODE, [(streams.MACHINES, NodeJoined(node="n", resource_version="55"))]),
        (NODE, replace(NODE, ready=False), [(streams.MACHINES, NodeJoined(node="n", resource_version="55"))]),
        (NODE, INITIALIZED, []),
        (None, make_node("foreign"), []),
        (NODE, GOING, [NODE_DELETED]),
        (GOING, replace(GOING, ready=False), []),
        (NODE, replace(NODE, terminating=True), []),
        (GOING, None, []),
    ],
)  # fmt: skip
def test_a_node_is_told_until_it_is_initialised_and_when_it_is_deleted(
    old: Record, new: Record, expected: list[tuple[str, Message]]
) -> None:
    """LCH-73, TRM-17: only nodes with our finalizer are terminated by us."""
    assert told(old, new) == expected


def test_a_node_class_is_told_when_its_spec_changed() -> None:
    """T-12: a new status is no news."""
    first = make_node_class("c", generation=1)
    changed = (streams.MACHINES, NodeClassChanged(node_class="AWSNodeTemplate/c", generation=2))
    assert told(first, replace(first, ready=False)) == []
    assert told(first, replace(first, generation=2)) == [changed]
    assert len(told(None, first)) == 1
    assert told(first, None) == []


def test_a_pool_is_told_when_its_spec_changed() -> None:
    """DRF-01: its machines may be outdated. What it uses is no news."""
    first = make_pool("p", generation=1)
    changed = (streams.MACHINES, NodePoolChanged(pool="Provisioner/p", generation=2))
    assert told(first, replace(first, usage={"cpu": 1})) == []
    assert told(first, replace(first, generation=2)) == [changed]
    assert len(told(None, first)) == 1
    assert told(first, None) == []


def test_daemon_sets_are_no_news() -> None:
    """They are in the mirror when the next plan is made."""
    record = make_daemon_set()
    assert told(None, record) == told(record, None) == []
