"""Objects over HTTP: identity, compare-and-set, subresources, deletion."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.local.cluster.api.conftest import Api, Document

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def deployment(pod: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": pod["spec"]}
    return {
        "metadata": {"name": "web"},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


async def test_a_created_object_gets_its_identity_and_defaults(api: Api, pod: Document) -> None:
    code, made = await api.post(PODS, pod)
    assert code == 201
    metadata, spec = made["metadata"], made["spec"]
    assert metadata["uid"]
    assert metadata["generation"] == 1
    assert metadata["creationTimestamp"].endswith("Z")
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1"}
    assert made["status"]["phase"] == "Pending"


@pytest.mark.parametrize(("request_", "limit"), [("9m", "0.009"), ("1", "1000m"), ("1e3", "1k")])
async def test_a_request_equal_to_its_limit_in_another_form_is_accepted(
    api: Api, pod: Document, request_: str, limit: str
) -> None:
    pod["spec"]["containers"][0]["resources"] = {
        "requests": {"cpu": request_},
        "limits": {"cpu": limit},
    }
    code, answer = await api.post(PODS, pod)
    assert code == 201, answer


async def test_generate_name_makes_distinct_names(api: Api, pod: Document) -> None:
    pod["metadata"] = {"generateName": "web-"}
    names = {(await api.post(PODS, pod))[1]["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_a_second_create_is_already_exists(api: Api, pod: Document) -> None:
    await api.post(PODS, pod)
    code, status = await api.post(PODS, pod)
    assert (code, status["reason"]) == (409, "AlreadyExists")
    assert status["message"] == 'pods "web" already exists'


async def test_a_create_in_a_missing_namespace_is_not_found(api: Api, pod: Document) -> None:
    code, status = await api.post("/api/v1/namespaces/nowhere/pods", pod)
    assert (code, status["message"]) == (404, 'namespaces "nowhere" not found')


async def test_an_update_with_a_stale_version_is_a_conflict_and_the_fresh_one_wins(
    api: Api, deployment: dict[str, Any]
) -> None:
    _, made = await api.post(DEPLOYMENTS, deployment)
    made["spec"]["replicas"] = 2
    code, updated = await api.call("PUT", f"{DEPLOYMENTS}/web", made)
    assert (code, updated["metadata"]["generation"]) == (200, 2)
    made["spec"]["replicas"] = 3
    code, status = await api.call("PUT", f"{DEPLOYMENTS}/web", made)
    assert (code, status["reason"]) == (409, "Conflict")


async def test_an_update_that_changes_nothing_keeps_the_version(
    api: Api, deployment: dict[str, Any]
) -> None:
    _, made = await api.post(DEPLOYMENTS, deployment)
    _, again = await api.call("PUT", f"{DEPLOYMENTS}/web", made)
    assert again["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]


async def test_status_and_spec_are_written_apart(api: Api, deployment: dict[str, Any]) -> None:
    await api.post(DEPLOYMENTS, deployment)
    both = {"spec": {"replicas": 9}, "status": {"readyReplicas": 4}}
    _, by_status = await api.merge(f"{DEPLOYMENTS}/web/status", both)
    assert (by_status["spec"]["replicas"], by_status["status"]) == (1, {"readyReplicas": 4})
    assert by_status["metadata"]["generation"] == 1
    both["status"] = {"readyReplicas": 7}
    _, by_spec = await api.merge(f"{DEPLOYMENTS}/web", both)
    assert (by_spec["spec"]["replicas"], by_spec["status"]) == (9, {"readyReplicas": 4})


async def test_scale_reads_and_writes_replicas(api: Api, deployment: dict[str, Any]) -> None:
    await api.post(DEPLOYMENTS, deployment)
    code, scale = await api.merge(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": 4}})
    assert (code, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 4})
    assert scale["status"]["selector"] == "app=web"
    assert (await api.get(f"{DEPLOYMENTS}/web"))[1]["spec"]["replicas"] == 4


async def test_a_finalizer_holds_a_deleted_object_until_it_is_taken_off(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await api.post(path, {"metadata": {"name": "held", "finalizers": ["example.org/x"]}})
    _, marked = await api.call("DELETE", f"{path}/held")
    assert marked["metadata"]["deletionTimestamp"]
    added = {"metadata": {"finalizers": ["example.org/x", "example.org/y"]}}
    assert (await api.merge(f"{path}/held", added))[0] == 422
    await api.merge(f"{path}/held", {"metadata": {"finalizers": None}})
    assert (await api.get(f"{path}/held"))[0] == 404


async def test_a_bound_pod_stays_until_its_kubelet_confirms(api: Api, pod: Document) -> None:
    await api.post(PODS, pod)
    binding = {"target": {"kind": "Node", "name": "n1"}}
    assert (await api.post(f"{PODS}/web/binding", binding))[0] == 201
    assert (await api.post(f"{PODS}/web/binding", binding))[0] == 409
    _, marked = await api.call("DELETE", f"{PODS}/web")
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
    assert (await api.get(f"{PODS}/web"))[0] == 200
    await api.call("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert (await api.get(f"{PODS}/web"))[0] == 404


async def test_an_unbound_pod_goes_at_once(api: Api, pod: Document) -> None:
    await api.post(PODS, pod)
    code, status = await api.call("DELETE", f"{PODS}/web")
    assert (code, status["status"]) == (200, "Success")
    assert (await api.get(f"{PODS}/web"))[0] == 404


async def test_preconditions_protect_another_object_of_the_same_name(
    api: Api, pod: Document
) -> None:
    await api.post(PODS, pod)
    code, status = await api.call("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}})
    assert (code, status["reason"]) == (409, "Conflict")


async def test_a_dry_run_answers_and_stores_nothing(api: Api, pod: Document) -> None:
    assert (await api.post(f"{PODS}?dryRun=All", pod))[0] == 201
    assert (await api.get(f"{PODS}/web"))[0] == 404


async def test_a_collection_is_deleted_by_label(api: Api, pod: Document) -> None:
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        pod["metadata"] = {"name": name, "labels": {"app": app}}
        await api.post(PODS, pod)
    await api.call("DELETE", f"{PODS}?labelSelector=app%3Dweb")
    _, left = await api.get(PODS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["c"]


async def test_pages_show_the_state_of_the_first_page(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for name in "abcd":
        await api.post(path, {"metadata": {"name": name}})
    _, first = await api.get(f"{path}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 2
    await api.call("DELETE", f"{path}/c")
    await api.post(path, {"metadata": {"name": "e"}})
    _, second = await api.get(f"{path}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c", "d"]
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_an_old_continue_token_has_expired(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    for name in "abc":
        await api.post(path, {"metadata": {"name": name}})
    _, first = await api.get(f"{path}?limit=1")
    for number in range(700):
        api.store.patch("configmaps", "a", {"data": {"n": str(number)}}, namespace="default")
    code, status = await api.get(f"{path}?limit=1&continue={first['metadata']['continue']}")
    assert (code, status["reason"]) == (410, "Expired")


@pytest.mark.parametrize(
    ("body", "media", "code", "reason"),
    [
        (b"{broken", "application/json", 400, "BadRequest"),
        (b"[1]", "application/json", 400, "BadRequest"),
        (b"k8s\x00", "application/vnd.kubernetes.protobuf", 415, "UnsupportedMediaType"),
        (
            b'{"metadata": {"name": "x"}, "spec": {"containers": ["x"]}}',
            "application/json",
            400,
            "BadRequest",
        ),
        (b'{"kind": "Node", "metadata": {"name": "x"}}', "application/json", 400, "BadRequest"),
    ],
)
async def test_a_bad_body_is_answered_with_a_status(
    api: Api, body: bytes, media: str, code: int, reason: str
) -> None:
    found, status = await api.call("POST", PODS, body, media=media)
    assert (found, status["kind"], status["reason"]) == (code, "Status", reason)


@pytest.mark.parametrize("path", ["/nothing", "/api/v1/unicorns", "/apis/x.org/v1/things/a/b/c"])
async def test_an_unknown_path_is_not_found(api: Api, path: str) -> None:
    code, status = await api.get(path)
    assert (code, status["reason"]) == (404, "NotFound")


async def test_an_invalid_pod_names_every_broken_field(api: Api) -> None:
    container = {"name": "a", "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}
    code, status = await api.post(
        PODS, {"metadata": {"name": "Bad_Name"}, "spec": {"containers": [container]}}
    )
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert code == 422
    assert fields == [
        "metadata.name",
        "spec.containers[0].image",
        "spec.containers[0].resources.requests",
    ]


async def test_a_selector_that_misses_its_template_is_refused(
    api: Api, deployment: dict[str, Any]
) -> None:
    deployment["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    code, status = await api.post(DEPLOYMENTS, deployment)
    assert code == 422
    assert status["details"]["causes"][0]["field"] == "spec.template.metadata.labels"


async def test_a_dying_namespace_takes_no_new_content_and_ends_when_finalized(
    api: Api, pod: Document
) -> None:
    await api.post("/api/v1/namespaces", {"metadata": {"name": "old"}})
    _, marked = await api.call("DELETE", "/api/v1/namespaces/old")
    assert marked["status"]["phase"] == "Terminating"
    assert (await api.post("/api/v1/namespaces/old/pods", pod))[0] == 403
    marked["spec"]["finalizers"] = []
    await api.call("PUT", "/api/v1/namespaces/old/finalize", marked)
    assert (await api.get("/api/v1/namespaces/old"))[0] == 404


async def test_stored_documents_are_replaced_and_never_changed(api: Api, pod: Document) -> None:
    before = api.store.create("pods", pod, namespace="default")
    labels = before["metadata"]["labels"]
    api.store.patch("pods", "web", {"metadata": {"labels": {"new": "1"}}}, namespace="default")
    api.store.bind("web", "default", "n1")
    assert labels == {"app": "web"}
    assert "nodeName" not in before["spec"]


async def test_parallel_writers_lose_no_update(api: Api) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    await api.post(path, {"metadata": {"name": "shared"}, "data": {}})

    async def add(number: int) -> None:
        while True:
            _, current = await api.get(f"{path}/shared")
            current["data"] = {**current.get("data", {}), f"k{number}": "1"}
            if (await api.call("PUT", f"{path}/shared", current))[0] == 200:
                return

    await asyncio.wait_for(asyncio.gather(*(add(number) for number in range(8))), 60)
    assert len((await api.get(f"{path}/shared"))[1]["data"]) == 8


METHODS = {"get": "GET", "update": "PUT", "create": "POST", "patch": "PATCH"}


@pytest.mark.parametrize("version", ["/api/v1", "/apis/apps/v1", "/apis/policy/v1"])
async def test_every_verb_that_is_advertised_is_allowed(api: Api, version: str) -> None:
    """`kubectl patch --subresource` reads the subresource first."""
    _, served = await api.get(version)
    refused = []
    for one in served["resources"]:
        plural, _, subresource = one["name"].partition("/")
        place = "/namespaces/default" if one["namespaced"] else ""
        path = f"{version}{place}/{plural}/none" + f"/{subresource}" * bool(subresource)
        for verb in METHODS.keys() & set(one["verbs"]):
            if verb == "create" and not subresource:
                continue  # to the collection, not to an object
            code, _ = await api.call(METHODS[verb], path, {"metadata": {"name": "none"}})
            refused += [f"{verb} {path}"] * (code == 405)
    assert refused == []


@pytest.mark.parametrize(
    ("stated", "name", "answer"),
    [(-20, None, 403), (-20, "low", 201), (-10, "low", 403), (0, None, 201), (None, "low", 201)],
)
async def test_the_priority_of_a_pod_is_that_of_its_class(
    api: Api, pod: Document, stated: int | None, name: str | None, answer: int
) -> None:
    """A number that is not the class' is refused, as by the admission plugin Priority."""
    low = {"metadata": {"name": "low"}, "value": -20}
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", low)
    pod["spec"] |= {"priority": stated, "priorityClassName": name}
    code, said = await api.post(PODS, pod)
    assert code == answer, said
    if code == 403:
        assert f"the integer value of priority ({stated}) must not be provided" in said["message"]
    else:
        assert said["spec"]["priority"] == (-20 if name else 0)
