"""The API server and the control plane of ``local.cluster`` on the loop, over HTTP connections of the simulation."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import aclosing
from contextvars import copy_context
from pathlib import Path
from random import Random
from typing import Any

import orjson
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response

from local.cluster.api.authorization.authentication import access_to
from local.cluster.api.calls import answer
from local.cluster.api.errors import ApiError
from local.cluster.api.requests import parse_path
from local.cluster.api.server import respond
from local.cluster.api.streaming.watches import SEND_SECONDS, WatchResponse
from local.cluster.builtin.manifests import create_accounts
from local.cluster.builtin.resources import Resource
from local.cluster.control_plane.running import ControlPlane
from local.cluster.kubeconfig import write_kubeconfig
from local.cluster.kubelet.instances import Instance
from local.cluster.settings import ClusterSettings
from local.cluster.storage.snapshots import Snapshot, expire_changes, restore, snapshot_of
from local.cluster.storage.store import Store
from local.cluster.storage.watches import Change
from shared.concurrency.clock import Clock
from shared.concurrency.tasks import TaskGroup
from shared.distribution.files import packaged
from simulation.servers.aws import AwsServer
from simulation.servers.http import Connection, ConnectionLost, Connections, Request
from simulation.servers.instances import EmulatorInstances
from simulation.servers.refusals import REFUSALS, Refusals
from simulation.settings import CLUSTER, REGION, RunSettings

FIXED_NODES = 2
"""Nodes of a managed node group, on which the services themselves would run."""
VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
SUBRESOURCE_VERBS = {"eviction": "evict", "binding": "bind", "status": "update status"}
CONTROL_PLANE = "cluster"
"""The author of changes by controllers, scheduler and kubelets."""

BACKUP_SECONDS = 5.0
OLDEST_BACKUP_SECONDS = 120.0
HALF_LINE = b'{"type":"MODIFIED","object":{"kind":"Po'

OnChange = Callable[[str, str, str | None, str, str], None]


class ClusterServer:
    """One cluster.

    ``on_change`` gets every change of an object: verb, resource, namespace, name, and the program that made it. Verbs
    are those of requests (create, update, patch, update status, evict, bind, delete), and ``remove`` when the object no
    longer exists. Every removed object was deleted or evicted first, in the same moment or earlier.
    """

    def __init__(
        self,
        settings: RunSettings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        aws: AwsServer,
        *,
        on_change: OnChange | None = None,
    ) -> None:
        self._loop, self._random, self._on_change = loop, random, on_change
        self._clock, self._context = clock, copy_context()
        self._author: tuple[str, str, str] | None = None
        """Verb, resource and program of the request that is being carried out."""
        self.store = Store(clock, random, on_change=self._changed)
        self._control_plane = ControlPlane(
            self.store,
            _cluster_settings(settings),
            clock,
            random,
            instances=EmulatorInstances(aws.emulator),
        )
        self._control_plane.create_first_objects()
        self._accounts = create_accounts(self.store, packaged("deploy", "kubernetes"))
        self._access = access_to(self.store)
        self._connections = Connections(self._handle, loop.time)
        self._watches: dict[Connection, None] = {}
        self._refusals = Refusals(random, loop.time)
        self._past: deque[tuple[float, Snapshot]] = deque()
        self._joinless: list[tuple[float, float]] = []
        """Begin and end, in wall time, of the times in which launched instances never join."""
        self._control_plane.fleet.unable_to_join = self._never_joins

    async def run(self) -> None:
        """The control plane: controllers, scheduler and kubelets; and the backups of etcd."""
        async with TaskGroup() as group:
            group.create_task(self._control_plane.run())
            group.create_task(self._keep_backups())

    def connection(self) -> Connection:
        """The protocol of a new connection, for ``create_server``."""
        return self._connections.new()

    def write_kubeconfigs(self, directory: Path, url: str) -> None:
        """Write one kubeconfig per ServiceAccount, named after it, and accept its token from now on."""
        for account in self._accounts:
            namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
            token = f"token-of-{name}"
            self._access.tokens.fix(token, namespace, name)
            write_kubeconfig(directory / name, url, token=token, namespace=namespace)

    # Faults

    def down(self, seconds: float) -> None:
        """For ``seconds`` every connection is reset. Controllers and kubelets go on: they use no connection."""
        self._connections.stop(seconds)

    def relist(self) -> None:
        """Forget the history, so that every watch ends with 410 and every client must list again."""
        expire_changes(self.store)

    def truncate_watches(self) -> None:
        """End every watch in the middle of a line."""
        for connection in list(self._watches):
            connection.write_raw(b"%x\r\n%b\r\n" % (len(HALF_LINE), HALF_LINE))
            connection.close()

    def refuse(self, status: int, percent: float, seconds: float) -> None:
        """For ``seconds`` refuse a share of the requests; with 409 only of those that change existing objects."""
        self._refusals.add(status, percent, seconds)

    def roll_back(self, seconds: float) -> None:
        """Restore the backup of ``seconds`` ago, or the oldest one: objects and resource versions are those of then.

        The API server starts again with it, so every connection is reset. Kubelets remember their machines.
        ``on_change`` gets one ``restore`` for all objects.
        """
        if not self._past:
            return
        until = self._loop.time() - seconds
        while len(self._past) > 1 and self._past[-1][0] > until:
            self._past.pop()
        self._connections.abort()
        restore(self.store, self._past[-1][1])
        self._control_plane.fleet.adopt_nodes()
        if self._on_change is not None:
            self._on_change("restore", "", None, "", "etcd")

    def never_join(self, seconds: float) -> None:
        """Instances that are launched within ``seconds`` never become nodes."""
        now = self._clock.now()
        self._joinless.append((now, now + seconds))

    def stop_kubelets(self, percent: float, seconds: float) -> None:
        """The kubelets of a share of the machines, at least of one, report nothing for ``seconds``."""
        fleet = self._control_plane.fleet
        running = sorted(fleet.reporting())
        if not running:
            return
        chosen = self._random.sample(running, max(1, round(len(running) * percent / 100)))
        fleet.silent.update(chosen)
        self._loop.call_later(
            seconds, fleet.silent.difference_update, chosen, context=self._context
        )

    def _never_joins(self, instance: Instance) -> bool:
        return any(begin <= instance.launched_at < end for begin, end in self._joinless)

    async def _keep_backups(self) -> None:
        while True:
            now = self._loop.time()
            self._past.append((now, snapshot_of(self.store)))
            while self._past[0][0] < now - OLDEST_BACKUP_SECONDS:
                self._past.popleft()
            await asyncio.sleep(BACKUP_SECONDS)

    # Requests

    def _handle(self, connection: Connection, request: Request) -> None:
        status = self._refusals.status(request.method)
        response = _refusal(status) if status else self._respond(request)
        if isinstance(response, WatchResponse):
            self._watches[connection] = None
            connection.work = task = self._loop.create_task(_stream(connection, response))
            task.add_done_callback(lambda _: self._watches.pop(connection, None))
            return
        body = b"" if request.method == "HEAD" else bytes(response.body)
        connection.answer(response.status_code, _headers(response), body)

    def _respond(self, request: Request) -> Response:
        """The answer. The application waits for nothing, because the whole body is here."""
        found = _starlette_request(request)
        self._author = _author(request)
        coroutine = respond(self.store, self._access, found)
        try:
            coroutine.send(None)
        except StopIteration as done:
            response: Response = done.value
            return response
        finally:
            self._author = None
        raise RuntimeError(f"{request.method} {request.target} waits for something")

    # Changes

    def _changed(self, resource: Resource, change: Change) -> None:
        if self._on_change is None:
            return
        verb, by = self._verb(resource, change)
        metadata = change.current.document["metadata"]
        place = metadata.get("namespace"), metadata["name"]
        is_gone = change.type == "DELETED"
        if not is_gone or not _is_deleted(change.previous.document):  # type: ignore[union-attr]
            self._on_change(verb, resource.plural, *place, by)
        if is_gone:
            self._on_change("remove", resource.plural, *place, by)

    def _verb(self, resource: Resource, change: Change) -> tuple[str, str]:
        before = change.previous
        if before is None:
            verb = "create"
        elif change.type == "DELETED" or (
            _is_deleted(change.current.document) and not _is_deleted(before.document)
        ):
            verb = "delete"
        else:
            verb = "update"
        if self._author is None:
            return verb, CONTROL_PLANE
        asked, plural, program = self._author
        same = plural == resource.plural and not (asked == "delete" and verb == "update")
        return asked if same else verb, program


def _is_deleted(document: dict[str, Any]) -> bool:
    return bool(document["metadata"].get("deletionTimestamp"))


def _author(request: Request) -> tuple[str, str, str]:
    target = parse_path(request.target.partition("?")[0])
    verb = VERBS.get(request.method, "get")
    if target is None:
        return verb, "", request.program
    return SUBRESOURCE_VERBS.get(target.subresource, verb), target.plural, request.program


def _starlette_request(request: Request) -> StarletteRequest:
    path, _, query = request.target.partition("?")
    scope = {
        "type": "http",
        "method": request.method,
        "scheme": "http",
        "server": ("api", 80),
        "root_path": "",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode("latin-1"),
        "headers": [
            (name.encode("latin-1"), value.encode("latin-1"))
            for name, value in request.headers.items()
        ],
    }
    found = StarletteRequest(scope)
    found._body = request.body  # what starlette keeps after it has read the body
    return found


def _headers(response: Response) -> list[tuple[str, str]]:
    rows = [
        (name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers
    ]
    return [row for row in rows if row[0] != "content-length"]


def _refusal(status: int) -> Response:
    reason, message = REFUSALS[status]
    error = ApiError(status, reason, message)
    headers = {"Retry-After": "1"} if status == 429 else None
    return answer(orjson.dumps(error.status()), status, headers)


async def _stream(connection: Connection, response: WatchResponse) -> None:
    connection.begin_stream(response.status_code, _headers(response))
    lines: Any = response.body_iterator
    try:
        async with aclosing(lines):
            async for chunk in lines:
                async with asyncio.timeout(SEND_SECONDS):
                    await connection.send(chunk)
        connection.end_stream()
    except TimeoutError:
        connection.abort()
    except ConnectionLost:
        return


def _cluster_settings(settings: RunSettings) -> ClusterSettings:
    return ClusterSettings(
        cluster_name=CLUSTER,
        aws_region=REGION,
        aws_endpoint_url=None,
        crd_directory=packaged("deploy", "crds"),
        kubelet_poll_seconds=settings.kubelet_poll_seconds,
        boot_seconds=settings.boot_seconds,
        ready_seconds=settings.ready_seconds,
        pod_start_seconds=settings.pod_start_seconds,
        node_monitor_grace_seconds=40.0,
        pod_stop_seconds=2.0,
        fixed_nodes=FIXED_NODES,
    )
