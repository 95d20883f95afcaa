"""Laws of the patch formats and of server-side apply."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.api.errors import ApiError
from local.cluster.api.patches import json_patch, merge_patch, strategic_merge
from tests.local.cluster.api.conftest import Api

SCALARS = st.one_of(st.booleans(), st.integers(-5, 5), st.text("abc", max_size=3))
NAMES = st.text("abc", min_size=1, max_size=2)


def documents(leaf: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def wider(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        return st.dictionaries(NAMES, st.one_of(leaf, inner), max_size=4)

    return st.recursive(st.dictionaries(NAMES, leaf, max_size=3), wider, max_leaves=12)


WITHOUT_NULL = documents(st.one_of(SCALARS, st.lists(SCALARS, max_size=2)))
PATCHES = documents(st.one_of(st.none(), SCALARS))


def difference(before: Any, after: Any) -> Any:
    """The merge patch that leads from one document to the other."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return after
    removed = {name: None for name in before if name not in after}
    changed = {n: difference(before.get(n), v) for n, v in after.items() if before.get(n) != v}
    return {**removed, **changed}


@given(WITHOUT_NULL, WITHOUT_NULL)
def test_the_difference_of_two_documents_leads_from_one_to_the_other(
    before: Any, after: Any
) -> None:
    assert merge_patch(before, difference(before, after)) == after


@given(WITHOUT_NULL, PATCHES)
def test_a_merge_patch_twice_is_as_good_as_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@given(WITHOUT_NULL, PATCHES)
def test_a_merge_patch_leaves_its_target_alone(document: Any, patch: Any) -> None:
    before = repr(document)
    merge_patch(document, patch)
    assert repr(document) == before


@given(WITHOUT_NULL, PATCHES)
def test_without_keyed_lists_strategic_and_plain_merge_agree(document: Any, patch: Any) -> None:
    assert strategic_merge(document, patch) == merge_patch(document, patch)


def test_strategic_merge_joins_containers_by_name() -> None:
    document = {"containers": [{"name": "a", "image": "1", "tty": True}, {"name": "b"}]}
    patch = {"containers": [{"name": "a", "image": "2"}, {"name": "b", "$patch": "delete"}]}
    assert strategic_merge(document, patch) == {
        "containers": [{"name": "a", "image": "2", "tty": True}]
    }


def test_taints_are_replaced_as_a_whole() -> None:
    """kubectl taint node x key- sends the list that is left."""
    document = {"taints": [{"key": "a"}, {"key": "b"}]}
    assert strategic_merge(document, {"taints": [{"key": "b"}]}) == {"taints": [{"key": "b"}]}


def test_finalizers_are_a_set_in_strategic_merge() -> None:
    document = {"finalizers": ["a"]}
    assert strategic_merge(document, {"finalizers": ["b"]}) == {"finalizers": ["a", "b"]}
    taken = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert strategic_merge(document, taken) == {"finalizers": []}


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([{"op": "test", "path": "/a", "value": 2}], 422),
        ([{"op": "remove", "path": "/b"}], 422),
        ([{"op": "dance"}], 400),
        ({"a": 1}, 400),
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_refused_with_the_reason(
    operations: dict[str, Any] | list[dict[str, Any]], code: int
) -> None:
    with pytest.raises(ApiError) as caught:
        json_patch({"a": 1}, operations)
    assert caught.value.code == code


DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"


def intent(replicas: int | None, image: str = "app:1") -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "app", "image": image, "resources": {}}]},
    }
    spec: dict[str, Any] = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    if replicas is not None:
        spec["replicas"] = replicas
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": spec,
    }


async def test_apply_creates_then_changes_nothing_when_repeated(api: Api) -> None:
    code, made = await api.apply(DEPLOYMENT, "one", intent(2))
    assert code == 201
    code, again = await api.apply(DEPLOYMENT, "one", intent(2))
    assert (code, again["metadata"]["resourceVersion"]) == (
        200,
        made["metadata"]["resourceVersion"],
    )


async def test_apply_conflicts_where_another_manager_owns_another_value(api: Api) -> None:
    await api.apply(DEPLOYMENT, "one", intent(2))
    code, status = await api.apply(DEPLOYMENT, "two", intent(5))
    assert (code, status["reason"]) == (409, "Conflict")
    assert status["details"]["causes"] == [
        {
            "reason": "FieldManagerConflict",
            "message": 'conflict with "one"',
            "field": ".spec.replicas",
        }
    ]
    code, forced = await api.apply(DEPLOYMENT, "two", intent(5), force=True)
    assert (code, forced["spec"]["replicas"]) == (200, 5)


async def test_a_field_its_only_owner_stops_applying_goes_away(api: Api) -> None:
    labelled = intent(2)
    labelled["metadata"]["labels"] = {"team": "a"}
    await api.apply(DEPLOYMENT, "one", labelled)
    _, after = await api.apply(DEPLOYMENT, "one", intent(2))
    assert "labels" not in after["metadata"]


async def test_a_plain_write_takes_the_field_over(api: Api) -> None:
    await api.apply(DEPLOYMENT, "one", intent(2))
    await api.merge(f"{DEPLOYMENT}/scale?fieldManager=autoscaler", {"spec": {"replicas": 7}})
    code, status = await api.apply(DEPLOYMENT, "one", intent(2))
    assert code == 409
    assert 'conflict with "autoscaler"' in status["message"]
    code, left = await api.apply(DEPLOYMENT, "one", intent(None))
    assert (code, left["spec"]["replicas"]) == (200, 7)


async def test_the_first_apply_to_an_object_respects_its_values(api: Api) -> None:
    api.store.create("deployments", intent(2), group="apps")
    code, status = await api.apply(DEPLOYMENT, "one", intent(3))
    assert (code, 'conflict with "before-first-apply"' in status["message"]) == (409, True)


async def test_apply_refuses_two_entries_with_one_key(api: Api) -> None:
    """As a real server: plain writes of such a list are taken, with a warning."""
    doubled = intent(2)
    variables = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    doubled["spec"]["template"]["spec"]["containers"][0]["env"] = variables
    code, status = await api.apply(DEPLOYMENT, "one", doubled)
    assert code == 500
    assert status["message"] == (
        "failed to create typed patch object (default/web; apps/v1, Kind=Deployment): "
        '.spec.template.spec.containers[name="app"].env: duplicate entries for key [name="A"]'
    )


async def test_apply_keeps_ports_that_differ_by_protocol_alone(api: Api) -> None:
    """As those of a DNS server."""
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "dns"},
        "spec": {
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP"},
                {"name": "dns-tcp", "port": 53},
            ]
        },
    }
    path = "/api/v1/namespaces/default/services/dns"
    _, made = await api.apply(path, "one", service)
    code, again = await api.apply(path, "one", service)
    assert (code, again["spec"]["ports"]) == (200, made["spec"]["ports"])
    assert [one["name"] for one in again["spec"]["ports"]] == ["dns", "dns-tcp"]
