"""What the client makes of every kind of refusal and silence (F16)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shared import errors
from shared.concurrency.clock import SystemClock
from shared.kube.client import WRITE_TRIES, Kube
from shared.kube.resources import MACHINES, NODES, PODS, PROVISIONERS
from shared.kube.transport.connection import Timeouts
from shared.kube.transport.statuses import Contended
from tests.support.cluster.fixture import connect, write_kubeconfig
from tests.support.cluster.scripted_api import (
    ScriptedApi,
    answer,
    bookmark,
    event,
    failure,
    page,
    pod,
    refusal,
    stream,
)

BUDGET = failure(
    429,
    "TooManyRequests",
    "Cannot evict pod as it would violate the pod's disruption budget.",
    causes=[{"reason": "DisruptionBudget", "message": "The disruption budget web needs 3"}],
)
SEVERAL = failure(
    500,
    "",
    "This pod has more than one PodDisruptionBudget, which the eviction subresource "
    "does not support.",
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (400, "BadRequest", errors.InvalidObject),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Unauthorized),
        (404, "NotFound", errors.NotFound),
        (409, "Conflict", Contended),
        (409, "AlreadyExists", errors.AlreadyExists),
        (410, "Gone", errors.Gone),
        (422, "Invalid", errors.InvalidObject),
        (429, "TooManyRequests", errors.Throttled),
        (500, "InternalError", errors.Unavailable),
        (503, "ServiceUnavailable", errors.Unavailable),
        (504, "Timeout", errors.Unavailable),
    ],
)
async def test_every_status_has_its_error(
    api: ScriptedApi, kube: Kube, code: int, reason: str, expected: type[errors.DovetailError]
) -> None:
    api.others = [refusal(code, reason)]
    with pytest.raises(expected, match="patch nodes n1"):
        await kube.patch(NODES, "n1", {"spec": {}})


LOST_RACE = failure(
    409,
    "Conflict",
    'Operation cannot be fulfilled on nodes "n1": the object has been modified; please apply your '
    "changes to the latest version and try again",
)
OTHER_OBJECT = failure(
    409,
    "Conflict",
    f'Operation cannot be fulfilled on nodes "{"n" * 253}": Precondition failed: UID in '
    "precondition: u1, UID in object meta: u2",
)


async def test_a_write_for_any_version_is_repeated_when_the_server_loses_a_race(
    api: ScriptedApi, kube: Kube
) -> None:
    """R3: nobody may take it for an object that was replaced."""
    api.others = [answer(LOST_RACE, 409), answer({"kind": "Node"})] * 2
    await kube.patch(NODES, "n1", {"metadata": {"uid": "u1"}})
    await kube.delete(NODES, "n1", uid="u1")
    assert [one.method for one in api.requests] == ["PATCH", "PATCH", "DELETE", "DELETE"]


@pytest.mark.slow
async def test_a_race_that_is_lost_again_and_again_is_an_outage(
    api: ScriptedApi, kube: Kube
) -> None:
    api.others = [answer(LOST_RACE, 409)] * WRITE_TRIES
    with pytest.raises(errors.TransientError):
        await kube.delete(NODES, "n1", uid="u1")


@pytest.mark.parametrize("text", [LOST_RACE, OTHER_OBJECT], ids=["version", "uid"])
async def test_a_write_for_one_version_or_another_object_is_a_conflict_at_once(
    api: ScriptedApi, kube: Kube, text: dict[str, Any]
) -> None:
    api.others = [answer(text, 409)] * 2
    version = "7" if text is LOST_RACE else None
    with pytest.raises(errors.Conflict):
        await kube.patch(NODES, "n1", {"metadata": {"uid": "u1", "resourceVersion": version}})
    with pytest.raises(errors.Conflict):
        await kube.delete(NODES, "n1", uid="u1", resource_version=version)
    assert len(api.requests) == 2


async def test_a_403_names_the_missing_rule(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [refusal(403, "Forbidden")]
    with pytest.raises(
        errors.Unauthorized, match=r'grant verb "list" on resource "machines" in'
    ) as e:
        await kube.list(MACHINES)
    assert 'apiGroup "karpenter.sh"' in e.value.message


async def test_a_403_names_who_lacks_the_right(api: ScriptedApi, kube: Kube) -> None:
    """Of a command it is the caller: a right for Dovetail's own accounts mends nothing, and is too much."""
    text = (
        'machines is forbidden: User "alice" cannot list resource "machines" at the cluster scope'
    )
    api.lists = [answer({"message": text, "reason": "Forbidden"}, 403)]
    with pytest.raises(
        errors.Unauthorized, match=r'"machines" in apiGroup "karpenter.sh" to alice$'
    ):
        await kube.list(MACHINES)


async def test_a_403_of_an_admission_policy_asks_for_no_rights(
    api: ScriptedApi, kube: Kube
) -> None:
    """Gatekeeper answers 403 as well; a role with more rights mends nothing."""
    text = 'admission webhook "validation.gatekeeper.sh" denied the request: a label is missing'
    api.others = [answer({"message": text, "reason": "Forbidden"}, 403)]
    with pytest.raises(errors.Unauthorized, match="a label is missing") as e:
        await kube.create(MACHINES, {"metadata": {"name": "m"}})
    assert "grant verb" not in e.value.message
    assert "an admission policy or a quota of the cluster refuses it" in e.value.message


async def test_an_invalid_object_names_its_field(api: ScriptedApi, kube: Kube) -> None:
    causes = [{"field": "spec.taints[0].effect", "reason": "FieldValueNotSupported"}]
    api.others = [answer(failure(422, "Invalid", "unsupported", causes=causes), 422)]
    with pytest.raises(errors.InvalidObject) as e:
        await kube.patch(NODES, "n1", {"spec": {}})
    assert e.value.field == "spec.taints[0].effect"


async def test_a_long_answer_is_cut(api: ScriptedApi, kube: Kube) -> None:
    api.others = [answer(b"<html>" + b"x" * 5000, 502)]
    with pytest.raises(errors.Unavailable) as e:
        await kube.patch(NODES, "n1", {})
    assert len(e.value.message) < 400


async def test_reads_are_tried_again_on_transient_errors(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [refusal(500, "InternalError"), stream(b"", then="abort"), answer(pod("a", 1))]
    assert (await kube.get(PODS, "a", "default"))["metadata"]["name"] == "a"
    assert len(api.requests) == 3


@pytest.mark.slow
async def test_reads_give_up_after_four_tries(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [refusal(503, "ServiceUnavailable")]
    with pytest.raises(errors.Unavailable):
        await kube.get(PODS, "a", "default")
    assert len(api.requests) == 4


async def test_a_write_with_unknown_outcome_is_not_repeated(api: ScriptedApi, kube: Kube) -> None:
    """R6: only the caller knows how to find out."""
    api.others = [stream(b"", then="abort"), answer(pod("a", 1))]
    with pytest.raises(errors.Unreachable):
        await kube.create(PODS, pod("a", 1), "default")
    assert len(api.requests) == 1


async def test_a_write_refused_with_429_is_repeated_after_the_asked_time(
    api: ScriptedApi, kube: Kube
) -> None:
    """F16: honour Retry-After."""
    clock = SystemClock()
    api.others = [refusal(429, "TooManyRequests", Retry_After="0.4"), answer(pod("a", 1))]
    began = clock.monotonic()
    await kube.create(PODS, pod("a", 1), "default")
    assert clock.monotonic() - began >= 0.4
    assert len(api.requests) == 2


async def test_an_eviction_that_a_budget_forbids_is_not_repeated(
    api: ScriptedApi, kube: Kube
) -> None:
    api.others = [answer(BUDGET, 429)]
    with pytest.raises(errors.EvictionBlocked) as e:
        await kube.evict("web", "default", uid="u1")
    assert e.value.context["multiple"] is False
    (request,) = api.requests
    assert request.body["deleteOptions"] == {"preconditions": {"uid": "u1"}}


async def test_a_pod_under_several_budgets_is_told_apart(api: ScriptedApi, kube: Kube) -> None:
    api.others = [answer(SEVERAL, 500)]
    with pytest.raises(errors.EvictionBlocked) as e:
        await kube.evict("web", "default", uid="u1")
    assert e.value.context["multiple"] is True


async def test_an_eviction_throttled_by_priority_and_fairness_is_no_budget(
    api: ScriptedApi, kube: Kube
) -> None:
    busy = answer(b"too many requests, please try again later", 429, Retry_After="0")
    api.others = [busy, answer({"status": "Success"}, 201)]
    await kube.evict("web", "default", uid="u1")
    assert len(api.requests) == 2


async def test_a_failed_test_operation_is_a_conflict(api: ScriptedApi, kube: Kube) -> None:
    api.others = [refusal(422, "Invalid")]
    test = {"op": "test", "path": "/spec/unschedulable", "value": True}
    with pytest.raises(errors.Conflict, match="a test of the patch failed"):
        await kube.json_patch(NODES, "n1", [test])
    assert api.requests[0].content_type == "application/json-patch+json"


async def test_a_list_starts_again_when_a_page_expires(api: ScriptedApi, kube: Kube) -> None:
    """F15: continue 410 -> restart the list."""
    api.lists = [
        page([pod("a", 1)], 5, "next"),
        refusal(410, "Expired"),
        page([pod("a", 6)], 7, "next"),
        page([pod("b", 2)], 7),
    ]
    found = await kube.list(PODS)
    assert [item["metadata"]["name"] for item in found.items] == ["a", "b"]
    assert found.resource_version == "7"
    assert [query.get("continue") for query in api.queries(watch=False)] == [None, "next"] * 2


async def test_a_list_that_keeps_expiring_is_given_up(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [refusal(410, "Expired")]
    with pytest.raises(errors.Gone):
        await kube.list(PODS)


async def test_reads_are_quorum_reads(api: ScriptedApi, kube: Kube) -> None:
    """R5: no resourceVersion=0."""
    api.lists = [page([], 1)]
    await kube.list(PODS)
    assert "resourceVersion" not in api.requests[0].query


async def test_a_server_without_any_crd_of_a_group_does_not_serve_them(
    api: ScriptedApi, kube: Kube
) -> None:
    api.lists = [refusal(404, "NotFound")]
    assert await kube.serves(MACHINES) is False


async def test_discovery_says_which_kinds_of_a_group_are_served(
    api: ScriptedApi, kube: Kube
) -> None:
    """A service may ask for kinds that its role does not let it list."""
    api.lists = [answer({"resources": [{"name": "machines"}, {"name": "machines/status"}]})]
    assert await kube.serves(MACHINES) is True
    assert await kube.serves(PROVISIONERS) is False


async def test_the_server_says_its_version(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [answer({"major": "1", "minor": "35", "gitVersion": "v1.35.0"})]
    assert (await kube.version())["gitVersion"] == "v1.35.0"
    assert api.requests[-1].path == "/version"


@pytest.mark.slow
async def test_silence_ends_a_read(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [stream(b"{", then="hang")]
    with pytest.raises(errors.Unreachable, match="get pods default/a"):
        await kube.get(PODS, "a", "default")
    assert len(api.requests) == 4


async def test_a_watch_that_is_not_accepted_is_given_up_long_before_a_silent_one(
    api: ScriptedApi, tmp_path: Path
) -> None:
    """It was opened on a dead connection: no status line ever comes."""
    never = asyncio.Event()

    async def hang(_request: web.Request) -> web.StreamResponse:
        await never.wait()
        return web.Response()

    api.watches = [hang]
    kube = await connect(
        write_kubeconfig(tmp_path / "config", api.url), Timeouts(watch_open=0.3, watch_silence=3600)
    )
    try:
        with pytest.raises(errors.Unreachable):
            await anext(kube.watch(PODS, "1"))
    finally:
        never.set()
        await kube.close()


async def test_an_answer_that_is_no_json_is_reported(api: ScriptedApi, kube: Kube) -> None:
    api.lists = [answer(b"<html>login</html>")]
    with pytest.raises(errors.Unavailable, match="not JSON"):
        await kube.get(PODS, "a", "default")


async def test_a_watch_hands_out_events_and_bookmarks(api: ScriptedApi, kube: Kube) -> None:
    chunks = event("ADDED", pod("a", 2)) + bookmark(9)
    api.watches = [stream(chunks[:30], chunks[30:], then="end")]
    events = [
        (e.type, e.object["metadata"]["resourceVersion"]) async for e in kube.watch(PODS, "1")
    ]
    assert events == [("ADDED", "2"), ("BOOKMARK", "9")]
    assert api.requests[0].query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "1",
        "timeoutSeconds": "300",
    }


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (refusal(410, "Expired"), errors.Gone),
        (stream(event("ADDED", pod("a", 2)), then="hang"), errors.Unreachable),
        (stream(event("ADDED", pod("a", 2))[:20], then="end"), errors.Unreachable),
        (stream(event("ADDED", pod("a", 2))[:20], then="abort"), errors.Unreachable),
        (refusal(500, "InternalError"), errors.Unavailable),
        (refusal(403, "Forbidden"), errors.Unauthorized),
    ],
    ids=["410 at open", "silence", "half line", "cut", "500", "403"],
)
async def test_a_broken_watch_raises(
    api: ScriptedApi, kube: Kube, step: object, expected: type[Exception]
) -> None:
    """F15: a broken or silent watch."""
    api.watches = [step]  # type: ignore[list-item]
    with pytest.raises(expected):
        async for _ in kube.watch(PODS, "1"):
            pass


async def test_a_dead_server_is_unreachable(tmp_path: Path) -> None:
    kube = await connect(write_kubeconfig(tmp_path / "config", "http://127.0.0.1:9"))
    with pytest.raises(errors.Unreachable, match=r"no answer from http://127\.0\.0\.1:9"):
        await kube.create(PODS, pod("a", 1), "default")
    await kube.close()
