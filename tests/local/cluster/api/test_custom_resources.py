"""Custom resources: served at once, validated, defaulted, pruned, shown in their own columns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.cluster.api.conftest import Api, Document

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POOLS = "/apis/example.org/v1/pools"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


@pytest.fixture
async def pools(api: Api, definition: Document) -> Any:
    code, _ = await api.post(CRDS, definition)
    assert code == 201
    return POOLS


async def test_a_definition_is_established_and_served_at_once(api: Api, pools: Any) -> None:
    _, stored = await api.get(f"{CRDS}/pools.example.org")
    conditions = {c["type"]: c["status"] for c in stored["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    _, listed = await api.get("/apis/example.org/v1")
    assert "pools/scale" in [resource["name"] for resource in listed["resources"]]


async def test_defaults_are_filled_in_and_unknown_fields_dropped(api: Api, pools: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"consolidation": {}, "junk": 1}, "status": {"x": 1}}
    _, made = await api.post(pools, body)
    assert made["spec"] == {"consolidation": {"enabled": False}}
    assert "status" not in made


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        (
            {"weight": 0},
            "spec.weight",
            "Invalid value: 0: spec.weight in body should be greater than or equal to 1",
        ),
        (
            {"weight": "a"},
            "spec.weight",
            'Invalid value: "string": spec.weight in body must be of type integer: "string"',
        ),
        ({"requirements": [{"key": "a"}]}, "spec.requirements[0].operator", "Required value"),
        (
            {"requirements": [{"key": "a", "operator": "Near"}]},
            "spec.requirements[0].operator",
            'Unsupported value: "Near": supported values: "In", "NotIn"',
        ),
    ],
)
async def test_a_broken_rule_names_the_field(
    api: Api, pools: Any, spec: dict[str, Any], field: str, text: str
) -> None:
    code, status = await api.post(pools, {"metadata": {"name": "a"}, "spec": spec})
    assert (code, status["reason"]) == (422, "Invalid")
    assert [(c["field"], c["message"]) for c in status["details"]["causes"]] == [(field, text)]
    assert status["message"] == f'Pool.example.org "a" is invalid: {field}: {text}'


async def test_strict_validation_refuses_unknown_fields(api: Api, pools: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"wait": 1}}
    code, status = await api.post(f"{pools}?fieldValidation=Strict", body)
    assert code == 400
    assert 'strict decoding error: unknown field "spec.wait"' in status["message"]


async def test_only_a_spec_change_raises_the_generation(api: Api, pools: Any) -> None:
    await api.post(pools, {"metadata": {"name": "a"}, "spec": {"weight": 1}})
    _, by_status = await api.merge(f"{pools}/a/status", {"status": {"ready": True}})
    assert (by_status["metadata"]["generation"], by_status["status"]) == (1, {"ready": True})
    _, by_spec = await api.merge(f"{pools}/a", {"spec": {"weight": 2}})
    assert by_spec["metadata"]["generation"] == 2


async def test_a_custom_resource_takes_no_strategic_merge(api: Api, pools: Any) -> None:
    await api.post(pools, {"metadata": {"name": "a"}})
    media = "application/strategic-merge-patch+json"
    code, _ = await api.call("PATCH", f"{pools}/a", {"spec": {}}, media=media)
    assert code == 415


async def test_printer_columns_make_the_table(api: Api, pools: Any) -> None:
    await api.post(pools, {"metadata": {"name": "a"}, "spec": {"weight": 7}})
    condition = {"type": "Ready", "status": "True"}
    await api.merge(f"{pools}/a/status", {"status": {"conditions": [condition]}})
    _, table = await api.get(pools, **TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Weight", "Ready"]
    assert table["rows"][0]["cells"] == ["a", 7, "True"]


async def test_the_schema_is_published(api: Api, pools: Any) -> None:
    _, index = await api.get("/openapi/v3")
    assert "apis/example.org/v1" in index["paths"]
    _, document = await api.get("/openapi/v3/apis/example.org/v1")
    schema = document["components"]["schemas"]["org.example.v1.Pool"]
    assert schema["properties"]["spec"]["properties"]["weight"]["description"] == "Priority."


async def test_a_deleted_definition_is_served_no_more_and_its_objects_go(
    api: Api, pools: Any
) -> None:
    await api.post(pools, {"metadata": {"name": "a"}})
    events: Any = api.store.subscribe("pools", group="example.org").events()
    await api.call("DELETE", f"{CRDS}/pools.example.org")
    assert (await api.get(pools))[0] == 404
    kind, gone, _ = await anext(events)
    assert (kind, gone["metadata"]["name"]) == ("DELETED", "a")
    await events.aclose()


async def test_a_definition_with_a_wrong_name_is_refused(api: Api, definition: Document) -> None:
    definition["metadata"]["name"] = "other.example.org"
    code, status = await api.post(CRDS, definition)
    assert (code, status["details"]["causes"][0]["field"]) == (422, "metadata.name")


async def test_taken_names_are_not_accepted(api: Api, pools: Any, definition: Document) -> None:
    definition["metadata"]["name"] = "basins.example.org"
    definition["spec"]["names"] = {"plural": "basins", "kind": "Pool"}
    await api.post(CRDS, definition)
    _, refused = await api.get(f"{CRDS}/basins.example.org")
    conditions = {c["type"]: c["status"] for c in refused["status"]["conditions"]}
    assert conditions["NamesAccepted"] == "False"
    assert (await api.get("/apis/example.org/v1/basins"))[0] == 404
