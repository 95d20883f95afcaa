"""Recognisable values where users keep secrets appear nowhere that Dovetail writes: no log (at level debug), metric,
endpoint, record in Redis, event, status or LaunchRecord. And requests made from the OpenAPI documents of the services
find no defect.

The values are seen to be in use: the webhook is posted to, the user data reaches the instance, Redis and AWS are
signed in to.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from cli.demo import workload
from local.probe import request_json
from local.stack import Stack
from local.stack_plan import SERVICES
from shared.kube.client import Kube
from shared.kube.resources import (
    CONFIG_MAPS,
    EC2_NODE_CLASSES,
    EVENTS,
    LAUNCH_RECORDS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    Resource,
)
from shared.redis.bus.connection import call, connect
from tests.services.test_openapi import EXAMPLES, no_defect
from tests.support.network.made_requests import try_all
from tests.support.network.status_server import free_port
from tests.support.stories.playground import (
    Playground,
    playground_on,
    short_settings,
    stack_of,
    until,
)

pytestmark = [pytest.mark.e2e, pytest.mark.nightly, pytest.mark.timeout(900)]
SECRETS = Resource("", "v1", "secrets", "Secret", True)
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", True)
MARK = "xq7canary"
PLACES = (
    *("pod-env", "pod-argument", "pod-annotation", "pod-volume", "secret", "config-map"),
    *("user-data", "broken-user-data", "class-annotation", "pool-annotation"),
    *("webhook-path", "webhook-query", "webhook-user", "password", "mirror-key"),
)
VALUES = {place: f"{MARK}-{place}-value" for place in PLACES}
PATHS = ("/metrics", "/status", "/readyz", "/healthz", "/openapi.json")
CONSOLE_PATHS = (
    *("/api/cluster", "/api/decisions", "/api/cost", "/api/interruptions", "/api/queues"),
    *("/api/health", "/api/history"),
)


class Receiver:
    """The webhook: refuses the first post, so that what is logged about it is seen too."""

    def __init__(self) -> None:
        self.port = free_port()
        self.paths: list[str] = []

    @property
    def url(self) -> str:
        user = f"hook:{VALUES['webhook-user']}"
        path, query = VALUES["webhook-path"], VALUES["webhook-query"]
        return f"http://{user}@127.0.0.1:{self.port}/{path}?token={query}"

    async def answer(self, request: web.Request) -> web.Response:
        self.paths.append(request.path_qs)
        return web.Response(status=500 if len(self.paths) == 1 else 200)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.answer)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()


@pytest.fixture(scope="module")
def receiver() -> Receiver:
    return Receiver()


@pytest.fixture(scope="module")
def stack(receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A stack whose passwords and addresses are recognisable."""
    extra = {"LOG_LEVEL": "debug", "API_DOCS": "true", "WEBHOOK_URL": receiver.url}
    settings = short_settings(tmp_path_factory.mktemp("stack"), SERVICES, **extra)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LOCAL_PASSWORD", VALUES["password"])
        key = VALUES["mirror-key"]
        with stack_of(replace(settings, console=True, log_level="debug", mirror_key=key)) as made:
            yield made


@pytest.fixture
async def playground(stack: Stack) -> AsyncIterator[Playground]:
    async with playground_on(stack) as made:
        yield made


async def test_secret_values_appear_nowhere(playground: Playground, receiver: Receiver) -> None:
    async with receiver.running():
        await lay_down(playground.kube)
        await play(playground, receiver)
        texts = {
            **logs(playground.stack),
            **await pages(playground.environment.services),
            **await records(playground.environment.redis_url),
            **await written_objects(playground.kube),
        }
        assert sum(map(len, texts.values())) > 100_000  # there was something to look at
        assert found_in(texts) == [], "\n".join(found_in(texts))
        await made_requests(playground)
        assert (
            found_in({**logs(playground.stack), **await pages(playground.environment.services)})
            == []
        )


async def lay_down(kube: Kube) -> None:
    """A class, a pool and pods with secrets in every place that a user may put one."""
    for kind, place in ((SECRETS, "secret"), (CONFIG_MAPS, "config-map")):
        metadata = {"name": place, "namespace": "default"}
        field = "stringData" if kind is SECRETS else "data"
        await kube.create(kind, {"metadata": metadata, field: {"key": VALUES[place]}})
    node_class = workload.load_manifest("v1/ec2nodeclass")
    node_class["metadata"]["annotations"] = {"example.org/a": VALUES["class-annotation"]}
    node_class["spec"]["userData"] = f"#!/bin/sh\necho {VALUES['user-data']}\n"
    await kube.create(EC2_NODE_CLASSES, node_class)
    broken = json.loads(json.dumps(node_class))
    broken["metadata"]["name"] = "broken"
    broken["spec"] |= {
        "userData": BROKEN_USER_DATA,
        "amiSelectorTerms": [{"alias": "bottlerocket@latest"}],
    }
    await kube.create(EC2_NODE_CLASSES, broken)
    for name in ("default", "broken"):
        pool = workload.load_manifest("v1/nodepool")
        pool["metadata"] = {
            "name": name, "annotations": {"example.org/a": VALUES["pool-annotation"]},
        }  # fmt: skip
        template = pool["spec"]["template"]
        template["spec"]["nodeClassRef"]["name"] = name
        template["metadata"] = {"labels": {"kind": name}}
        await kube.create(NODE_POOLS, pool)
    await kube.create(DEPLOYMENTS, deployment("web", 3, {"kind": "default"}))
    await kube.create(DEPLOYMENTS, deployment("never", 2, {"kind": "nowhere"}))
    await kube.create(DEPLOYMENTS, deployment("broken", 1, {"kind": "broken"}))


BROKEN_USER_DATA = f'[settings.kubernetes\nkey = "{VALUES["broken-user-data"]}\n'


def deployment(name: str, replicas: int, selector: dict[str, str]) -> dict[str, Any]:
    container = {
        "name": "main", "image": "app", "args": [f"--key={VALUES['pod-argument']}"],
        "env": [{"name": "KEY", "value": VALUES["pod-env"]}],
        "resources": {"requests": {"cpu": "900m", "memory": "256M"}},
    }  # fmt: skip
    spec = {
        "nodeSelector": selector, "containers": [container],
        "volumes": [{"name": "v", "hostPath": {"path": f"/{VALUES['pod-volume']}"}}],
    }  # fmt: skip
    annotations = {"example.org/key": VALUES["pod-annotation"]}
    template = {"metadata": {"labels": {"app": name}, "annotations": annotations}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }  # fmt: skip


async def play(playground: Playground, receiver: Receiver) -> None:
    """Nodes are launched, interrupted and removed; each secret is used where it belongs."""
    kube = playground.kube

    async def runs() -> list[Any]:
        pods = (await kube.list(PODS, "default", label_selector="app=web")).items
        bound = [pod for pod in pods if (pod.get("status") or {}).get("phase") == "Running"]
        return bound if len(bound) == 3 else []

    running = await until(runs, "three pods that run")
    control = f"{playground.environment.aws_endpoint_url}/_dovetail"
    instances = (await asyncio.to_thread(request_json, f"{control}/instances"))["instances"]
    assert any(VALUES["user-data"] in str(decoded(one.get("userData"))) for one in instances)
    node = await kube.get(NODES, running[0]["spec"]["nodeName"])
    for pod in ("web", "never", "broken"):
        await explained(playground, pod)
    instance = node["spec"]["providerID"].rsplit("/", 1)[-1]
    body = {"kind": "spot", "instanceId": instance}
    await asyncio.to_thread(request_json, f"{control}/interruptions", body=body)

    async def posted() -> bool:
        return len(receiver.paths) >= 2  # the first one was refused

    await until(posted, "the webhook is posted to")
    assert VALUES["webhook-query"] in receiver.paths[0]
    await until(runs, "three pods that run again")


def decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "")
    except ValueError:
        return (text or "").encode()


async def explained(playground: Playground, app: str) -> None:
    pods = (await playground.kube.list(PODS, "default", label_selector=f"app={app}")).items
    url = f"{playground.environment.services['scheduler']}/explain"
    question = {"pod": f"default/{pods[0]['metadata']['name']}"}
    async with aiohttp.ClientSession() as session, session.post(url, json=question) as answer:
        text = await answer.text()
    assert answer.status == 200, text
    assert MARK not in text


def logs(stack: Stack) -> dict[str, str]:
    """What services and console log; the other parts are no part of a deployment."""
    return {
        f"log of {name}": stack.log_file(name).read_text(errors="replace")
        for name in (*SERVICES, "console")
    }


async def pages(services: dict[str, str]) -> dict[str, str]:
    found = {}
    async with aiohttp.ClientSession() as session:
        for name, url in services.items():
            for path in (*PATHS, *(CONSOLE_PATHS if name == "console" else ())):
                async with session.get(f"{url}{path}") as answer:
                    found[f"{name}{path}"] = await answer.text()
        console = services["console"]
        picture = json.loads(found["console/api/cluster"])
        for kind, rows in (("node?id=", picture["nodes"]), ("pod?name=", picture["pods"])):
            for row in rows[:20]:
                named = row["id"] if kind.startswith("node") else row["name"]
                async with session.get(f"{console}/api/{kind}{quote(named)}") as answer:
                    found[f"console {kind}{named}"] = await answer.text()
    return found


async def records(redis_url: str) -> dict[str, str]:
    """Every key of Redis with all that it holds: mirror, streams, dead letters, launch templates, dedupe keys."""
    redis = connect(redis_url, connections=1)
    reads = {
        b"string": ("GET",), b"hash": ("HGETALL",), b"stream": ("XRANGE", "-", "+"),
        b"zset": ("ZRANGE", "0", "-1"), b"set": ("SMEMBERS",), b"list": ("LRANGE", "0", "-1"),
    }  # fmt: skip
    found = {}
    try:
        for key in await call(redis, "list keys", "KEYS", "*"):
            kind = await call(redis, "read a type", "TYPE", key)
            if kind == b"none":  # it has expired meanwhile
                continue
            name, *rest = reads[kind]
            found[f"Redis {key.decode()}"] = repr(await call(redis, "read", name, key, *rest))
    finally:
        await redis.aclose()
    return found


async def written_objects(kube: Kube) -> dict[str, str]:
    """Objects that the services write, and what they write of the users' own."""
    found = {}
    for resource in (EVENTS, LAUNCH_RECORDS, NODE_CLAIMS, NODES):
        for raw in (await kube.list(resource)).items:
            found[f"{resource.kind} {raw['metadata']['name']}"] = json.dumps(raw)
    for resource in (EC2_NODE_CLASSES, NODE_POOLS, PODS):
        for raw in (await kube.list(resource)).items:
            found[f"status of {resource.kind} {raw['metadata']['name']}"] = json.dumps(
                raw.get("status")
            )
    return found


def found_in(texts: dict[str, str]) -> list[str]:
    """Where a value appears, as it is, in base64, or as in a URL."""
    return [
        f"{place} in {name}: …{_around(text, form)}…"
        for name, text in texts.items()
        for place, value in VALUES.items()
        for form in (value, quote(value, safe=""), *_encoded(value))
        if form in text
    ]


def _around(text: str, form: str) -> str:
    at = text.index(form)
    return text[max(0, at - 80) : at + len(form) + 20]


def _encoded(value: str) -> Iterator[str]:
    """The middle of its base64 at each of the three alignments, wherever the value stands in the encoded text."""
    for shift in range(3):
        text = base64.b64encode(b"x" * shift + value.encode()).decode()
        yield text[4:-4]


async def made_requests(playground: Playground) -> None:
    """The console has no OpenAPI document on a stack; ``tests/services/test_openapi.py`` tries it."""
    services = playground.environment.services
    for name in SERVICES:
        out = {"/simulate"} if EXAMPLES < 100 else set()
        url = services[name]
        tried = await asyncio.to_thread(try_all, url, no_defect, examples=EXAMPLES, leave_out=out)
        assert {"/status", "/metrics"} <= tried, name
