"""Requests to a Service through a real API server's proxy, and whose refusal is whose."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from shared.concurrency.clock import SystemClock
from shared.errors import ConfigurationError, NotFound, Unauthorized, Unavailable, Unreachable
from shared.kube.client import Kube
from shared.kube.resources import NODES, SERVICES, Resource
from shared.kube.service_proxy import ServiceAddress, ServiceAnswer, ServiceProxy
from tests.support.cluster.fixture import Cluster, write_kubeconfig

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True)
TOKEN = {"X-Dovetail-Token": "t"}
Connect = Callable[..., Awaitable[Kube]]


@pytest.fixture
async def service(cluster: Cluster) -> AsyncIterator[ServiceAddress]:
    """A Service in the cluster, and the server behind it."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.path == "/away":
            raise web.HTTPFound("http://127.0.0.1:1/")
        if request.path == "/refused":
            return web.json_response({"error": "no token"}, status=401)
        if request.path == "/large":
            return web.Response(body=b"x" * 5_000)
        seen = {"token": request.headers.get("X-Dovetail-Token"), "body": await request.text()}
        return web.json_response({"path": request.path_qs, **seen})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    metadata = {"name": "scheduler", "namespace": cluster.namespace}
    port = {"name": "status", "port": 8080}
    await cluster.kube.create(SERVICES, {"metadata": metadata, "spec": {"ports": [port]}})
    ports = [{**port, "port": runner.addresses[0][1]}]
    subset = {"addresses": [{"ip": "127.0.0.1"}], "ports": ports}
    await cluster.kube.create(ENDPOINTS, {"metadata": metadata, "subsets": [subset]})
    yield ServiceAddress(cluster.namespace, "scheduler", "status")
    await runner.cleanup()


async def ask(
    kube: Kube, service: ServiceAddress, rest: str, body: object = None, limit: int = 1000
) -> ServiceAnswer:
    return await ServiceProxy(kube.connection).exchange(
        service, rest, body, headers=TOKEN, seconds=10, limit=limit
    )


async def test_a_question_and_its_answer(cluster: Cluster, service: ServiceAddress) -> None:
    found = await ask(cluster.kube, service, "/explain?x=1", {"node": "a"})
    assert found.status == 200
    assert found.body == b'{"path": "/explain?x=1", "token": "t", "body": "{\\"node\\":\\"a\\"}"}'
    assert found.headers["date"]


async def test_the_services_own_refusal_is_an_answer(
    cluster: Cluster, service: ServiceAddress
) -> None:
    found = await ask(cluster.kube, service, "/refused")
    assert (found.status, found.body) == (401, b'{"error": "no token"}')


async def test_what_the_api_server_refuses_is_an_error(
    cluster: Cluster, service: ServiceAddress
) -> None:
    with pytest.raises(NotFound):
        await ask(cluster.kube, ServiceAddress(cluster.namespace, "nobody", "status"), "/")
    with pytest.raises(Unavailable, match="no endpoints available"):
        await ask(cluster.kube, ServiceAddress(cluster.namespace, "scheduler", "grpc"), "/")


async def test_a_redirect_is_not_followed(cluster: Cluster, service: ServiceAddress) -> None:
    """It would send the token to wherever the Service says."""
    with pytest.raises(Unreachable, match="redirects"):
        await ask(cluster.kube, service, "/away")


async def test_an_answer_has_a_limit(cluster: Cluster, service: ServiceAddress) -> None:
    with pytest.raises(Unreachable, match="more than 1000 bytes"):
        await ask(cluster.kube, service, "/large")


async def test_a_stream_is_read_as_it_arrives(cluster: Cluster, service: ServiceAddress) -> None:
    limits = aiohttp.ClientTimeout(total=10)
    opened = ServiceProxy(cluster.kube.connection).opened(
        service, "/large", headers={}, limits=limits
    )
    async with opened as answer:
        assert sum([len(part) async for part in answer.content.iter_any()]) == 5_000


@pytest.fixture
async def connected(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Connect]:
    """Clients with another identity or context, closed at the end."""
    made: list[Kube] = []

    async def connect(**identity: str) -> Kube:
        path = str(write_kubeconfig(tmp_path / "other", cluster.url))
        words: Any = {"random": Random(1), "user_agent": "test", **identity}
        made.append(await Kube.connect(path, clock=SystemClock(), **words))
        return made[-1]

    yield connect
    for one in made:
        await one.close()


async def test_who_may_not_use_the_proxy_reads_which_rule_is_missing(
    connected: Connect, service: ServiceAddress
) -> None:
    somebody = await connected(impersonate="ann")
    with pytest.raises(Unauthorized, match='verb "create" on resource "services/proxy"'):
        await ask(somebody, service, "/explain", {})


async def test_all_requests_act_as_the_impersonated_user(connected: Connect) -> None:
    somebody = await connected(impersonate="ann")
    with pytest.raises(Unauthorized, match='User "ann" cannot list'):
        await somebody.list(NODES)


async def test_a_context_is_chosen_by_name(connected: Connect) -> None:
    assert (await (await connected(context="test")).list(NODES)).items == []
    with pytest.raises(ConfigurationError, match="check the context elsewhere"):
        await connected(context="elsewhere")
