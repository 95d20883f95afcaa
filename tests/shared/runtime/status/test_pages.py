"""The status server over real HTTP: alive, ready or why not, metrics, and what the service holds."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp
import pytest

from shared.concurrency.clock import SystemClock
from shared.distribution.version import VERSION
from shared.errors import ConfigurationError
from shared.metrics import Metrics
from shared.runtime.services import Answer, Question, Service
from shared.runtime.status import Listener, mount, server_loop
from tests.support.metrics.pages import Scraped
from tests.support.network.status_server import free_port, running

CLOCK = SystemClock()


def service(name: str = "one", missing: tuple[str, ...] = ()) -> Service:
    return Service(name, [], Metrics(name), lambda: {"open": 3}, lambda: list(missing))


@asynccontextmanager
async def serving(*services: Service, docs: bool = False) -> AsyncIterator[aiohttp.ClientSession]:
    """The services' status pages, and a client of them."""
    port = free_port()
    loop = server_loop(Listener(mount(services, CLOCK, docs=docs), "127.0.0.1", port))
    async with (
        running(loop, port),
        aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client,
    ):
        yield client


async def answer(client: aiohttp.ClientSession, path: str) -> tuple[int, object]:
    async with client.get(path) as response:
        return response.status, await response.json()


async def test_a_ready_service_says_so() -> None:
    async with serving(service()) as client:
        assert await answer(client, "/healthz") == (200, {"status": "ok"})
        assert await answer(client, "/readyz") == (200, {"ready": True, "reasons": [], "notes": []})
        expected = {"service": "one", "ready": True, "reasons": [], "notes": [], "open": 3}
        assert await answer(client, "/status") == (200, expected)


async def test_an_unready_service_is_alive_and_says_why_it_is_not_ready() -> None:
    """R8: a blip of Redis makes it unready; it must not be restarted for that."""
    async with serving(service(missing=("the mirror is not written yet",))) as client:
        assert (await answer(client, "/healthz"))[0] == 200
        reasons = {"ready": False, "reasons": ["the mirror is not written yet"], "notes": []}
        assert await answer(client, "/readyz") == (503, reasons)
        assert (await answer(client, "/status"))[0] == 200


async def test_metrics_are_prometheus_text() -> None:
    async with serving(service()) as client, client.get("/metrics") as response:
        assert response.status == 200
        assert response.content_type == "text/plain"
        text = await response.text()
    build = f'karpenter_build_info{{commit="",service="one",version="{VERSION}"}} 1.0'
    assert build in text


@pytest.mark.parametrize(("missing", "value"), [((), 1), (("not yet",), 0)])
async def test_the_metrics_say_whether_the_service_is_ready(
    missing: tuple[str, ...], value: int
) -> None:
    """As it is at the scrape, for an alert."""
    async with serving(service(missing=missing)) as client, client.get("/metrics") as response:
        scraped = Scraped(await response.text())
    assert scraped.value("dovetail_ready", service="one") == value


async def test_several_services_are_mounted_below_their_names() -> None:
    async with serving(service("one"), service("two", ("something",))) as client:
        assert (await answer(client, "/healthz"))[0] == 200
        assert (await answer(client, "/one/readyz"))[0] == 200
        assert (await answer(client, "/two/readyz"))[0] == 503
        assert (await answer(client, "/status"))[0] == 404


@pytest.mark.parametrize(("docs", "code"), [(False, 404), (True, 200)])
async def test_the_api_page_is_served_only_when_asked_for(docs: bool, code: int) -> None:
    async with serving(service(), docs=docs) as client:
        for path in ("/docs", "/openapi.json"):
            async with client.get(path) as response:
                assert response.status == code


async def test_nothing_can_be_written() -> None:
    async with serving(service()) as client:
        for path in ("/healthz", "/readyz", "/metrics", "/status"):
            async with client.post(path) as response:
                assert response.status == 405
                told = await response.json()
            assert told["error"].startswith(f"POST {path} is not offered; use ")


async def test_a_wrong_path_is_answered_with_those_there_are() -> None:
    async with serving(service()) as client:
        there_are = "there are /healthz, /readyz, /metrics, /status"
        assert await answer(client, "/ready") == (404, {"error": f"no /ready here; {there_are}"})
    async with serving(service("one"), service("two")) as client:
        there_are = "there are /healthz, /one, /two"
        assert await answer(client, "/readyz") == (404, {"error": f"no /readyz here; {there_are}"})


async def test_health_checks_that_want_no_body_are_answered() -> None:
    async with serving(service(missing=("not yet",))) as client:
        for path, code in (("/healthz", 200), ("/readyz", 503)):
            async with client.head(path) as response:
                assert (response.status, await response.read()) == (code, b"")


async def test_a_question_is_answered_unless_its_body_is_too_large() -> None:
    async def echo(body: bytes, query: Mapping[str, str]) -> Answer:
        return Answer(200, json.dumps([body.decode(), dict(query)]).encode())

    asked = service()
    asked.questions = [Question("/echo", "Says it again", echo, most_bytes=5)]
    async with serving(asked) as client:
        async with client.post("/echo?loud=yes", data=b"hello") as response:
            assert (response.status, await response.json()) == (200, ["hello", {"loud": "yes"}])
        async with client.post("/echo", data=b"hello!") as response:
            assert response.status == 413


@pytest.mark.parametrize(
    ("path", "names"),
    [("/pods/{pod}", ["pod"]), ("/pods/{pod:text}", ["pod"]), ("/{a:path}/of/{b}", ["a", "b"])],
)
async def test_parameters_of_a_path_are_described_whatever_they_may_hold(
    path: str, names: list[str]
) -> None:
    """Tools that test a service by its document call only what is described."""

    async def echo(_body: bytes, query: Mapping[str, str]) -> Answer:
        return Answer(200, json.dumps(dict(query)).encode())

    asked = service()
    asked.questions = [Question(path, "Says it again", echo, most_bytes=5, method="GET")]
    async with serving(asked, docs=True) as client, client.get("/openapi.json") as response:
        paths = (await response.json())["paths"]
    (described,) = (one["get"]["parameters"] for named, one in paths.items() if "{" in named)
    assert [one["name"] for one in described] == names


async def test_a_taken_port_is_a_fault_of_the_settings() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        loop = server_loop(Listener(mount([service()], CLOCK), *taken.getsockname()))
        with pytest.RaisesGroup(pytest.RaisesExc(ConfigurationError, match="STATUS_PORT")):
            async with asyncio.timeout(60):
                await loop.run(asyncio.Event())
