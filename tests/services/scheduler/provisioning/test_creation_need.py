"""Right before a machine is written the API server says whether its pods still wait (BAT-05)."""

from __future__ import annotations

import pytest

from services.scheduler.provisioning.creation import MANY_MACHINES, Need, spread, still_needs
from shared.kube.client import Kube
from shared.kube.resources import PODS
from tests.services.scheduler.conftest import Scheduler, machines, pool_of
from tests.support.planning.builders import make_bound_pod, make_pod, make_pods


@pytest.mark.parametrize("how", ["never", "another", "bound", "gone"])
async def test_nothing_is_bought_for_pods_that_do_not_wait(
    scheduler: Scheduler, kube: Kube, how: str
) -> None:
    """The picture shows a pod that waits; the API server knows better."""
    shown, pool = make_pod("web"), await pool_of(kube)
    stored = {"another": make_pod("web", uid="uid-new"), "bound": make_bound_pod("web", "n")}
    if how == "gone":
        await scheduler.show(pods=[shown])
        await kube.delete(PODS, "web", "default", grace_seconds=0)
    if how in stored:
        await scheduler.show(pods=[stored[how]])
    await scheduler.show_only(nodepools=[pool], pods=[shown])
    await scheduler.plan()
    assert await machines(kube) == []
    assert not scheduler.planner.nominated()


async def test_one_real_pod_is_reason_enough(scheduler: Scheduler, kube: Kube) -> None:
    """The others of its machine may be gone."""
    pods = make_pods(4)
    await scheduler.show(pods=pods[3:])
    await scheduler.show_only(nodepools=[await pool_of(kube)], pods=pods)
    await scheduler.plan()
    assert len(await machines(kube)) == 1


async def test_for_many_machines_the_waiting_pods_are_listed_once(
    scheduler: Scheduler, kube: Kube
) -> None:
    """Bound pods and leaving ones are not among them; pods of leaving nodes are still read one by one."""
    bound, leaves = make_bound_pod("bound", "n"), make_pod("leaves")
    await scheduler.show(pods=[make_pod("waits"), bound, leaves])
    await kube.patch(PODS, "leaves", {"metadata": {"finalizers": ["a/b"]}}, "default")
    await kube.delete(PODS, "leaves", "default", grace_seconds=0)
    need = Need(kube)
    assert await need.listed(MANY_MACHINES - 1) == frozenset()
    listed = await need.listed(MANY_MACHINES)
    assert listed == {"uid-waits"}
    assert await need.is_proven(["uid-x", "uid-waits"], {}, listed)
    assert await need.is_proven([bound.uid], {bound.uid: bound}, listed)
    assert not await need.is_proven([leaves.uid], {leaves.uid: leaves}, listed)


def test_a_pod_that_leaves_for_good_needs_nothing() -> None:
    """One that was planned for while it left (a StatefulSet's) still does."""
    pod, leaving = make_pod("a"), make_pod("a", terminating=True)
    assert still_needs(pod, pod)
    assert not still_needs(pod, leaving)
    assert still_needs(leaving, leaving)
    assert not still_needs(pod, make_pod("a", phase="Succeeded"))
    assert not still_needs(pod, make_pod("a", uid="other"))
    assert still_needs(make_bound_pod("b", "n"), make_bound_pod("b", "n"))
    assert not still_needs(make_bound_pod("b", "n"), make_bound_pod("b", "m"))


def test_few_are_read_and_from_all_over() -> None:
    assert spread(["a", "b"], 5) == ["a", "b"]
    assert spread([str(n) for n in range(10)], 5) == ["0", "2", "4", "6", "8"]
