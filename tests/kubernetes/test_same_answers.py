"""The embedded API server answers as a real one does: each dialogue is held with both, and the words are compared.

Compared are code, reason, message and causes. What a server chooses for itself (uids, versions, times) is in no
dialogue's answers.
"""

from __future__ import annotations

import json
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from local.cluster.builtin.manifests import create_manifests
from local.cluster.storage.store import Store
from local.stack_plan import PROJECT
from shared.concurrency.clock import SystemClock
from tests.support.cluster.kubectl import served
from tests.support.real_cluster.control_plane import ControlPlane
from tests.support.waiting import wait_until

pytestmark = pytest.mark.kubernetes
NAMESPACE = "contract"
CORE = f"/api/v1/namespaces/{NAMESPACE}"
PODS, MAPS = f"{CORE}/pods", f"{CORE}/configmaps"
KARPENTER = "/apis/karpenter.sh"
MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
Words = tuple[int, str, str, tuple[tuple[str, str, str], ...]]


@dataclass
class Server:
    """One API server and what it has answered in the dialogue. ``trust``: how it is trusted."""

    url: str
    session: aiohttp.ClientSession
    trust: Any
    token: str = ""
    answers: list[Words] = field(default_factory=list)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        media: str = "application/json",
        token: str = "",
    ) -> Any:
        """Ask, note the words of the answer, return its body."""
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        headers = {"Content-Type": media}
        if token or self.token:
            headers["Authorization"] = f"Bearer {token or self.token}"
        async with self.session.request(
            method,
            self.url + path,
            data=None if body is None else data,
            headers=headers,
            ssl=self.trust,
        ) as answer:
            found = await answer.json()
            self.answers.append(words(answer.status, found))
            return found


def words(code: int, body: dict[str, Any]) -> Words:
    """What people and clients read of an answer."""
    if code < 400:
        return code, "", "", ()
    causes = (body.get("details") or {}).get("causes") or ()
    # The real server says some causes twice.
    told = ((c.get("field", ""), c.get("reason", ""), c.get("message", "")) for c in causes)
    return (
        code,
        body.get("reason", ""),
        UID.sub("UID", body.get("message", "")),
        tuple(dict.fromkeys(told)),
    )


@pytest.fixture
async def real(deployed: ControlPlane) -> AsyncIterator[Server]:
    """In a namespace of the dialogue's own, gone when the next one begins."""
    trust = ssl.create_default_context(cafile=str(deployed.files.authority))
    async with aiohttp.ClientSession() as session:
        server = Server(deployed.url, session, trust, deployed.tokens["administrator"])
        await server.ask("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})

        async def account() -> bool:
            found = await server.ask("GET", f"{CORE}/serviceaccounts/default")
            return str(found["kind"]) == "ServiceAccount"

        await wait_until(account, "the namespace's account", every=0.1)
        server.answers.clear()
        yield server
        for path in (PODS, f"{KARPENTER}/v1/nodepools", f"{KARPENTER}/v1alpha5/provisioners"):
            await server.ask("DELETE", path, {"gracePeriodSeconds": 0})
        deployed.kubectl("delete", "namespace", NAMESPACE, "--timeout=100s")


@pytest.fixture
async def embedded() -> AsyncIterator[Server]:
    store = Store(SystemClock(), random.Random(7))
    create_manifests(store, PROJECT / "deploy" / "crds")
    store.create("namespaces", {"metadata": {"name": NAMESPACE}})
    store.create("serviceaccounts", {"metadata": {"name": "default"}}, namespace=NAMESPACE)
    async with served(store) as url, aiohttp.ClientSession() as session:
        yield Server(url, session, True)


POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"containers": [{"name": "app", "image": "app:1"}]},
}
POOL = {
    "apiVersion": "karpenter.sh/v1alpha5",
    "kind": "Provisioner",
    "metadata": {"name": "contract"},
    "spec": {"providerRef": {"name": "default"}},
}
BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "web"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
}


async def objects(server: Server) -> None:
    """Twice, missing, in a missing namespace, with a stale version."""
    await server.ask("POST", PODS, POD)
    await server.ask("POST", PODS, POD)
    await server.ask("GET", f"{PODS}/absent")
    await server.ask("DELETE", f"{PODS}/absent")
    await server.ask("PATCH", f"{PODS}/absent", {}, media=MERGE)
    await server.ask("POST", "/api/v1/namespaces/nowhere/pods", POD)
    made = await server.ask("POST", MAPS, {"metadata": {"name": "a"}})
    await server.ask("PUT", f"{MAPS}/a", {**made, "data": {"a": "1"}})
    await server.ask("PUT", f"{MAPS}/a", {**made, "data": {"a": "2"}})
    await server.ask("DELETE", f"{MAPS}/a", {"preconditions": {"uid": "other"}})


async def patches(server: Server) -> None:
    """Of every kind, right and wrong."""
    await server.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    path = f"{MAPS}/a"
    await server.ask("PATCH", path, {"data": {"y": "2"}}, media=MERGE)
    await server.ask(
        "PATCH", path, [{"op": "test", "path": "/data/x", "value": "9"}], media=JSON_PATCH
    )
    await server.ask(
        "PATCH", path, [{"op": "replace", "path": "/data/x", "value": "9"}], media=JSON_PATCH
    )
    await server.ask("PATCH", path, {"data": {}}, media="application/strategic-merge-patch+json")


async def mistaken_patches(server: Server) -> None:
    """Of a type that is none or not for this kind, and of another object."""
    await server.ask("POST", MAPS, {"metadata": {"name": "a"}, "data": {"x": "1"}})
    path, pool = f"{MAPS}/a", f"{KARPENTER}/v1alpha5/provisioners/contract"
    await server.ask("PATCH", path, {"data": {}}, media="text/plain")
    await server.ask("POST", MAPS, {"metadata": {"name": "b"}}, media="text/plain")
    await server.ask("POST", pool.rpartition("/")[0], POOL)
    for media in ("text/plain", "application/strategic-merge-patch+json"):
        await server.ask("PATCH", pool, {"spec": {"weight": 1}}, media=media)
    for metadata in ({"name": "b"}, {"name": None}, {"namespace": "other"}, {"uid": "other"}):
        await server.ask("PATCH", path, {"metadata": metadata}, media=MERGE)
        await server.ask("PATCH", pool, {"metadata": metadata}, media=MERGE)
    rename = [{"op": "replace", "path": "/metadata/name", "value": "b"}]
    await server.ask("PATCH", path, rename, media=JSON_PATCH)
    await server.ask("PATCH", pool, {"kind": "NodePool"}, media=MERGE)
    await server.ask("PATCH", path, [], media=MERGE)
    await server.ask("PATCH", path, {}, media=JSON_PATCH)
    await server.ask("DELETE", pool)


async def shapeless(server: Server) -> None:
    """A spec that is none or no object."""
    specs: tuple[Any, ...] = (None, [], "text", 1)
    for spec in specs:
        await server.ask("POST", f"{KARPENTER}/v1alpha5/provisioners", {**POOL, "spec": spec})
    without = {name: value for name, value in POOL.items() if name != "spec"}
    await server.ask("POST", f"{KARPENTER}/v1alpha5/provisioners", without)


async def requests(server: Server) -> None:
    """Resources that a container may not ask for, or not so."""
    for asked in (
        {"requests": {"pods": "1"}},
        {"requests": {"storage": "1Gi"}},
        {"limits": {"pods": "1"}},
        {"requests": {"example.com/widget": "1"}},
        {"requests": {"example.com/widget": "1"}, "limits": {"example.com/widget": "2"}},
        {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
        {"requests": {"cpu": "many"}},
        {"requests": {"memory": "-1"}},
        {"limits": {"nvidia.com/gpu": "1"}},
    ):
        container = {**POD["spec"]["containers"][0], "resources": asked}
        await server.ask("POST", PODS, {**POD, "spec": {"containers": [container]}})
        await server.ask("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})


async def deletions(server: Server) -> None:
    """A finalizer cannot be added to what is deleted."""
    path = f"{MAPS}/held"
    await server.ask("POST", MAPS, {"metadata": {"name": "held", "finalizers": ["example.org/x"]}})
    await server.ask("DELETE", path)
    more = {"metadata": {"finalizers": ["example.org/x", "example.org/y"]}}
    await server.ask("PATCH", path, more, media=MERGE)
    await server.ask("PATCH", path, {"metadata": {"finalizers": None}}, media=MERGE)
    await server.ask("GET", path)


async def nominations(server: Server) -> None:
    """A bound pod takes none, and is bound once."""
    await server.ask("POST", PODS, POD)
    nominate = {"status": {"nominatedNodeName": "n1"}}
    await server.ask("PATCH", f"{PODS}/web/status", nominate, media=MERGE)
    await server.ask("POST", f"{PODS}/web/binding", BINDING)
    await server.ask("POST", f"{PODS}/web/binding", BINDING)


async def evictions(server: Server) -> None:
    """Of an absent pod, and of another one of that name."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    await server.ask("POST", f"{PODS}/web/eviction", eviction)
    await server.ask("POST", PODS, POD)
    other = {**eviction, "deleteOptions": {"preconditions": {"uid": "other"}}}
    await server.ask("POST", f"{PODS}/web/eviction", other)
    await server.ask("POST", f"{PODS}/web/eviction", eviction)


async def budgets(server: Server) -> None:
    """A budget without room refuses the eviction of a running pod."""
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    budget = {
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }
    await server.ask("POST", f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets", budget)
    await server.ask("POST", PODS, POD)
    await server.ask("POST", f"{PODS}/web/binding", BINDING)
    await server.ask("PATCH", f"{PODS}/web/status", {"status": ready}, media=MERGE)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web"}}
    answer = await server.ask("POST", f"{PODS}/web/eviction", eviction)
    # How many pods are healthy depends on whether a controller has counted them.
    code, reason, message, causes = server.answers.pop()
    server.answers.append((code, reason, message, ()))
    assert [cause[1] for cause in causes] == ["DisruptionBudget"], answer


async def rights(server: Server) -> None:
    """An account without a role, in every verb."""
    asked = await server.ask("POST", f"{CORE}/serviceaccounts/default/token", {"spec": {}})
    token = asked["status"]["token"]
    for method, path in (
        ("GET", "/api/v1/pods"),
        ("GET", PODS),
        ("GET", f"{PODS}/web"),
        ("GET", "/api/v1/nodes/n1"),
        ("POST", PODS),
        ("POST", f"{PODS}/web/eviction"),
        ("PATCH", f"{PODS}/web/status"),
        ("DELETE", PODS),
        ("GET", f"{KARPENTER}/v1/nodepools"),
        ("GET", f"{CORE}/services/web:80/proxy/"),
        ("POST", f"{CORE}/services/web:80/proxy/"),
        ("GET", "/metrics"),
    ):
        media = MERGE if method == "PATCH" else "application/json"
        body: dict[str, Any] | None = None if method == "GET" else {}
        await server.ask(method, path, body, media=media, token=token)
    await server.ask("GET", PODS, token="nobody's")


async def pools(server: Server) -> None:
    """The project's own kinds: shapes, bounds, rules between fields, nulls."""
    path = f"{KARPENTER}/v1alpha5/provisioners"

    async def put(spec: Any) -> None:
        await server.ask("POST", path, {
            "apiVersion": "karpenter.sh/v1alpha5", "kind": "Provisioner",
            "metadata": {"name": "contract"}, "spec": spec,
        })  # fmt: skip
        await server.ask("DELETE", f"{path}/contract")

    await put({"providerRef": {"name": "default"}})
    await put({"providerRef": {"name": "default"}, "weight": 1000})
    await put({"providerRef": {"name": "default"}, "weight": "many"})
    await put(
        {"providerRef": {"name": "default"}, "requirements": [{"key": "a", "operator": "Is"}]}
    )
    await put({"providerRef": {"name": "default"}, "requirements": [{"operator": "In"}]})
    await put({"providerRef": {"name": "default"}, "labels": None, "taints": None})
    await put({"providerRef": None})
    await put({"consolidation": {"enabled": True}, "ttlSecondsAfterEmpty": 30})


async def names(server: Server) -> None:
    """Names and labels that are none."""
    for metadata in (
        {"name": "Bad_Name"},
        {"name": "a" * 300},
        {},
        {"name": "ok", "labels": {"bad key!": "x"}},
        {"name": "ok", "labels": {"a": "bad value!"}},
        {"name": "ok", "namespace": "other"},
    ):
        await server.ask("POST", MAPS, {"metadata": metadata})


async def proxies(server: Server) -> None:
    """Of a Service: a port that it does not have, and what is no name of a Service."""
    spec = {"ports": [{"name": "http", "port": 80}]}
    await server.ask("POST", f"{CORE}/services", {"metadata": {"name": "proxied"}, "spec": spec})
    await server.ask("GET", f"{CORE}/services/proxied:81/proxy/")
    await server.ask("GET", f"{CORE}/services/a:proxied:80:b/proxy/")
    await server.ask("DELETE", f"{CORE}/services/proxied")


DIALOGUES: list[Callable[[Server], Awaitable[None]]] = [
    objects, patches, mistaken_patches, deletions, nominations, evictions, budgets, rights, pools, shapeless, requests,
    names, proxies,
]  # fmt: skip


@pytest.mark.parametrize("dialogue", DIALOGUES, ids=lambda one: one.__name__)
async def test_both_servers_say_the_same(
    real: Server, embedded: Server, dialogue: Callable[[Server], Awaitable[None]]
) -> None:
    await dialogue(real)
    await dialogue(embedded)
    pairs = zip(embedded.answers, real.answers, strict=True)
    different = [(mine, theirs) for mine, theirs in pairs if mine != theirs]
    shown = "\n".join(f"embedded: {mine}\nreal:     {theirs}" for mine, theirs in different)
    assert not different, f"{len(different)} of {len(real.answers)} answers differ:\n{shown}"
