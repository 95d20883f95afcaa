"""Evictions and disruption budgets, after the real server's registry/core/pod/storage/eviction.go."""

from __future__ import annotations

import pytest

from local.cluster.api.errors import ApiError
from tests.local.cluster.api.conftest import Api, Document

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@pytest.fixture
def running(api: Api, pod: Document) -> str:
    """A ready pod on a node."""
    api.store.create("pods", pod, namespace="default")
    api.store.bind("web", "default", "n1")
    api.store.patch("pods", "web", {"status": READY}, namespace="default", subresource="status")
    return "/api/v1/namespaces/default/pods/web/eviction"


def budget(api: Api, name: str, **status: int) -> None:
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    body = {"metadata": {"name": name}, "spec": spec}
    group, plural = "policy", "poddisruptionbudgets"
    api.store.create(plural, body, group=group, namespace="default")
    api.store.patch(
        plural, name, {"status": status}, group=group, namespace="default", subresource="status"
    )


def allowed(api: Api, name: str) -> int:
    found = api.store.get("poddisruptionbudgets", name, group="policy", namespace="default")
    return int(found["status"]["disruptionsAllowed"])


async def test_an_exhausted_budget_refuses(api: Api, running: str) -> None:
    budget(api, "web", disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    code, status = await api.post(running, {})
    assert (code, status["reason"]) == (429, "TooManyRequests")
    cause = status["details"]["causes"][0]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget web needs 1 healthy pods and has 1 currently"


async def test_an_eviction_is_charged_to_the_budget(api: Api, running: str) -> None:
    budget(api, "web", disruptionsAllowed=1, desiredHealthy=1, currentHealthy=2)
    assert (await api.post(running, {}))[0] == 201
    assert allowed(api, "web") == 0
    marked = api.store.get("pods", "web", namespace="default")
    assert marked["metadata"]["deletionTimestamp"]


async def test_a_dry_run_charges_nothing(api: Api, running: str) -> None:
    budget(api, "web", disruptionsAllowed=1)
    assert (await api.post(running, {"deleteOptions": {"dryRun": ["All"]}}))[0] == 201
    assert allowed(api, "web") == 1


async def test_two_budgets_for_one_pod_are_an_error(api: Api, running: str) -> None:
    budget(api, "one", disruptionsAllowed=1)
    budget(api, "two", disruptionsAllowed=1)
    code, status = await api.post(running, {})
    assert (code, "more than one PodDisruptionBudget" in status["message"]) == (500, True)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
async def test_a_pod_that_does_not_serve_needs_no_budget(
    api: Api, running: str, phase: str
) -> None:
    budget(api, "web", disruptionsAllowed=0)
    body = {"status": {"phase": phase}}
    api.store.patch("pods", "web", body, namespace="default", subresource="status")
    assert (await api.post(running, {}))[0] == 201


async def test_an_unready_pod_of_a_healthy_workload_goes_free(api: Api, running: str) -> None:
    budget(api, "web", disruptionsAllowed=0, desiredHealthy=1, currentHealthy=1)
    body = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    api.store.patch("pods", "web", body, namespace="default", subresource="status")
    assert (await api.post(running, {}))[0] == 201


async def test_an_eviction_can_name_the_pod_it_means(api: Api, running: str) -> None:
    options = {"preconditions": {"uid": "another"}}
    with pytest.raises(ApiError) as caught:
        api.store.evict("web", "default", delete_options=options)
    assert caught.value.code == 409
