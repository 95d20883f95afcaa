"""Rules of custom resources over HTTP: with the definition, on create, on updates and through the status."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.cluster.api.conftest import Api, Document

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS = "/apis/example.org/v1/pools"
FIXED = {"rule": "self.replicas == oldSelf.replicas", "message": "replicas is fixed"}
ONE_OF = {"rule": "!(has(self.weight) && has(self.limit))", "message": "weight excludes limit"}


@pytest.fixture
def ruled(definition: Document) -> dict[str, Any]:
    """The pools' definition with rules on ``spec`` and on ``status``."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["x-kubernetes-validations"] = [ONE_OF, FIXED]
    ready = {"rule": "self.ready || self.reason != ''", "message": "say why it is not ready"}
    fields = {"ready": {"type": "boolean"}, "reason": {"type": "string"}}
    schema["status"] |= {"properties": fields, "x-kubernetes-validations": [ready]}
    return definition


@pytest.fixture
async def pool(api: Api, ruled: dict[str, Any]) -> str:
    code, status = await api.post(CRDS, ruled)
    assert code == 201, status["message"]
    body = {"metadata": {"name": "a"}, "spec": {"weight": 1, "replicas": 2}}
    assert (await api.post(POOLS, body))[0] == 201
    return f"{POOLS}/a"


async def test_a_broken_rule_refuses_the_object(api: Api, pool: str) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"weight": 1, "limit": "2"}}
    code, status = await api.post(POOLS, body)
    assert (code, status["reason"]) == (422, "Invalid")
    text = 'spec: Invalid value: "object": weight excludes limit'
    assert status["message"] == f'Pool.example.org "b" is invalid: {text}'


async def test_rules_wait_until_the_object_has_its_shape(api: Api, pool: str) -> None:
    """A rule relies on the types of its fields; the answer states that the rule was not evaluated."""
    body = {"metadata": {"name": "b"}, "spec": {"weight": "x", "limit": 2}}
    code, status = await api.post(POOLS, body)
    assert (code, [c["field"] for c in status["details"]["causes"]]) == (
        422,
        ["spec.weight", "<nil>"],
    )
    assert "some validation rules were not checked" in status["message"]


async def test_a_value_out_of_bounds_and_a_broken_rule_are_reported_together(
    api: Api, pool: str
) -> None:
    body = {"metadata": {"name": "b"}, "spec": {"weight": 700, "limit": 2}}
    _, status = await api.post(POOLS, body)
    assert [c["field"] for c in status["details"]["causes"]] == ["spec.weight", "spec"]


async def test_a_transition_rule_guards_replace_patch_and_apply(api: Api, pool: str) -> None:
    _, stored = await api.get(pool)
    answers = [
        await api.merge(pool, {"spec": {"replicas": 3}}),
        await api.call("PUT", pool, {**stored, "spec": {"replicas": 3}}),
        await api.apply(pool, "me", {**BASE, "spec": {"replicas": 3}}, force=True),
    ]
    assert [(code, status["message"][-17:]) for code, status in answers] == [
        (422, "replicas is fixed")
    ] * 3
    assert (await api.merge(pool, {"spec": {"weight": 3}}))[0] == 200


BASE = {"apiVersion": "example.org/v1", "kind": "Pool", "metadata": {"name": "a"}}


async def test_the_status_has_rules_of_its_own(api: Api, pool: str) -> None:
    code, status = await api.merge(f"{pool}/status", {"status": {"ready": False, "reason": ""}})
    assert (code, status["details"]["causes"][0]["field"]) == (422, "status")
    assert (await api.merge(f"{pool}/status", {"status": {"ready": True}}))[0] == 200


async def tightened(api: Api, ruled: dict[str, Any]) -> None:
    """The definition grows rules and bounds that the stored pool breaks."""
    _, stored = await api.get(f"{CRDS}/pools.example.org")
    spec = ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["weight"]["minimum"] = 50
    spec["required"] = ["requirements"]
    spec["x-kubernetes-validations"] = [
        {"rule": "self.replicas > 9", "message": "too few"},
        {"rule": "self.replicas > oldSelf.replicas", "message": "must grow"},
    ]
    code, _ = await api.call("PUT", f"{CRDS}/pools.example.org", {**stored, "spec": ruled["spec"]})
    assert code == 200


async def test_an_object_older_than_its_rules_keeps_its_metadata_and_status_writable(
    api: Api, pool: str, ruled: dict[str, Any]
) -> None:
    """Ratcheting: else a finalizer could not be taken off and the object would stay for ever."""
    await api.merge(pool, {"metadata": {"finalizers": ["example.org/hold"]}})
    await tightened(api, ruled)
    assert (await api.merge(pool, {"metadata": {"labels": {"a": "b"}}}))[0] == 200
    assert (await api.merge(f"{pool}/status", {"status": {"ready": True}}))[0] == 200
    await api.call("DELETE", pool)
    assert (await api.merge(pool, {"metadata": {"finalizers": None}}))[0] == 200
    assert (await api.get(pool))[0] == 404


async def test_a_changed_part_meets_the_new_rules(
    api: Api, pool: str, ruled: dict[str, Any]
) -> None:
    await tightened(api, ruled)
    code, status = await api.merge(pool, {"spec": {"replicas": 3, "requirements": []}})
    assert code == 422
    assert [c["message"][-7:] for c in status["details"]["causes"]] == ["too few"]
    code, status = await api.merge(pool, {"spec": {"weight": 7}})
    fields = [c["field"] for c in status["details"]["causes"]]
    assert (code, fields) == (422, ["spec.requirements", "spec.weight", "<nil>"])


async def test_a_definition_with_a_broken_rule_is_refused_at_the_field_of_the_rule(
    api: Api, ruled: dict[str, Any]
) -> None:
    schema = ruled["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    schema["spec"]["x-kubernetes-validations"] = [{"rule": "self.weight <"}]
    code, status = await api.post(CRDS, ruled)
    at = "properties[spec].x-kubernetes-validations[0].rule"
    expected = f"spec.versions[0].schema.openAPIV3Schema.{at}"
    assert (code, [c["field"] for c in status["details"]["causes"]]) == (422, [expected])
    assert "compilation failed: ERROR: <input>:1:14: Syntax error" in status["message"]


async def test_sizes_above_their_bound_are_reported_as_too_long_and_too_many(
    api: Api, definition: Document
) -> None:
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    schema["properties"]["name"] = {"type": "string", "maxLength": 3}
    schema["properties"]["requirements"]["maxItems"] = 1
    await api.post(CRDS, definition)
    entry = {"key": "a", "operator": "In"}
    spec = {"name": "long", "requirements": [entry, entry]}
    _, status = await api.post(POOLS, {"metadata": {"name": "b"}, "spec": spec})
    assert [(c["reason"], c["message"]) for c in status["details"]["causes"]] == [
        ("FieldValueTooLong", "Too long: may not be more than 3 bytes"),
        ("FieldValueTooMany", "Too many: 2: must have at most 1 items"),
    ]


async def test_a_bound_pod_takes_no_nomination(api: Api, pod: Document) -> None:
    """From Kubernetes 1.35 on: binding ends a nomination, and nobody may write one afterwards."""
    api.store.create("pods", pod, namespace="default")
    path = "/api/v1/namespaces/default/pods/web/status"
    nomination = {"status": {"nominatedNodeName": "n1"}}
    assert (await api.merge(path, nomination))[0] == 200
    api.store.bind("web", "default", "n2")
    stored = api.store.get("pods", "web", namespace="default")
    assert "nominatedNodeName" not in stored["status"]
    code, status = await api.merge(path, nomination)
    assert (code, status["reason"]) == (422, "Invalid")
    (cause,) = status["details"]["causes"]
    assert (cause["field"], cause["reason"]) == (
        "status.nominatedNodeName",
        "FieldValueForbidden",
    )
    assert (await api.merge(path, {"status": {"nominatedNodeName": None}}))[0] == 200
    assert (await api.merge(path, {"status": {"phase": "Running"}}))[0] == 200
