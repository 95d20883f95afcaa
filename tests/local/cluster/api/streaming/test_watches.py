"""Watches over HTTP and in process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import aiohttp
import pytest

from tests.local.cluster.api.conftest import Api

MAPS = "/api/v1/namespaces/default/configmaps"


class Watch:
    """Events of one watch, one at a time."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    async def next(self) -> tuple[str, Any]:
        line = await asyncio.wait_for(self._answer.content.readline(), 60)
        event = json.loads(line)
        return event["type"], event["object"]


OpenWatch = Callable[[str], Coroutine[Any, Any, Watch]]


@pytest.fixture
async def open_watch(api: Api) -> AsyncIterator[OpenWatch]:
    answers: list[Any] = []

    async def opened(query: str) -> Watch:
        answers.append(await api.session.get(f"{api.url}{MAPS}?watch=True&{query}"))
        return Watch(answers[-1])

    yield opened
    for answer in answers:
        answer.close()


def put(api: Api, name: str, **labels: str) -> dict[str, Any]:
    if api.store.find("configmaps", name, namespace="default"):
        body = {"metadata": {"labels": {"app": None, **labels}}}
        return api.store.patch("configmaps", name, body, namespace="default")
    return api.store.create("configmaps", {"metadata": {"name": name, "labels": labels}})


async def test_a_watch_resumes_after_the_version_it_names(api: Api, open_watch: OpenWatch) -> None:
    first = put(api, "a")
    put(api, "b")
    watch = await open_watch(f"resourceVersion={first['metadata']['resourceVersion']}")
    put(api, "c")
    api.store.delete("configmaps", "c", namespace="default")
    seen = [await watch.next() for _ in range(3)]
    assert [(kind, o["metadata"]["name"]) for kind, o in seen] == [
        ("ADDED", "b"),
        ("ADDED", "c"),
        ("DELETED", "c"),
    ]


async def test_without_a_version_a_watch_starts_with_everything(
    api: Api, open_watch: OpenWatch
) -> None:
    put(api, "a")
    watch = await open_watch("")
    kind, found = await watch.next()
    assert (kind, found["metadata"]["name"]) == ("ADDED", "a")


async def test_a_selector_turns_changes_into_transitions(api: Api, open_watch: OpenWatch) -> None:
    start = put(api, "a", app="db")["metadata"]["resourceVersion"]
    watch = await open_watch(f"resourceVersion={start}&labelSelector=app%3Dweb")
    put(api, "a", app="web")
    put(api, "a", app="web", more="1")
    put(api, "a", app="db")
    put(api, "b", app="web")
    kinds = [(await watch.next())[0] for _ in range(4)]
    assert kinds == ["ADDED", "MODIFIED", "DELETED", "ADDED"]


async def test_initial_events_end_with_a_marked_bookmark(api: Api, open_watch: OpenWatch) -> None:
    put(api, "a")
    watch = await open_watch(
        "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
    )
    assert (await watch.next())[0] == "ADDED"
    kind, found = await watch.next()
    assert kind == "BOOKMARK"
    assert found["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_bookmarks_carry_the_newest_version(
    api: Api, open_watch: OpenWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local.cluster.api.streaming.watches.BOOKMARK_SECONDS", 0.05)
    api.store.create("secrets", {"metadata": {"name": "other"}})
    watch = await open_watch(f"allowWatchBookmarks=true&resourceVersion={api.store.revision}")
    api.store.create("secrets", {"metadata": {"name": "another"}})
    kind, found = await watch.next()
    assert kind == "BOOKMARK"
    assert found["metadata"]["resourceVersion"] == str(api.store.revision)


@pytest.mark.slow
async def test_a_watch_ends_after_its_timeout(api: Api) -> None:
    query = f"?watch=1&timeoutSeconds=1&resourceVersion={api.store.revision}"
    async with api.session.get(f"{api.url}{MAPS}{query}") as answer:
        assert await asyncio.wait_for(answer.read(), 60) == b""


@pytest.mark.parametrize("revision", ["2", "99999999"])
async def test_a_version_outside_the_log_has_expired(
    api: Api, open_watch: OpenWatch, revision: str
) -> None:
    put(api, "a")
    for number in range(700):
        put(api, "a", n=str(number))
    watch = await open_watch(f"resourceVersion={revision}")
    kind, status = await watch.next()
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")


async def test_a_table_watch_names_its_columns_once(api: Api) -> None:
    put(api, "a")
    put(api, "b")
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    async with api.session.get(f"{api.url}{MAPS}?watch=1", headers=headers) as answer:
        watch = Watch(answer)
        tables = [(await watch.next())[1] for _ in range(2)]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert tables[1]["columnDefinitions"] is None


async def test_a_subscription_has_no_gap_between_its_start_and_its_events(api: Api) -> None:
    put(api, "a")
    subscription = api.store.subscribe("configmaps")
    put(api, "b")
    put(api, "b", app="web")
    assert [o["metadata"]["name"] for o in subscription.initial] == ["a"]
    events: Any = subscription.events()
    kind, _, old = await anext(events)
    assert (kind, old) == ("ADDED", None)
    kind, new, old = await anext(events)
    assert (kind, new["metadata"]["labels"]) == ("MODIFIED", {"app": "web"})
    assert old["metadata"]["labels"] == {}
    await events.aclose()


async def test_a_subscription_that_falls_behind_the_log_ends(api: Api) -> None:
    put(api, "a")
    subscription = api.store.subscribe("configmaps")
    for number in range(700):
        put(api, "a", n=str(number))
    assert [event async for event in subscription.events()] == []
