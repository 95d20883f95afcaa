"""The picture after any history of the mirror is the picture of what the mirror holds at its end."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.console.picture.picture import Delta, Picture
from services.console.picture.rows import NodeRow, PodRow
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.machines.machine import (
    DRIFTED,
    INITIALIZED,
    INSTANCE_TERMINATING,
    LAUNCHED,
    REGISTERED,
    Condition,
    Machine,
)
from shared.domain.records import MACHINES, NODES, PODS
from tests.support.planning.builders import make_machine, make_node, make_pod

NAMES = ("a", "b", "c")
Change = tuple[str, str, Any]


def node_changes() -> st.SearchStrategy[Change]:
    gone = st.sampled_from(NAMES).map(lambda name: (NODES, name, None))
    there = st.builds(
        lambda name, ready: (NODES, name, make_node(name, ready=ready)),
        st.sampled_from(NAMES),
        st.booleans(),
    )
    return gone | there


def machine_changes() -> st.SearchStrategy[Change]:
    key = st.sampled_from(NAMES).map(lambda name: f"Machine/{name}")
    there = st.builds(
        lambda name, node: (MACHINES, f"Machine/{name}", make_machine(name, node_name=node)),
        st.sampled_from(NAMES),
        st.sampled_from(("", *NAMES)),
    )
    return key.map(lambda one: (MACHINES, one, None)) | there


def pod_changes() -> st.SearchStrategy[Change]:
    gone = st.sampled_from(NAMES).map(lambda name: (PODS, f"default/{name}", None))
    there = st.builds(
        lambda name, node, phase: (
            PODS, f"default/{name}", make_pod(name, node_name=node, phase=phase)
        ),
        st.sampled_from(NAMES),
        st.sampled_from(("", *NAMES)),
        st.sampled_from(("Pending", "Running", "Succeeded")),
    )  # fmt: skip
    return gone | there


def note(picture: Picture, change: Change) -> None:
    kind, key, record = change
    picture.note(kind, key, None if record is None else msgspec.json.encode(record))


def one_machine_per_node(changes: list[Change]) -> list[Change]:
    """Two machines never have one node: a node joins for one instance."""
    owner: dict[str, str] = {}
    kept = []
    for kind, key, record in changes:
        node = record.node_name if isinstance(record, Machine) else ""
        if kind == MACHINES:
            if node and owner.get(node, key) != key:
                continue
            owner = {name: by for name, by in owner.items() if by != key}
            owner |= {node: key} if node else {}
        kept.append((kind, key, record))
    return kept


class Page:
    """What a browser does with the changes."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRow] = {}
        self.pods: dict[str, PodRow] = {}

    def apply(self, delta: Delta) -> None:
        for gone in delta.gone.nodes:
            self.nodes.pop(gone)
        for gone in delta.gone.pods:
            self.pods.pop(gone)
        self.nodes |= {row.id: row for row in delta.put.nodes}
        self.pods |= {row.id: row for row in delta.put.pods}


@given(
    st.lists(node_changes() | machine_changes() | pod_changes(), max_size=40).map(
        one_machine_per_node
    ),
    st.sets(st.integers(0, 40)),
)
def test_any_history_taken_at_any_moments_ends_with_the_same_picture(
    changes: list[Change], moments: set[int]
) -> None:
    live, page = Picture(), Page()
    for number, change in enumerate(changes):
        note(live, change)
        if number in moments:
            page.apply(live.take())
    page.apply(live.take())
    late = Picture()
    for change in {(kind, key): (kind, key, record) for kind, key, record in changes}.values():
        note(late, change)
    late.take()
    assert (page.nodes, page.pods) == (late.nodes, late.pods)
    assert {pod.node for pod in page.pods.values()} - {""} <= page.nodes.keys()


def row_of(machine: Machine, **node: Any) -> NodeRow:
    picture = Picture()
    note(picture, (MACHINES, machine.key, machine))
    if machine.node_name:
        note(picture, (NODES, machine.node_name, make_node(machine.node_name, **node)))
    (row,) = picture.take().put.nodes
    return row


def having(*conditions: str, **changes: Any) -> Machine:
    return make_machine(conditions={one: Condition("True") for one in conditions}, **changes)


def test_a_machine_goes_through_the_states_of_its_life() -> None:
    lived = [
        having(),
        having(LAUNCHED),
        having(LAUNCHED, REGISTERED, node_name="a"),
        having(LAUNCHED, REGISTERED, INITIALIZED, node_name="a"),
        having(LAUNCHED, REGISTERED, INITIALIZED, node_name="a", terminating=True),
        having(LAUNCHED, INSTANCE_TERMINATING, node_name="a", terminating=True),
    ]
    assert [row_of(machine).state for machine in lived] == [
        "launching", "registering", "initializing", "ready", "draining", "terminating",
    ]  # fmt: skip


def test_marks_say_why_a_node_needs_attention() -> None:
    spot = Taint(keys.SPOT_ITN_TAINT_KEY, "NoSchedule", "x")
    row = row_of(having(DRIFTED, node_name="a"), unschedulable=True, ready=False, taints=(spot,))
    assert row.marks == ("interrupted", "cordoned", "not ready", "drifted")


def test_a_price_that_is_not_a_number_is_not_known() -> None:
    for text, price in (("96000", 0.096), ("free", None), ("", None)):
        machine = make_machine(annotations={keys.PRICE_ANNOTATION: text})
        assert row_of(machine).price == price


def test_the_pods_of_a_node_move_to_the_row_of_the_machine_that_it_joins_for() -> None:
    picture = Picture()
    note(picture, (NODES, "a", make_node("a")))
    note(picture, (PODS, "default/web", make_pod("web", node_name="a", phase="Running")))
    assert [pod.node for pod in picture.take().put.pods] == ["Node/a"]
    note(picture, (MACHINES, "Machine/m", make_machine("m", node_name="a")))
    delta = picture.take()
    assert delta.gone.nodes == ("Node/a",)
    assert [pod.node for pod in delta.put.pods] == ["Machine/m"]


@pytest.mark.parametrize(
    ("unschedulable", "nominated", "waits"),
    [(False, "", "scheduling"), (True, "", "capacity"), (True, "a", "nominated")],
)
def test_what_a_pending_pod_waits_for_is_named(
    unschedulable: bool, nominated: str, waits: str
) -> None:
    picture = Picture()
    pod = make_pod("web", unschedulable=unschedulable, nominated_node=nominated)
    note(picture, (PODS, "default/web", pod))
    (row,) = picture.take().put.pods
    assert row.waits == waits


def test_nothing_of_a_pod_but_what_concerns_scheduling_is_in_its_row() -> None:
    assert set(PodRow.__struct_fields__) == {
        "id", "name", "node", "cpu", "memory", "state", "since", "daemon", "owner", "waits",
        "verdict", "change",
    }  # fmt: skip
