"""The embedded cluster's store and informers, as the local kubelets use them, on an existing API server.

Reads are served from the objects that the watches delivered. Writes go to the server one after another and wait for the
answer, because the server is on the same machine or near it. No answer raises ApiError 503. A connection that the
server closed while it was idle is reopened at once; if the first attempt of a create had succeeded, the repeated one
gets AlreadyExists.
"""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import ssl
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import urlsplit

from local.cluster.api.errors import ApiError
from local.cluster.control_plane.informers import Handler, Key, Obj, key_of
from local.cluster.control_plane.supervision import supervise
from local.foreign.kubeconfig import KubeContext
from shared.concurrency.tasks import TaskGroup
from shared.errors import DovetailError, Gone
from shared.kube.client import MERGE_PATCH, Kube
from shared.kube.resources import CSI_NODES, NODES, PODS, VOLUME_ATTACHMENTS, Resource

WATCHED = {one.plural: one for one in (PODS, NODES, CSI_NODES, VOLUME_ATTACHMENTS)}
REQUEST_TIMEOUT_SECONDS = 30.0


class UnwatchedKind(DovetailError):
    """A kubelet asked for a kind that is not in ``WATCHED``, so no watch delivers its objects."""


def _watched(plural: str, group: str | None = None) -> Resource:
    """The resource. ``group``: None when the caller does not name it. Raises UnwatchedKind."""
    found = WATCHED.get(plural)
    if found is None or group not in (None, found.group):
        named = f"{plural}.{group}" if group else plural
        raise UnwatchedKind(f"{named} is not watched on this server; add it to WATCHED")
    return found


class RemoteStore:
    """The watched objects of one API server. ``labels``: labels added to every created object."""

    def __init__(self, config: KubeContext, labels: Mapping[str, str]) -> None:
        self._config, self._labels = config, labels
        self._token = str(config.user.get("token") or "")
        self._connection: http.client.HTTPConnection | None = None
        self.objects: dict[str, dict[Key, Obj]] = defaultdict(dict)

    def find(self, plural: str, name: str, *, group: str = "", namespace: str | None = None) -> Any:
        """The object of the last watch event, or None."""
        _watched(plural, group)
        return self.objects[plural].get(Key(namespace or "", name))

    def create(self, plural: str, document: Obj, *, group: str = "") -> Obj:
        _watched(plural, group)
        metadata = document["metadata"]
        marked = {**metadata, "labels": {**(metadata.get("labels") or {}), **self._labels}}
        return self._send("POST", self._path(plural), {**document, "metadata": marked})

    def update(self, plural: str, document: Obj, *, subresource: str) -> Obj:
        key = key_of(document)
        return self._send("PUT", self._path(plural, key, subresource), document)

    def patch(self, plural: str, name: str, body: Obj, *, subresource: str = "") -> Obj:
        return self._send("PATCH", self._path(plural, Key("", name), subresource), body)

    def delete(
        self,
        plural: str,
        name: str,
        *,
        uid: str = "",
        group: str = "",
        namespace: str = "",
        grace_seconds: int | None = None,
    ) -> Obj:
        _watched(plural, group)
        options: Obj = {"preconditions": {"uid": uid}} if uid else {}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        return self._send("DELETE", self._path(plural, Key(namespace, name)), options)

    def close(self) -> None:
        """Give the connection back; the next write opens one anew."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _path(self, plural: str, key: Key | None = None, subresource: str = "") -> str:
        resource = _watched(plural)
        root = f"/apis/{resource.group}/v1" if resource.group else "/api/v1"
        if key is None:
            return f"{root}/{plural}"
        place = f"namespaces/{key.namespace}/{plural}" if key.namespace else plural
        return f"{root}/{place}/{key.name}" + (f"/{subresource}" if subresource else "")

    def _send(self, method: str, path: str, body: Obj) -> Obj:
        reused = self._connection is not None
        try:
            code, answer = self._exchange(method, path, body)
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.close()
            if reused:
                return self._send(method, path, body)
            raise ApiError(503, "ServiceUnavailable", f"{method} {path}: {error}") from error
        if code >= 400:
            raise ApiError(code, answer.get("reason", ""), answer.get("message", ""))
        return answer

    def _exchange(self, method: str, path: str, body: Obj) -> tuple[int, Obj]:
        if self._connection is None:
            self._connection = _connection(self._config)
        headers = {"Content-Type": MERGE_PATCH if method == "PATCH" else "application/json"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        prefix = urlsplit(self._config.server).path.rstrip("/")
        self._connection.request(method, prefix + path, json.dumps(body), headers)
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())


def _connection(config: KubeContext) -> http.client.HTTPConnection:
    parts = urlsplit(config.server)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.netloc, timeout=REQUEST_TIMEOUT_SECONDS)
    data = config.cluster.get("certificate-authority-data")
    context = ssl.create_default_context(
        cafile=config.cluster.get("certificate-authority"),
        cadata=base64.b64decode(data).decode() if data else None,
    )
    if config.cluster.get("insecure-skip-tls-verify"):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return http.client.HTTPSConnection(
        parts.netloc, context=context, timeout=REQUEST_TIMEOUT_SECONDS
    )


class RemoteInformers:
    """Calls the handlers for every watch event, in the order of their registration."""

    def __init__(self, store: RemoteStore, kube: Kube) -> None:
        self._store, self._kube = store, kube
        self._handlers: dict[str, list[Handler]] = defaultdict(list)
        self._unlisted = set(WATCHED)
        self.listed = asyncio.Event()
        """Set when all kinds are listed. Before that, a kubelet could mistake a node that was not read yet for a
        missing one.
        """

    def on(self, plural: str, handler: Handler, *, group: str = "") -> None:
        """Call ``handler(type, object, old)`` for every event of a watched kind."""
        _watched(plural, group)
        self._handlers[plural].append(handler)

    async def run(self) -> None:
        """Follow all watched kinds until cancelled."""
        async with TaskGroup() as tasks:
            for plural, resource in WATCHED.items():
                tasks.create_task(supervise(f"watch {plural}", self._follow(plural, resource)))

    def _follow(self, plural: str, resource: Resource) -> Callable[[], Any]:
        async def follow() -> None:
            while True:
                version = await self._list(plural, resource)
                try:
                    await self._watch(plural, resource, version)
                except Gone:
                    continue

        return follow

    async def _list(self, plural: str, resource: Resource) -> str:
        listed = await self._kube.list(resource)
        there = {key_of(raw) for raw in listed.items}
        for key, gone in list(self._store.objects[plural].items()):
            if key not in there:
                self._dispatch(plural, "DELETED", gone)
        for raw in listed.items:
            self._dispatch(plural, "ADDED", raw)
        self._unlisted.discard(plural)
        if not self._unlisted:
            self.listed.set()
        return listed.resource_version

    async def _watch(self, plural: str, resource: Resource, version: str) -> None:
        async with aclosing(self._kube.watch(resource, version)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    self._dispatch(plural, event.type, event.object)

    def _dispatch(self, plural: str, event_type: str, obj: Obj) -> None:
        known, key = self._store.objects[plural], key_of(obj)
        old = known.pop(key, None)
        if event_type != "DELETED":
            known[key] = obj
        for handler in self._handlers[plural]:
            handler(event_type, obj, old)
