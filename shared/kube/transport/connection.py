"""One HTTP connection pool to the API server: kubernetes_asyncio's configuration and session, and raw answers.

The typed models of kubernetes_asyncio are not used: decoding 10,000 pods with them blocks the event
loop for 4 s. ``unused_models`` keeps them from being imported.

What may go wrong: no configuration (``ConfigurationError`` names the fix); a token that expires (kubeconfig credentials
are loaded again every minute, as kubernetes_asyncio itself does inside a cluster); an answer that never comes (every
request has a connect, a read and, except for watches, a total time limit, because the library has none).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
import yaml

from shared.concurrency.clock import Clock
from shared.errors import ConfigurationError, Unreachable
from shared.kube.transport.statuses import Call, cut, error_of, parse_status
from shared.kube.transport.unused_models import without_typed_models
from shared.log import get_logger

with without_typed_models():
    from kubernetes_asyncio import config as kube_config
    from kubernetes_asyncio.client import ApiClient, Configuration

log = get_logger(__name__)

REFRESH_SECONDS = 60.0
REFRESH_TIMEOUT_SECONDS = 30.0
READ_BUFFER_BYTES = 2**21
"""A watch event may be as large as an object in etcd."""
Answer = aiohttp.ClientResponse
Target = tuple[str, str, str, str, str]
"""Verb, group, version, kind, subresource."""
Observer = Callable[[Target, str, str, int, float], None]
"""Called for each request with target, HTTP method, host, status (0: no answer) and seconds until the answer began."""
JSON = "application/json"
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
"""Errors of a request without an answer, or in the middle of one."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
"""Refused: an API server sends none of its own, and a Service behind its proxy could lead the credentials elsewhere."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds. ``watch_open``: until the server accepts a watch, however late its first event is.
    ``watch_silence`` must exceed the server's bookmark interval of about 60 s (F15): a watch that
    is silent for longer counts as half-open and is opened again.
    """

    connect: float = 5.0
    read: float = 30.0
    total: float = 60.0
    watch_open: float = 15.0
    watch_silence: float = 75.0


class Connection:
    """Sends one request and returns the answer. ``Kube`` adds retries and the rate limit."""

    def __init__(self, api: Any, timeouts: Timeouts, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._host = urlsplit(api.configuration.host).netloc
        self.observer: Observer | None = None
        self._unary = aiohttp.ClientTimeout(
            total=timeouts.total,
            connect=timeouts.connect,
            sock_connect=timeouts.connect,
            sock_read=timeouts.read,
        )
        self._watch_open = timeouts.watch_open
        self._streaming = aiohttp.ClientTimeout(
            total=None,
            connect=timeouts.connect,
            sock_connect=timeouts.connect,
            sock_read=timeouts.watch_silence,
        )

    @classmethod
    async def open(
        cls,
        kubeconfig: str | None,
        *,
        clock: Clock,
        user_agent: str,
        timeouts: Timeouts,
        context: str = "",
        impersonate: str = "",
    ) -> Connection:
        """Connect with a kubeconfig file (or a list of them as in KUBECONFIG), or as a pod when it is None.

        ``context``: a context of the kubeconfig instead of its current one. ``impersonate``: the user as whom all
        requests act. Raises ConfigurationError.
        """
        configuration = Configuration()
        if kubeconfig:
            await _load_kubeconfig(kubeconfig, configuration, clock, context)
        else:
            _load_in_cluster(configuration)
        configuration.proxy = configuration.proxy or _proxy_of(configuration.host)
        try:
            api = ApiClient(configuration)
        except OSError as error:  # ssl.SSLError included: an unreadable CA or client certificate
            raise ConfigurationError(
                f"cannot use the certificates of {kubeconfig or 'the service account'}: {error}; "
                "check certificate-authority, client-certificate and client-key"
            ) from error
        api.user_agent = user_agent
        if impersonate:
            api.set_default_header("Impersonate-User", impersonate)
        _forget_environment(api.rest_client)
        return cls(api, timeouts, clock)

    async def close(self) -> None:
        """Close all sockets."""
        await self._api.close()

    async def unary(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> bytes:
        """Send a request and read the whole answer. Raises the Dovetail error of its HTTP status."""
        headers = {"Accept": accept, "Content-Type": content_type}
        # Not _request: entering a generator takes as long as all else here, at each request.
        answer = await self._begun(call, method, path, query, body, headers, self._unary)
        try:
            data = await answer.read()
        except _BROKEN as error:
            raise self._unreachable(call, error) from error
        finally:
            answer.close()  # as in _request
        if answer.status >= 400:
            raise error_of(call, answer.status, parse_status(data), answer.headers)
        return data

    @asynccontextmanager
    async def stream(
        self, call: Call, path: str, query: Mapping[str, str]
    ) -> AsyncGenerator[Answer, None]:
        """An open watch: read ``answer.content``. A failure while reading raises Unreachable."""
        headers = {"Accept": JSON, "Content-Type": JSON}
        request = self._request(
            call, "GET", path, query, None, headers, self._streaming, begun_within=self._watch_open
        )
        async with request as answer:
            if answer.status >= 400:
                data = await answer.read()
                raise error_of(call, answer.status, parse_status(data), answer.headers)
            yield answer

    @asynccontextmanager
    async def raw(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: object = None,
    ) -> AsyncGenerator[Answer, None]:
        """Any answer, whatever its status. A failure while reading raises Unreachable."""
        sent = {"Accept": "*/*", "Content-Type": JSON, **headers}
        async with self._request(call, method, path, query or {}, body, sent, timeout) as answer:
            yield answer

    @asynccontextmanager
    async def _request(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        begun_within: float | None = None,
    ) -> AsyncGenerator[Answer, None]:
        answer: Answer | None = None
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(begun_within):
                answer = await self._begun(call, method, path, query, body, headers, timeout)
            yield answer
        except _BROKEN as error:
            if answer is None:
                self._observe(call, method, 0, begun)
            raise self._unreachable(call, error) from error
        finally:
            if answer is not None:
                # The connection of a fully read answer is back in the pool already; any other must not be reused.
                answer.close()

    async def _begun(
        self,
        call: Call,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> Answer:
        """The answer once its status is there; the caller closes it. Raises Unreachable."""
        begun = self._clock.monotonic()
        try:
            answer = await self._send(method, path, query, body, headers, timeout)
        except _BROKEN as error:
            self._observe(call, method, 0, begun)
            raise self._unreachable(call, error) from error
        self._observe(call, method, answer.status, begun)
        return answer

    def _unreachable(self, call: Call, error: Exception) -> Unreachable:
        text = cut(str(error)) or type(error).__name__
        return Unreachable(f"{call}: no answer from {self._api.configuration.host}: {text}")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: object,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
    ) -> Answer:
        """As the library's call_api, which visits every value of a body and costs a third of a request."""
        api, rest = self._api, self._api.rest_client
        sent = {**headers, **api.default_headers}
        await api.update_params_for_auth(sent, [], ["BearerToken"])
        answer: Answer = await rest.pool_manager.request(
            method,
            f"{api.configuration.host}{path}{'?' if query else ''}{urlencode(query)}",
            headers=sent,
            data=body if body is None or isinstance(body, bytes) else orjson.dumps(body),
            timeout=timeout,
            allow_redirects=False,
            proxy=rest.proxy,
            proxy_headers=rest.proxy_headers,
            server_hostname=rest.server_hostname,
        )
        if answer.status in REDIRECTS:
            answer.close()
            raise aiohttp.ClientError("it redirects, which is not followed")
        return answer

    def _observe(self, call: Call, method: str, status: int, begun: float) -> None:
        if self.observer is not None:
            resource, subresource = call.resource, call.subresource or ""
            target = (call.verb, resource.group, resource.version, resource.kind, subresource)
            self.observer(target, method, self._host, status, self._clock.monotonic() - begun)


async def _load_kubeconfig(paths: str, configuration: Any, clock: Clock, context: str = "") -> None:
    existing = [path for path in paths.split(os.pathsep) if path and _is_file(path)]
    if not existing:
        raise ConfigurationError(
            f"KUBECONFIG names {paths}, which is no readable file: set it to a kubeconfig file, "
            "or unset it to use the pod's service account"
        )
    try:
        # Never write the user's file: it is usually mounted read-only.
        loader = await kube_config.load_kube_config(
            config_file=os.pathsep.join(existing),
            context=context or None,
            client_configuration=configuration,
            persist_config=False,
        )
    except _LOAD_ERRORS as error:
        used = f"the context {context}" if context else "current-context"
        raise ConfigurationError(
            f"cannot use kubeconfig {paths}: {cut(_load_problem(error))}; "
            f"check {used} and that its cluster and user exist (kubectl config view)"
        ) from error
    configuration.refresh_api_key_hook = _TokenRefresh(loader, clock)


def _load_in_cluster(configuration: Any) -> None:
    try:
        kube_config.load_incluster_config(client_configuration=configuration)
    except kube_config.ConfigException as error:
        raise ConfigurationError(
            "cannot find the API server: KUBECONFIG is not set, and this is no pod with a service "
            f"account ({error}); set KUBECONFIG to a kubeconfig file, or run in a pod with "
            "automountServiceAccountToken"
        ) from error


def _proxy_of(host: str) -> str | None:
    """The proxy of the environment for this API server (HTTPS_PROXY, NO_PROXY)."""
    url = urlsplit(host)
    if not url.hostname or proxy_bypass(url.hostname):
        return None
    return getproxies().get(url.scheme)


def _forget_environment(rest: Any) -> None:
    """Replace the library's session by one that ignores the environment.

    The library's own session reads proxies and ~/.netrc for each request, each in a thread, which costs as much as the
    request itself. A netrc entry for the API server would even make the request fail.
    """
    session = aiohttp.ClientSession(
        connector=rest.pool_manager.connector,
        read_bufsize=READ_BUFFER_BYTES,
        middlewares=[_closed_before_the_request],
    )
    rest.pool_manager.detach()
    rest.pool_manager = session


async def _closed_before_the_request(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> Answer:
    """Name the end of a kept connection as aiohttp does where it is seen later: it then repeats an idempotent request.

    A server closes a connection that was idle for long. aiohttp raises another error where the headers find it closed.
    """
    try:
        return await send(request)
    except aiohttp.ClientConnectionResetError as error:
        raise aiohttp.ServerDisconnectedError from error


def _is_file(path: str) -> bool:
    path = os.path.expanduser(path)
    return os.path.isfile(path) and os.access(path, os.R_OK)


_WRONG_SHAPE = (AttributeError, AssertionError, KeyError, TypeError)
"""The loader raises these for files of the wrong shape, such as a list instead of a mapping."""
_LOAD_ERRORS = (
    kube_config.ConfigException,
    yaml.YAMLError,
    OSError,
    *_WRONG_SHAPE,
    ValueError,
    RecursionError,
)


def _load_problem(error: Exception) -> str:
    if isinstance(error, _WRONG_SHAPE):
        return "it is no kubeconfig, with contexts, clusters and users"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())


class _TokenRefresh:
    """Loads kubeconfig credentials again each minute; those of `aws eks get-token` are valid for 15 minutes.

    The loader itself runs an exec plugin only when the token is about to expire.
    """

    def __init__(self, loader: Any, clock: Clock) -> None:
        self._loader = loader
        self._clock = clock
        self._due = clock.monotonic() + REFRESH_SECONDS

    async def __call__(self, configuration: Any) -> None:
        if self._clock.monotonic() < self._due:
            return
        self._due = self._clock.monotonic() + REFRESH_SECONDS
        try:
            async with asyncio.timeout(REFRESH_TIMEOUT_SECONDS):
                await self._loader.load_and_set(configuration)
        except (*_LOAD_ERRORS, TimeoutError) as error:
            log.warning(
                "cannot refresh the Kubernetes token, keeping the old one", error=str(error)
            )
