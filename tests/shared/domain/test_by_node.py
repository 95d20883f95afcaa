"""Pods by node: lists of nodes that kept their pods are the same objects from one snapshot to the next."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from shared.domain.workloads import by_node as module
from shared.domain.workloads import kept
from shared.domain.workloads.by_node import (
    Noted,
    any_virtual,
    by_node,
    by_uid,
    running,
    without_node,
)
from tests.support.planning.builders import make_bound_pod, make_pod

PODS = (make_bound_pod("one", "a"), make_pod("waits"), make_bound_pod("two", "b"))


@pytest.fixture(autouse=True)
def nothing_is_known() -> None:
    """Of larger clusters of other tests more is known than is kept beside three nodes."""
    kept.forget()


def test_pods_are_in_the_snapshots_order_and_those_without_a_node_have_the_empty_name() -> None:
    pods = (*PODS, make_bound_pod("three", "a"))
    found = {name: [pod.name for pod in own] for name, own in by_node(pods).items()}
    assert found == {"a": ["one", "three"], "": ["waits"], "b": ["two"]}
    assert list(without_node(pods)) == [PODS[1]]


def test_only_nodes_whose_pods_changed_have_another_list() -> None:
    before = by_node(PODS)
    after = by_node((*PODS, make_bound_pod("three", "b")))
    assert after["a"] is before["a"]
    assert after["b"] is not before["b"]


def test_an_equal_pod_that_is_another_record_makes_another_list() -> None:
    before = by_node(PODS)
    assert by_node((replace(PODS[0]), *PODS[1:]))["a"] is not before["a"]


def test_what_is_said_of_a_node_is_asked_once_until_its_pods_change() -> None:
    asked: list[int] = []
    noted = Noted(lambda pods: asked.append(len(pods)))
    assert [name for name, _ in noted.of(by_node(PODS))] == ["a", "", "b"]
    list(noted.of(by_node((*PODS, make_bound_pod("three", "b")))))
    assert asked == [1, 1, 1, 2]


def test_pods_that_ended_do_not_run() -> None:
    ended = make_bound_pod("done", "c", phase="Succeeded")
    assert running((*PODS, ended)).keys() == {"a", "b"}


def test_room_that_is_kept_is_seen() -> None:
    assert not any_virtual(PODS)
    assert any_virtual((*PODS, replace(PODS[1], uid="kept", virtual=True)))


def test_nodes_that_are_gone_do_not_stay_in_memory() -> None:
    for number in range(3 * kept.SPARE // 500):
        by_node(tuple(make_bound_pod(f"p-{n}", f"n-{number}-{n}") for n in range(500)))
        assert len(module._lists) <= 2 * 500 + kept.SPARE + 500


def test_pods_by_uid_are_those_of_the_tuple_that_is_asked_about() -> None:
    one, other = (make_pod("a"), make_pod("b")), (make_pod("a", cpu="2"),)
    assert by_uid(one) is by_uid(one)
    assert list(by_uid(one).values()) == list(one)
    assert list(by_uid(other).values()) == list(other)
    assert by_uid(()) == {}
