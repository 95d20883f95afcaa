"""Objects as chaos sees them: watches and lists together give the newest, and every promise finds its kinds."""

from __future__ import annotations

from typing import Any

import pytest

from shared.kube.informer import Deleted, Key, Put
from shared.kube.resources import LEASES, NODES, PODS, Resource
from simulation.chaos.store import SEEN, SeenStore
from simulation.invariants.mirror import expected_entries

Changes = list[tuple[str, str, bool]]


@pytest.fixture
def changes() -> Changes:
    return []


@pytest.fixture
def store(changes: Changes) -> SeenStore:
    def note(resource: Resource, key: Key, begins_deletion: bool) -> None:
        changes.append((resource.plural, str(key), begins_deletion))

    return SeenStore(note)


def pod(name: str, version: int, uid: str = "1", **more: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": str(version)}
    return {"metadata": meta, **more}


def gone(name: str, uid: str = "1") -> Deleted:
    return Deleted(Key("default", name), uid, "1")


def test_what_is_put_is_found_until_it_is_deleted(store: SeenStore, changes: Changes) -> None:
    store.take(PODS, Put(pod("a", 1)))
    assert store.find("pods", "a", namespace="default") == pod("a", 1)
    assert store.list("pods") == [pod("a", 1)]
    store.take(PODS, gone("a"))
    assert store.find("pods", "a", namespace="default") is None
    assert changes == [("pods", "default/a", False), ("pods", "default/a", True)]
    assert store.revision == 2


def test_a_deletion_begins_once(store: SeenStore, changes: Changes) -> None:
    store.take(PODS, Put(pod("a", 1)))
    ending = pod("a", 2)
    ending["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    store.take(PODS, Put(ending))
    store.take(PODS, gone("a"))
    assert [begins for _, _, begins in changes] == [False, True, False]


def test_an_older_version_changes_nothing(store: SeenStore) -> None:
    store.take(PODS, Put(pod("a", 10)))
    store.take(PODS, Put(pod("a", 9)))
    assert store.list("pods") == [pod("a", 10)]
    assert store.revision == 1


def test_the_deletion_of_a_former_object_leaves_its_successor(store: SeenStore) -> None:
    store.take(PODS, Put(pod("a", 1, uid="1")))
    store.take(PODS, Put(pod("a", 2, uid="2")))
    store.take(PODS, gone("a", uid="1"))
    assert store.list("pods") == [pod("a", 2, uid="2")]


def test_a_list_replaces_the_kind_and_no_other(store: SeenStore) -> None:
    store.take(PODS, Put(pod("a", 1)))
    store.take(PODS, Put(pod("b", 2, uid="2")))
    store.take(NODES, Put({"metadata": {"name": "n", "uid": "3", "resourceVersion": "3"}}))
    store.replace(PODS, [pod("b", 2, uid="2"), pod("c", 4, uid="4")])
    assert [one["metadata"]["name"] for one in store.list("pods")] == ["b", "c"]
    assert len(store.list("nodes")) == 1


def test_a_late_list_does_not_bring_back_what_a_watch_saw_go(store: SeenStore) -> None:
    store.take(PODS, Put(pod("a", 1)))
    store.take(PODS, gone("a"))
    store.replace(PODS, [pod("a", 1)])
    assert store.list("pods") == []


def test_every_kind_that_the_mirror_and_the_invariants_need_is_seen(store: SeenStore) -> None:
    class World:
        pass

    world: Any = World()
    world.store = store
    assert len(expected_entries(world)) == 12  # A kind that is not seen raises KeyError.
    assert LEASES in SEEN
