"""ProvisioningRequests as Kueue writes them, on real Redis and a real API server (GAT-04)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from services.scheduler.kept_room.requests import REVOKE_SECONDS
from shared.api.core.autoscaling.provisioning_requests import parse_provisioning_request
from shared.domain.workloads.capacity_buffers import PodTemplate
from shared.domain.workloads.provisioning_requests import (
    ATOMIC,
    BOOKING_SECONDS,
    CHECK_CAPACITY,
    ProvisioningRequest,
)
from shared.kube.client import Kube
from shared.kube.resources import PROVISIONING_REQUESTS
from tests.services.scheduler.conftest import Later, Scheduler, machines, pool_of
from tests.support.planning.builders import make_bound_pod, make_node, make_pod

NAME = "sample-job-prov-1"
WORKERS = PodTemplate("PodTemplate", "default", f"ppt-{NAME}-main", make_pod("main", cpu="3"))
BIG = PodTemplate("PodTemplate", "default", "big", make_pod("big", cpu="500"))


def kueue_request(class_name: str, *counts: int, **spec: Any) -> dict[str, Any]:
    """What Kueue's provisioning admission check creates for a workload; its pod templates come a moment later."""
    sets = [{"podTemplateRef": {"name": WORKERS.name}, "count": n} for n in counts]
    return {
        "metadata": {"name": NAME, "labels": {"kueue.x-k8s.io/managed": "true"}},
        "spec": {"provisioningClassName": class_name, "podSets": sets, **spec},
    }


async def stored(kube: Kube, raw: dict[str, Any] | None = None) -> ProvisioningRequest:
    found = raw or await kube.get(PROVISIONING_REQUESTS, NAME, "default")
    record = parse_provisioning_request(found).record
    assert record is not None
    return record


async def created(scheduler: Scheduler, kube: Kube, body: dict[str, Any], **kinds: Any) -> None:
    """Stored, and in the mirror with a pool, the template and whatever else."""
    raw = await kube.create(PROVISIONING_REQUESTS, body, "default")
    shown = {"podtemplates": [WORKERS, BIG], **kinds}
    pool = await pool_of(kube)
    await scheduler.show(nodepools=[pool], provisioningrequests=[await stored(kube, raw)], **shown)


async def answer(scheduler: Scheduler, kube: Kube) -> dict[str, tuple[str, str]]:
    """One round and what it wrote, which the mirror shows from then on."""
    await scheduler.plan()
    return await written(scheduler, kube)


async def written(scheduler: Scheduler, kube: Kube) -> dict[str, tuple[str, str]]:
    await scheduler.planner.requests.step()
    record = await stored(kube)
    await scheduler.show(provisioningrequests=[record])
    return {name: (one.status, one.reason) for name, one in record.conditions.items()}


ACCEPTED = {"Accepted": ("True", "Accepted")}


async def test_atomic_buys_for_all_pods_and_is_provisioned_when_nodes_run(
    scheduler: Scheduler, kube: Kube, events: Any
) -> None:
    """Once: a second round and a restarted scheduler buy nothing more."""
    await created(scheduler, kube, kueue_request(ATOMIC, 2, 1))
    assert await answer(scheduler, kube) == {
        **ACCEPTED,
        "Provisioned": ("False", "CapacityIsStarting"),
    }
    bought = await machines(kube)
    assert sum(float(m["spec"]["resources"]["requests"]["cpu"]) for m in bought) == 9
    scheduler.view.created.clear()
    await answer(scheduler, kube)
    assert len(await machines(kube)) == len(bought)
    await scheduler.show(nodes=[make_node("n1", cpu="9")])
    assert await answer(scheduler, kube) == {
        **ACCEPTED,
        "Provisioned": ("True", "CapacityIsProvisioned"),
    }
    assert await events() == []


async def test_atomic_buys_nothing_when_one_pod_finds_no_place(
    scheduler: Scheduler, kube: Kube
) -> None:
    body = kueue_request(ATOMIC, 2)
    body["spec"]["podSets"].append({"podTemplateRef": {"name": "big"}, "count": 1})
    await created(scheduler, kube, body)
    found = await answer(scheduler, kube)
    assert found == {**ACCEPTED, "Provisioned": ("False", "CapacityIsNotFound")}
    assert await machines(kube) == []
    message = (await stored(kube)).conditions["Provisioned"].message
    assert "1 of its 3 pods find no place, so none is placed" in message


@pytest.mark.parametrize(
    ("cpu", "parameters", "expected"),
    [
        ("6", {}, {"Provisioned": ("True", "CapacityIsFound")}),
        ("5", {}, {"Provisioned": ("False", "CapacityIsNotFound")}),
        ("5", {"noRetry": "true"}, {"Failed": ("True", "CapacityIsNotFound")}),
    ],
)
async def test_a_check_looks_at_nodes_that_run_and_buys_nothing(
    scheduler: Scheduler,
    kube: Kube,
    cpu: str,
    parameters: dict[str, str],
    expected: dict[str, tuple[str, str]],
) -> None:
    body = kueue_request(CHECK_CAPACITY, 2, parameters=parameters)
    await created(scheduler, kube, body, nodes=[make_node("n1", cpu=cpu)])
    assert await answer(scheduler, kube) == {**ACCEPTED, **expected}
    assert await machines(kube) == []


@pytest.mark.parametrize(
    ("mode", "cpu", "expected", "fitting"),
    [
        ("checkOnly", "6", ("False", "PartialCapacityIsFound"), (WORKERS.name,)),
        ("bookPartial", "6", ("True", "PartialCapacityIsFound"), (WORKERS.name,)),
        ("bookPartial", "506", ("True", "CapacityIsFound"), (WORKERS.name, "big")),
        ("bookPartial", "2", ("False", "CapacityIsNotFound"), ()),
    ],
)
async def test_a_partial_check_looks_at_each_pod_set_by_itself(
    scheduler: Scheduler, kube: Kube, mode: str, cpu: str, expected: Any, fitting: tuple[str, ...]
) -> None:
    """Cluster Autoscaler's parameter: the status names the pod sets; only bookPartial keeps the room of a part."""
    body = kueue_request(CHECK_CAPACITY, 2, parameters={"partialCapacityCheck": mode})
    body["spec"]["podSets"].append({"podTemplateRef": {"name": "big"}, "count": 1})
    nodes = [make_node("n1", cpu=cpu, memory="64Gi")]
    await created(scheduler, kube, body, nodes=nodes)
    assert (await answer(scheduler, kube))["Provisioned"] == expected
    assert (await stored(kube)).fitting == fitting
    await scheduler.show(pods=[make_pod("other", cpu="1")])
    await scheduler.plan("other")
    keeps_room = expected[0] == "True"
    assert len(await machines(kube)) == keeps_room


async def lost(scheduler: Scheduler, kube: Kube, seconds: float) -> dict[str, tuple[str, str]]:
    """The conditions after plans with and without time between them."""
    await scheduler.plan("at once")
    requests = scheduler.planner.requests
    requests.clock = Later(requests.clock, seconds)
    await scheduler.plan("later")
    return await written(scheduler, kube)


async def test_room_that_is_gone_for_good_is_revoked_after_a_minute(
    scheduler: Scheduler, kube: Kube
) -> None:
    """The node of the booked room is interrupted, and there is no other."""
    body = kueue_request(CHECK_CAPACITY, 2)
    await created(scheduler, kube, body, nodes=[make_node("n1", cpu="6")])
    before = await answer(scheduler, kube)
    assert before["Provisioned"] == ("True", "CapacityIsFound")
    await scheduler.hide("nodes", "n1")
    assert await lost(scheduler, kube, REVOKE_SECONDS - 1) == before
    found = await lost(scheduler, kube, 2)
    assert found == {**before, "CapacityRevoked": ("True", "CapacityRevoked")}
    text = (await stored(kube)).conditions["CapacityRevoked"].message
    assert "room for 0 of 2 pods" in text


async def test_room_that_comes_back_is_not_revoked(scheduler: Scheduler, kube: Kube) -> None:
    body = kueue_request(CHECK_CAPACITY, 2)
    await created(scheduler, kube, body, nodes=[make_node("n1", cpu="6")])
    before = await answer(scheduler, kube)
    await scheduler.hide("nodes", "n1")
    assert await lost(scheduler, kube, 30.0) == before
    await scheduler.show(nodes=[make_node("n2", cpu="6")])
    assert await lost(scheduler, kube, REVOKE_SECONDS) == before


async def test_a_check_counts_pods_that_wait(scheduler: Scheduler, kube: Kube) -> None:
    """The room that a pod is about to use is not promised to the request as well."""
    given = {"nodes": [make_node("n1", cpu="6")], "pods": [make_pod("web", cpu="1")]}
    await created(scheduler, kube, kueue_request(CHECK_CAPACITY, 2), **given)
    found = await answer(scheduler, kube)
    assert found["Provisioned"] == ("False", "CapacityIsNotFound")


async def test_booked_room_is_kept_from_others_until_its_pods_come(
    scheduler: Scheduler, kube: Kube
) -> None:
    """A pod of another workload gets a machine of its own; one with Kueue's annotation uses the room."""
    body = kueue_request(CHECK_CAPACITY, 2)
    await created(scheduler, kube, body, nodes=[make_node("n1", cpu="6")])
    await answer(scheduler, kube)
    await scheduler.show(pods=[make_pod("other", cpu="1")])
    await scheduler.plan("other")
    assert len(await machines(kube)) == 1
    own = make_pod("main-0", cpu="3", consumes=NAME)
    await scheduler.show(gone=[("pods", "default/other")], pods=[own])
    await scheduler.plan("own")
    plan = scheduler.planner.last_plan
    assert plan is not None
    assert plan.existing == {"n1": ("uid-main-0",)}


async def test_the_room_is_given_up_after_ten_minutes(scheduler: Scheduler, kube: Kube) -> None:
    """Only the condition's time says so, so no restart prolongs or forgets it."""
    body = kueue_request(CHECK_CAPACITY, 2)
    await created(scheduler, kube, body, nodes=[make_node("n1", cpu="6")])
    before = await answer(scheduler, kube)
    assert await written(scheduler, kube) == before
    requests = scheduler.planner.requests
    requests.clock = Later(requests.clock, BOOKING_SECONDS + 1)
    found = await written(scheduler, kube)
    assert found == {**before, "BookingExpired": ("True", "CapacityReservationTimeExpired")}


async def test_templates_that_come_later_are_waited_for(scheduler: Scheduler, kube: Kube) -> None:
    """Kueue creates the request first."""
    await created(scheduler, kube, kueue_request(ATOMIC, 1), podtemplates=[])
    assert await answer(scheduler, kube) == {
        **ACCEPTED,
        "Provisioned": ("False", "PodTemplateNotFound"),
    }
    assert (
        "spec.podSets[0].podTemplateRef: PodTemplate default/ppt-"
        in (await stored(kube)).conditions["Provisioned"].message
    )
    await scheduler.show(podtemplates=[WORKERS])
    assert (await answer(scheduler, kube))["Provisioned"] == ("False", "CapacityIsStarting")


async def test_a_request_that_is_not_met_in_time_fails(scheduler: Scheduler, kube: Kube) -> None:
    body = kueue_request(ATOMIC, 1, parameters={"ValidUntilSeconds": "0"})
    body["spec"]["podSets"][0]["podTemplateRef"]["name"] = "big"
    await created(scheduler, kube, body)
    assert await answer(scheduler, kube) == {**ACCEPTED, "Failed": ("True", "Expired")}


async def test_nothing_is_bought_for_a_request_that_is_gone(
    scheduler: Scheduler, kube: Kube
) -> None:
    """BAT-05: Kueue deletes requests that it does not need any more."""
    await created(scheduler, kube, kueue_request(ATOMIC, 2))
    await kube.delete(PROVISIONING_REQUESTS, NAME, "default")
    await scheduler.plan()
    assert await machines(kube) == []


async def test_other_classes_are_left_alone(scheduler: Scheduler, kube: Kube) -> None:
    await created(scheduler, kube, kueue_request("queued.example.com", 2))
    await scheduler.plan()
    await scheduler.planner.requests.step()
    assert (await stored(kube)).conditions == {}
    assert await machines(kube) == []


async def test_the_pods_of_a_provisioned_request_take_its_machines(
    scheduler: Scheduler, kube: Kube
) -> None:
    """As they come the kept room shrinks, and nothing is bought beside it."""
    await created(scheduler, kube, kueue_request(ATOMIC, 2), nodes=[make_node("n1", cpu="6")])
    assert (await answer(scheduler, kube))["Provisioned"] == ("True", "CapacityIsProvisioned")
    await scheduler.show(pods=[make_bound_pod("main-0", "n1", cpu="3", consumes=NAME)])
    await scheduler.plan("half")
    assert await machines(kube) == []
    await scheduler.show(pods=[make_bound_pod("other", "n1", cpu="1")])
    await scheduler.plan("taken")
    (raw,) = await machines(kube)
    assert raw["spec"]["resources"]["requests"]["cpu"] == "3", "what was promised is bought again"


async def test_a_faulty_request_fails_with_the_field(scheduler: Scheduler, kube: Kube) -> None:
    body = kueue_request(ATOMIC, 2, parameters={"ValidUntilSeconds": "soon"})
    raw = await kube.create(PROVISIONING_REQUESTS, body, "default")
    await scheduler.show(provisioningrequests=[await stored(kube, raw)])
    assert await written(scheduler, kube) == {"Failed": ("True", "InvalidRequest")}
    failed = (await stored(kube)).conditions["Failed"]
    assert failed.message.startswith("spec.parameters.ValidUntilSeconds: 'soon' is no number")
    assert replace(await stored(kube), faults=()).stage(now=0.0) == "over"
