"""The Kubernetes API client: plain dicts in and out, with limits on every call.

Reads are quorum reads (no ``resourceVersion=0``) and are tried up to four times on transient errors. Writes are retried
only on 429, which the server answers before it changes anything; any other failed write may have happened, and only the
caller can find out (R6). Every call first takes a token from a bucket of ``qps``.

Any call may raise Unreachable, Unavailable, Throttled (all transient) and Unauthorized (its text
names the missing RBAC rule); each method lists its further errors (``shared.errors``).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from random import Random
from typing import Any, TypeVar

from shared import errors
from shared.api.v1.auto_mode import KINDS_OF_OTHERS, is_of_others
from shared.concurrency.backoff import Backoff
from shared.concurrency.clock import Clock
from shared.kube.listing import KubeList, items_of, read_pages
from shared.kube.resources import PODS, Resource
from shared.kube.transport.connection import JSON, Connection, Observer, Timeouts
from shared.kube.transport.pacing import TokenBucket
from shared.kube.transport.statuses import (
    Call,
    Contended,
    contention_recognised,
    decode_object,
)
from shared.kube.watching import WatchEvent, parse_event, read_lines

READ_TRIES = 4
WRITE_TRIES = 4
LARGE_PAGE, SMALL_PAGE = 500, 100
"""Objects of one page. The second is in memory as JSON when only what is read from whole objects is kept."""
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
METADATA = f"{JSON};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,{JSON}"
"""Requests metadata only; a server without this feature sends whole objects."""
_VERSION = Resource("", "v1", "version", "Info", False)
Object = dict[str, Any]
T = TypeVar("T")


class Kube:
    """A client of one API server. Safe to share between tasks."""

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Clock,
        random: Random,
        qps: float = 200,
        burst: int = 300,
        first_backoff: float = 0.25,
    ) -> None:
        self._connection = connection
        self._bucket = TokenBucket(qps, burst, clock)
        self._random = random
        self._first_backoff = first_backoff

    @classmethod
    async def connect(
        cls,
        kubeconfig: str | None,
        *,
        clock: Clock,
        random: Random,
        user_agent: str,
        qps: float = 200,
        burst: int = 300,
        timeouts: Timeouts | None = None,
        context: str = "",
        impersonate: str = "",
    ) -> Kube:
        """A client from a kubeconfig file, or from the pod's service account when ``kubeconfig`` is None.

        ``context`` and ``impersonate`` as for ``Connection.open``. Sends no request yet. Raises ConfigurationError.
        """
        connection = await Connection.open(
            kubeconfig,
            clock=clock,
            user_agent=user_agent,
            timeouts=timeouts or Timeouts(),
            context=context,
            impersonate=impersonate,
        )
        return cls(connection, clock=clock, random=random, qps=qps, burst=burst)

    def observe(self, observer: Observer) -> None:
        """Call ``observer`` for each request that is sent."""
        self._connection.observer = observer

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Object:
        """The current state of one object (quorum read). Raises NotFound, also when another autoscaler keeps it."""
        call = Call("get", resource, name, namespace)
        found = decode_object(call, await self._read(call, {}))
        if is_of_others(resource.kind, found):
            raise errors.NotFound(f"{call}: another autoscaler keeps it")
        return found

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
    ) -> KubeList:
        """All objects (of all namespaces without ``namespace``); starts again when a page expires.

        Holds all objects in memory; for pods and machines prefer ``read_all``. Raises NotFound when the CRD is
        missing, Gone when the list expired three times in a row.
        """
        pages = partial(
            self.pages,
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
        )
        return KubeList(*await read_pages(pages, lambda one: one))

    async def read_all(
        self, resource: Resource, read: Callable[[Object], T], *, metadata_only: bool = False
    ) -> Sequence[T]:
        """The results of ``read`` for all objects of all namespaces; the objects themselves are not kept.

        ``read`` gets an object again when the list starts again. Raises as ``list``.
        """
        size = LARGE_PAGE if metadata_only else SMALL_PAGE
        pages = partial(self.pages, resource, page_size=size, metadata_only=metadata_only)
        return (await read_pages(pages, read))[0]

    async def pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        page_size: int = LARGE_PAGE,
        metadata_only: bool = False,
    ) -> AsyncGenerator[KubeList, None]:
        """One consistent list, page by page, so that 10,000 pods are never in memory at once; without objects of other
        autoscalers.

        ``metadata_only`` requests only the metadata, where they show whose an object is. Raises Gone when the list
        expired between pages: the pages read so far are not a complete list, start again.
        """
        metadata_only = metadata_only and resource.kind not in KINDS_OF_OTHERS
        call = Call("list", resource, None, namespace)
        asked = {"labelSelector": label_selector, "fieldSelector": field_selector}
        query = {name: text for name, text in asked.items() if text} | {"limit": str(page_size)}
        while True:
            data = await self._read(call, query, METADATA if metadata_only else JSON)
            page = decode_object(call, data)
            metadata = page.get("metadata") or {}
            yield KubeList(items_of(page, resource), str(metadata.get("resourceVersion", "")))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def create(
        self,
        resource: Resource,
        body: Object,
        namespace: str | None = None,
        *,
        owner: str | None = None,
        subresource: str | None = None,
    ) -> Object:
        """Create an object in ``namespace``, else in the one of its metadata; or a ``subresource`` of ``owner``.

        Raises AlreadyExists and InvalidObject.
        """
        if resource.namespaced:
            namespace = namespace or body["metadata"]["namespace"]
        call = Call("create", resource, owner, namespace, subresource)
        named = {"apiVersion": resource.api_version, "kind": resource.kind} | body
        return decode_object(call, await self._write(call, "POST", named))

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: Object,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """Merge patch (RFC 7386). ``metadata.resourceVersion`` in it makes it a compare-and-set; with ``metadata.uid``
        it fails when another object has this name.

        Raises NotFound, Conflict, InvalidObject.
        """
        call = Call("patch", resource, name, namespace, subresource)
        try:
            data = await self._write(call, "PATCH", body, MERGE_PATCH)
        except errors.InvalidObject as error:
            if error.field == "metadata.uid":  # the API server reports it as an immutable field
                raise errors.Conflict(f"another object has this name: {error.message}") from error
            raise
        return decode_object(call, data)

    async def json_patch(
        self,
        resource: Resource,
        name: str,
        operations: Sequence[Object],
        namespace: str | None = None,
        *,
        subresource: str | None = None,
    ) -> Object:
        """JSON patch (RFC 6902). A failed ``test`` operation raises Conflict; else as ``patch``."""
        call = Call("patch", resource, name, namespace, subresource)
        try:
            data = await self._write(call, "PATCH", [*operations], JSON_PATCH)
        except errors.InvalidObject as error:
            # The API server answers a failed test with 422 and no field; for an invalid object it names the field.
            if error.field == "object" and any(op.get("op") == "test" for op in operations):
                raise errors.Conflict(f"a test of the patch failed: {error.message}") from error
            raise
        return decode_object(call, data)

    async def replace(
        self, resource: Resource, body: Object, *, subresource: str | None = None
    ) -> Object:
        """Replace the whole object; its ``metadata.resourceVersion`` makes it a compare-and-set.

        Raises NotFound, Conflict, InvalidObject.
        """
        metadata = body["metadata"]
        namespace = metadata.get("namespace") if resource.namespaced else None
        call = Call("update", resource, metadata["name"], namespace, subresource)
        named = {"apiVersion": resource.api_version, "kind": resource.kind} | body
        return decode_object(call, await self._write(call, "PUT", named))

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace_seconds: int | None = None,
    ) -> None:
        """Delete an object (finalizers and the grace period may delay its removal).

        Raises NotFound, and Conflict when the object has another ``uid`` or ``resource_version``.
        """
        call = Call("delete", resource, name, namespace)
        options = _delete_options(uid, resource_version, grace_seconds)
        body = {"apiVersion": "v1", "kind": "DeleteOptions"} | options
        await self._write(call, "DELETE", body)

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        """Evict a pod through the eviction API, which respects disruption budgets.

        Raises EvictionBlocked when a budget forbids it now (``context["multiple"]``: several budgets select the pod, so
        it can never be evicted), Conflict when another pod has this name, NotFound.
        """
        call = Call("create", PODS, name, namespace, "eviction")
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": _delete_options(uid, None, None),
        }
        await self._write(call, "POST", body)

    async def serves(self, resource: Resource) -> bool:
        """Whether the server serves this resource of a group, that is, whether its CRD is installed.

        Reads the discovery API, which every service account may read, whatever its role.
        """
        call = Call("discover", resource)
        try:
            found = await self._ask(call, f"/apis/{resource.api_version}")
        except errors.NotFound:
            return False
        return any(row.get("name") == resource.plural for row in found.get("resources") or [])

    async def version(self) -> Object:
        """The server's version: ``major``, ``minor``, ``gitVersion``. Every service account may read it."""
        return await self._ask(Call("read", _VERSION), "/version")

    @property
    def connection(self) -> Connection:
        """For requests that are no calls on resources: to Services, of logs, of the server's time."""
        return self._connection

    async def watch(
        self,
        resource: Resource,
        resource_version: str,
        *,
        namespace: str | None = None,
        name: str = "",
        timeout_seconds: int = 300,
        on_bytes: Callable[[], None] | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Changes after ``resource_version``, bookmarks included, until the server ends the watch: in all namespaces,
        or of what ``namespace`` and ``name`` say.

        ``on_bytes`` is called when the watch is open and for every chunk that arrives. Use ``contextlib.aclosing`` to
        leave it early. Raises Gone when the version is too old (list again), Unreachable when the stream breaks or is
        silent for ``Timeouts.watch_silence`` seconds, another DovetailError on another ERROR event.
        """
        call = Call("watch", resource)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(timeout_seconds),
        }
        if name:  # by a selector, because that is what a role with resourceNames allows
            query["fieldSelector"] = f"metadata.name={name}"
        await self._bucket.acquire()
        async with (
            self._connection.stream(call, resource.path(namespace), query) as answer,
            aclosing(read_lines(call, answer, on_bytes)) as lines,
        ):
            async for line in lines:
                yield parse_event(call, line)

    async def _read(self, call: Call, query: dict[str, str], accept: str = JSON) -> bytes:
        path = call.resource.path(call.namespace, call.name, call.subresource)
        return await self._again(
            lambda: self._connection.unary(call, "GET", path, query, accept=accept),
            errors.TransientError,
            READ_TRIES,
        )

    async def _ask(self, call: Call, path: str) -> Object:
        data = await self._again(
            lambda: self._connection.unary(call, "GET", path, {}), errors.TransientError, READ_TRIES
        )
        return decode_object(call, data)

    async def _write(
        self, call: Call, method: str, body: object, content_type: str = JSON
    ) -> bytes:
        path = call.resource.path(call.namespace, call.name, call.subresource)

        async def send() -> bytes:
            with contention_recognised(body):
                return await self._connection.unary(call, method, path, {}, body, content_type)

        return await self._again(send, (errors.Throttled, Contended), WRITE_TRIES)

    async def _again(
        self,
        send: Callable[[], Awaitable[T]],
        repeatable: type[errors.TransientError] | tuple[type[errors.TransientError], ...],
        tries: int,
    ) -> T:
        """Send up to ``tries`` times while the error is ``repeatable``, with jittered delays."""
        backoff = Backoff(self._random, first=self._first_backoff)
        for _ in range(tries - 1):
            await self._bucket.acquire()
            try:
                return await send()
            except repeatable as error:
                wait = error.context.get("retry_after")
                delay = backoff.next(at_least=wait if isinstance(wait, float) else 0.0)
            await asyncio.sleep(delay)
        await self._bucket.acquire()
        return await send()


def _delete_options(
    uid: str | None, resource_version: str | None, grace_seconds: int | None
) -> Object:
    expected = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in expected.items() if value}
    options: Object = {"preconditions": preconditions} if preconditions else {}
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    return options
