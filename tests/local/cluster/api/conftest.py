"""An embedded API server on a free port, and a client for it."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from local.cluster.storage.store import Store
from shared.concurrency.clock import SystemClock
from tests.support.cluster.kubectl import PROGRAMS, Kubectl, served

Document = dict[str, Any]


@dataclass
class Api:
    """The client: paths relative to the server, answers as (code, decoded body)."""

    store: Store
    url: str
    session: aiohttp.ClientSession

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        **headers: str,
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Content-Type": media, **headers} if data is not None else headers
        async with self.session.request(method, self.url + path, data=data, headers=sent) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text.startswith("{") else text

    async def get(self, path: str, **headers: str) -> tuple[int, Any]:
        return await self.call("GET", path, **headers)

    async def post(self, path: str, body: Any) -> tuple[int, Any]:
        return await self.call("POST", path, body)

    async def merge(self, path: str, body: Any) -> tuple[int, Any]:
        return await self.call("PATCH", path, body, media="application/merge-patch+json")

    async def apply(
        self, path: str, manager: str, body: Any, *, force: bool = False
    ) -> tuple[int, Any]:
        query = f"?fieldManager={manager}&force={str(force).lower()}"
        return await self.call("PATCH", path + query, body, media="application/apply-patch+yaml")


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    store = Store(SystemClock(), random.Random(7), log_length=500)
    async with served(store) as url, aiohttp.ClientSession() as session:
        yield Api(store, url, session)


@pytest.fixture(params=PROGRAMS)
def kubectl(api: Api, tmp_path: Path, request: pytest.FixtureRequest) -> Kubectl:
    return Kubectl.for_server(api.url, tmp_path, request.param)


@pytest.fixture
def pod() -> Document:
    container = {"name": "app", "image": "app:1", "resources": {"limits": {"cpu": "1"}}}
    return {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [container]},
    }


@pytest.fixture
def definition() -> Document:
    """A CustomResourceDefinition with defaults, bounds, an enumeration and printer columns."""
    requirement = {
        "type": "object",
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string"},
            "operator": {"type": "string", "enum": ["In", "NotIn"]},
            "values": {"type": "array", "items": {"type": "string"}},
        },
    }
    spec = {
        "type": "object",
        "description": "What a pool may launch.",
        "properties": {
            "weight": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Priority."},
            "replicas": {"type": "integer"},
            "consolidation": {
                "type": "object",
                "properties": {"enabled": {"type": "boolean", "default": False}},
            },
            "requirements": {"type": "array", "items": requirement},
            "limit": {
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
            },
        },
    }
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec, "status": status}}
    ready = '.status.conditions[?(@.type=="Ready")].status'
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
            },
        },
        "additionalPrinterColumns": [
            {"name": "Weight", "type": "integer", "jsonPath": ".spec.weight"},
            {"name": "Ready", "type": "string", "jsonPath": ready},
        ],
    }
    names = {"plural": "pools", "kind": "Pool", "shortNames": ["po2"]}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "pools.example.org"},
        "spec": {"group": "example.org", "scope": "Cluster", "names": names, "versions": [version]},
    }
