"""The subresource ``proxy`` of Services: real requests to a real server behind the Service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import ClientSession, web

from local.cluster.api.streaming.proxy import Proxied, address_of, parse_proxied
from tests.local.cluster.api.conftest import Api
from tests.local.cluster.api.test_access import grant, robot

__all__ = ["robot"]

PATH = "/api/v1/namespaces/default/services/web:status/proxy"


@dataclass
class Backend:
    """What the server behind the Service received, and its port."""

    port: int = 0
    seen: list[web.Request] = field(default_factory=list)
    proceed: asyncio.Event = field(default_factory=asyncio.Event)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(request)
        if request.path == "/stream":
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            await response.write(b"first")
            await self.proceed.wait()
            await response.write(b"second")
            return response
        if request.path == "/moved":
            raise web.HTTPFound("http://elsewhere.invalid/")
        document = {"path": request.path_qs, "body": await request.text()}
        return web.json_response(document, status=418 if request.path == "/teapot" else 200)


@pytest.fixture
async def backend(api: Api) -> AsyncIterator[Backend]:
    """A server on a free port, the only address of the Service ``web``."""
    made = Backend()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", made.answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    create_service(api, {"addresses": [{"ip": "127.0.0.1"}], "ports": [port_named(made.port)]})
    yield made
    await runner.cleanup()


def port_named(number: int, name: str = "status") -> dict[str, Any]:
    return {"name": name, "port": number}


def create_service(api: Api, *subsets: Any, **spec: Any) -> None:
    named = {"metadata": {"name": "web"}}
    ports = [port_named(9999, "other"), {**port_named(8080), "targetPort": "status"}]
    api.store.create("services", {**named, "spec": {"ports": ports, **spec}}, namespace="default")
    if subsets:
        api.store.create("endpoints", {**named, "subsets": list(subsets)}, namespace="default")


async def test_method_path_query_and_body_arrive(api: Api, backend: Backend) -> None:
    code, answer = await api.call("POST", f"{PATH}/a%2Fb?x=1&y=%26", {"node": "a"})
    assert (code, answer) == (200, {"path": "/a%2Fb?x=1&y=%26", "body": '{"node": "a"}'})
    assert backend.seen[0].method == "POST"
    assert backend.seen[0].headers["Content-Type"] == "application/json"


async def test_the_backends_status_and_a_redirect_are_passed_on(api: Api, backend: Backend) -> None:
    assert (await api.get(f"{PATH}/teapot"))[0] == 418
    async with api.session.get(f"{api.url}{PATH}/moved", allow_redirects=False) as answer:
        assert answer.status == 302


async def test_the_callers_credentials_stay_here_and_other_headers_do_not(
    api: Api, backend: Backend, robot: dict[str, str]
) -> None:
    rule = {"apiGroups": [""], "resources": ["services/proxy"], "verbs": ["get"]}
    grant(api, rule)
    answer = await api.get(f"{PATH}/", **robot, **{"X-Dovetail-Token": "for the service"})
    assert answer[0] == 200
    received = backend.seen[0].headers
    assert "Authorization" not in received
    assert received["X-Dovetail-Token"] == "for the service"
    assert received["X-Forwarded-Uri"] == f"{PATH}/"


async def test_the_headers_of_impersonation_stay_here(api: Api, backend: Backend) -> None:
    code, _ = await api.get(f"{PATH}/", **{"Impersonate-User": "somebody"})
    assert code == 403
    code, _ = await api.get(
        f"{PATH}/", **{"Impersonate-User": "boss", "Impersonate-Group": "system:masters"}
    )
    assert code == 200
    assert not [name for name in backend.seen[0].headers if name.startswith("Impersonate")]


@pytest.mark.parametrize(
    ("verbs", "name", "method", "code"),
    [
        (["get"], "web:status", "GET", 200),
        (["get"], "web:status", "POST", 403),
        (["create"], "web:status", "POST", 200),
        # A role names that part of the path as it is written, as on a real server.
        (["get"], "web", "GET", 403),
    ],
)
async def test_a_role_allows_a_method_on_a_service_and_its_port(
    api: Api, backend: Backend, robot: dict[str, str], verbs: list[str], name: str, method: str, code: int
) -> None:  # fmt: skip
    grant(
        api,
        {
            "apiGroups": [""],
            "resources": ["services/proxy"],
            "resourceNames": [name],
            "verbs": verbs,
        },
    )
    assert (await api.call(method, f"{PATH}/", None, **robot))[0] == code
    assert len(backend.seen) == (code == 200)


async def test_a_stream_arrives_piece_by_piece(api: Api, backend: Backend) -> None:
    async with ClientSession() as client, client.get(f"{api.url}{PATH}/stream") as answer:
        assert await answer.content.readany() == b"first"
        backend.proceed.set()
        assert await answer.content.read() == b"second"


async def test_who_cannot_be_reached_is_a_status(api: Api) -> None:
    assert (await api.get(f"{PATH}/"))[0] == 404
    create_service(api, {"addresses": [{"ip": "127.0.0.1"}], "ports": [port_named(1)]})
    code, status = await api.get(f"{PATH}/")
    assert (code, status["reason"]) == (503, "ServiceUnavailable")
    assert "error trying to reach service" in status["message"]
    for port, text in (
        ("grpc", 'no endpoints available for service "web:grpc"'),
        ("8081", 'no service port 8081 found for service "web"'),
    ):
        code, status = await api.get(PATH.replace("web:status", f"web:{port}"))
        assert (code, status["message"]) == (503, text)
    code, status = await api.get(PATH.replace("web:status", "ftp:web:status"))
    assert (code, status["message"]) == (400, 'invalid service request "ftp:web:status"')


async def test_a_service_without_addresses_says_so(api: Api) -> None:
    create_service(api)
    code, status = await api.get(f"{PATH}/")
    assert (code, status["message"]) == (
        503, 'no endpoints available for service "web:status"',
    )  # fmt: skip


async def test_ready_pods_of_the_selector_are_addresses_too(api: Api) -> None:
    create_service(api, selector={"app": "web"})
    for name, ready in (("a", "True"), ("b", "False")):
        ports = [{"name": "status", "containerPort": 8181}]
        container = {"name": "main", "image": "app", "ports": ports}
        metadata = {"name": name, "labels": {"app": "web"}}
        pod = {"metadata": metadata, "spec": {"containers": [container]}}
        api.store.create("pods", pod, namespace="default")
        conditions = [{"type": "Ready", "status": ready}]
        status = {"podIP": f"10.0.0.{len(ready)}", "conditions": conditions}
        await api.merge(f"/api/v1/namespaces/default/pods/{name}/status", {"status": status})
    found: list[Sequence[str]] = []

    def pick(given: Sequence[str]) -> str:
        found.append(given)
        return given[0]

    address_of(api.store, Proxied("default", "web:8080", "/"), pick)
    assert found == [["http://10.0.0.4:8181"]]


@pytest.mark.parametrize(
    ("path", "name", "rest"),
    [
        ("services/web:80/proxy", "web:80", "/"),
        ("services/https:web:status/proxy/a/b", "https:web:status", "/a/b"),
        ("services/web/status", None, None),
        ("pods/web/proxy/a", None, None),
    ],
)
def test_paths(path: str, name: str | None, rest: str | None) -> None:
    found = parse_proxied(f"/api/v1/namespaces/default/{path}")
    assert (found and found.name, found and found.rest) == (name, rest)


async def test_kubectl_reads_through_it(api: Api, backend: Backend, kubectl: Any) -> None:
    code, text = await kubectl("get", "--raw", f"{PATH}/status?a=b")
    assert code == 0
    assert '"/status?a=b"' in text
