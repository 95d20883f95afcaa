"""Actions of people on a real API server and on the emulator's instances."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from local.aws.emulator import Emulator
from local.aws.settings import EmulatorSettings
from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from shared.kube.resources import NODES, PDBS, PODS
from simulation.users import Action, UserSettings, What, perform, plan_users, repeated
from simulation.users.performing import BY_HAND, MOST_REPEATS, choose
from simulation.users.workloads import pod_budget
from tests.services.conftest import store_with_our_kinds
from tests.simulation.invariants.builders import instance
from tests.support.cluster.fixture import connect, embedded_api_server, write_kubeconfig


@pytest.fixture
def store() -> Store:
    return store_with_our_kinds()


@pytest.fixture
async def world(store: Store, tmp_path: Path) -> AsyncIterator[Any]:
    """What ``perform`` uses of a world."""
    settings = EmulatorSettings(seed=False)
    clock = SystemClock()
    emulator = Emulator(settings, clock, lambda _: None)
    with embedded_api_server(store=store) as url:
        kube = await connect(write_kubeconfig(tmp_path / "kubeconfig", url))
        yield SimpleNamespace(kube=kube, emulator=emulator, store=store, clock=clock)
        await kube.close()


def node(store: Store, name: str) -> None:
    store.create("nodes", {"metadata": {"name": name}})


def pod(store: Store, name: str, on: str, **more: Any) -> None:
    store.create(
        "pods",
        {
            "metadata": {"name": name, "labels": {"app": "web"}, **more},
            "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": on},
        },
        namespace="default",
    )


@pytest.mark.slow
async def test_a_whole_plan_is_accepted_by_the_api_server(world: Any) -> None:
    """What the API server refuses are broken pools, and nothing else; what is missing was deleted with its owner."""
    plan = plan_users(Random(5), 12, UserSettings(actions_per_minute=40))
    outcomes = {str(action): await perform(action, world) for action in plan}
    refused = {text: what for text, what in outcomes.items() if "refused" in what}
    assert all("broken-pool" in text for text in refused)
    failed = {text: what for text, what in outcomes.items() if what.startswith("failed")}
    assert failed == {}
    assert {"created", "done", "there is none"} <= {*outcomes.values()}


async def test_a_plan_that_lost_entries_is_survived(world: Any) -> None:
    """--shrink leaves actions out: later ones find nothing."""
    plan = plan_users(Random(5), 12, UserSettings(actions_per_minute=40))
    kept = [action for number, action in enumerate(plan) if number % 3 == 0]
    outcomes = [await perform(action, world) for action in kept]
    assert any("NotFound" in outcome for outcome in outcomes)


async def test_a_drain_by_hand_cordons_and_evicts_all_but_daemon_pods(world: Any) -> None:
    node(world.store, "one")
    pod(world.store, "web-1", "one")
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}
    pod(world.store, "daemon-1", "one", ownerReferences=[{**daemon, "controller": True}])
    outcome = await perform(Action(0, What.DRAIN_NODE), world)
    assert outcome == "cordoned one, evicted 1 of 2 pods"
    assert (await world.kube.get(NODES, "one"))["spec"]["unschedulable"] is True
    gone = (await world.kube.get(PODS, "web-1", "default"))["metadata"].get("deletionTimestamp")
    assert gone
    await perform(Action(0, What.UNCORDON_NODES), world)
    assert "unschedulable" not in (await world.kube.get(NODES, "one"))["spec"]


async def test_a_deleted_node_is_the_one_that_the_choice_names(world: Any) -> None:
    for name in ("a", "b", "c"):
        node(world.store, name)
    await perform(Action(0, What.DELETE_NODE, choice=0.5), world)
    assert [raw["metadata"]["name"] for raw in (await world.kube.list(NODES)).items] == ["a", "c"]


async def test_a_person_ends_an_instance_of_this_cluster_only(world: Any) -> None:
    ours, foreign = instance("i-1"), instance("i-2", tags={})
    ours.state = foreign.state = "running"
    for one in (foreign, ours):
        world.emulator.inventory.add(one)
        one.state = "running"
    assert await perform(Action(0, What.TERMINATE_INSTANCE, choice=0.99), world) == "terminated i-1"
    assert (ours.state, ours.state_reason) == ("shutting-down", BY_HAND)
    assert foreign.state == "running"
    assert await perform(Action(0, What.STOP_INSTANCE), world) == "there is none"


async def test_a_reservation_is_of_a_type_that_is_offered_and_ends_in_time(world: Any) -> None:
    body = {"count": 2, "seconds": 60.0, "tags": {"a": "b"}}
    assert (await perform(Action(0, What.RESERVE, body=body), world)).startswith("reserved c5.")
    (row,) = world.emulator.reservations.described({}, world.clock.now())
    assert (row["TotalInstanceCount"], row["Tags"]) == (2, [{"Key": "a", "Value": "b"}])
    assert (
        world.emulator.reservations.described({}, world.clock.now() + 61)[0]["State"] == "expired"
    )


async def test_a_budget_is_created_and_deleted(world: Any) -> None:
    body = pod_budget(Random(1), "web")
    apply = Action(0, What.APPLY, "poddisruptionbudgets", "web", body)
    assert await perform(apply, world) == "created"
    assert await perform(apply, world) == "changed"
    delete = Action(0, What.DELETE, "poddisruptionbudgets", "web")
    assert await perform(delete, world) == "done"
    assert (await world.kube.list(PDBS)).items == []
    assert (await perform(delete, world)).startswith("failed: NotFound")


@pytest.mark.parametrize(("choice", "expected"), [(0.0, 1), (0.34, 2), (0.999, 3), (1.0, 3)])
def test_a_choice_is_a_share_of_the_list(choice: float, expected: int) -> None:
    assert choose([1, 2, 3], choice) == expected
    assert choose([], choice) is None


@pytest.mark.parametrize(
    ("until_done", "outcomes", "tries"),
    [
        (True, ["failed: Unavailable", "no answer", "done", "done"], 3),
        (True, ["failed: Unavailable"] * 99, 1 + MOST_REPEATS),
        (False, ["failed: Unavailable", "done"], 1),
    ],
)
async def test_what_the_end_of_a_run_counts_on_is_repeated_until_it_is_done(
    until_done: bool, outcomes: list[str], tries: int
) -> None:
    """mixed 50179: the API server refused that machines expire no more, and they were replaced for ever."""
    given = iter(outcomes)
    waits: list[float] = []

    async def once() -> str:
        return next(given)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    action = Action(0.0, What.PATCH, "nodepools", "main", {"spec": {}}, until_done=until_done)
    assert await repeated(action, once, sleep) == outcomes[tries - 1]
    assert len(waits) == tries - 1
