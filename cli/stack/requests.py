"""Requests to a service: directly, or through the API server of a cluster (``service://NAMESPACE/NAME:PORT``).

Through the API server a token travels in a header of its own. When a service asks for one and DOVETAIL_TOKEN has none,
a token of ten minutes is requested for the ServiceAccount that DOVETAIL_ACCOUNT names; it is for Dovetail's services
only, so that the kubeconfig's own credentials never leave the API server.

Errors: Unreachable without an answer, and what the API server itself refuses (``shared.kube.service_proxy``).
"""

from __future__ import annotations

import asyncio
import json
import os
import urllib.error
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cli.kubectl.addresses import SCHEME
from local.probe import exchange_json
from shared.errors import ConfigurationError, DovetailError, Unreachable

if TYPE_CHECKING:
    import aiohttp

    from shared.kube.client import Kube
    from shared.kube.service_proxy import ServiceAddress, ServiceAnswer

TOKEN = "DOVETAIL_TOKEN"
ACCOUNT = "DOVETAIL_ACCOUNT"
"""Name of the ServiceAccount, in the namespace of the service."""
USUAL_ACCOUNT = "dovetail-user"
TOKEN_SECONDS = 600
ERROR_LIMIT_BYTES = 64 * 2**10


@dataclass(frozen=True)
class Reply:
    """An HTTP status and the JSON of the body; None for a body that is no JSON. ``date``: the header."""

    status: int
    document: Any
    date: str = ""


def is_in_cluster(url: str) -> bool:
    """Whether the address is behind an API server."""
    return url.startswith(SCHEME)


def exchange(
    url: str, body: object = None, *, seconds: float, limit: int, token: str = ""
) -> Reply:
    """The reply to GET, or to POST with a body. Not to be called on a running event loop."""
    if is_in_cluster(url):
        return asyncio.run(_through_own_client(url, body, seconds, limit, token))
    try:
        return Reply(200, exchange_json(url, body, timeout=seconds, limit=limit, token=token))
    except urllib.error.HTTPError as refused:
        return Reply(refused.code, _parsed(refused.read(ERROR_LIMIT_BYTES)))
    except (OSError, ValueError) as error:
        raise Unreachable(f"no answer from {url} ({error})") from error


async def _through_own_client(
    url: str, body: object, seconds: float, limit: int, token: str
) -> Reply:
    async with own_cluster() as kube:
        return await exchange_in_cluster(kube, url, body, seconds=seconds, limit=limit, token=token)


@asynccontextmanager
async def own_cluster() -> AsyncGenerator[Kube, None]:
    """A client of the cluster that this process addresses."""
    from cli.stack.cluster import (
        connected_to,  # imports the client library, which a direct request does not need
    )

    async with connected_to(os.environ, command="services") as kube:
        yield kube


async def exchange_in_cluster(
    kube: Kube, url: str, body: object = None, *, seconds: float, limit: int, token: str = ""
) -> Reply:
    """As ``exchange``, on a client that is open already."""
    from shared.kube.service_proxy import ServiceProxy

    service, rest = parsed_address(url)
    proxy = ServiceProxy(kube.connection)

    async def send(credential: str) -> ServiceAnswer:
        headers = token_headers(credential)
        return await proxy.exchange(
            service, rest, body, headers=headers, seconds=seconds, limit=limit
        )

    answer = await send(token)
    if answer.status == 401 and not token:
        answer = await send(await token_of_account(kube, service.namespace))
    return Reply(answer.status, _parsed(answer.body), answer.headers.get("Date", ""))


@asynccontextmanager
async def opened_in_cluster(
    url: str, headers: Mapping[str, str], limits: aiohttp.ClientTimeout, token: str
) -> AsyncGenerator[aiohttp.ClientResponse, None]:
    """A GET whose answer is read as it arrives."""
    from shared.kube.service_proxy import ServiceProxy

    service, rest = parsed_address(url)
    async with own_cluster() as kube:
        proxy = ServiceProxy(kube.connection)
        sent = {**headers, **token_headers(token)}
        async with proxy.opened(service, rest, headers=sent, limits=limits) as answer:
            if answer.status != 401 or token:
                yield answer
                return
        sent |= token_headers(await token_of_account(kube, service.namespace))
        async with proxy.opened(service, rest, headers=sent, limits=limits) as answer:
            yield answer


def token_headers(token: str) -> dict[str, str]:
    """The header for a service behind an API server."""
    from shared.kube.token_access import HEADER

    return {HEADER: token} if token else {}


async def token_of_account(kube: Kube, namespace: str) -> str:
    """A new token for Dovetail's services. Raises ConfigurationError with the ways to get one."""
    from shared.kube.resources import SERVICE_ACCOUNTS
    from shared.kube.token_access import AUDIENCE

    account = os.environ.get(ACCOUNT) or USUAL_ACCOUNT
    spec = {"audiences": [AUDIENCE], "expirationSeconds": TOKEN_SECONDS}
    head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    try:
        made = await kube.create(
            SERVICE_ACCOUNTS, {**head, "spec": spec}, namespace, owner=account, subresource="token"
        )
    except DovetailError as error:
        raise ConfigurationError(
            f"the service asks for a token, and none could be made for the ServiceAccount {namespace}/{account} "
            f"({error.message}); create it and the roles of docs/operating/kubectl-plugin.md, or name another one "
            f"by {ACCOUNT}, or set {TOKEN} to the output of: "
            f"kubectl create token ACCOUNT -n NAMESPACE --audience {AUDIENCE}"
        ) from error
    return str(made["status"]["token"])


def parsed_address(url: str) -> tuple[ServiceAddress, str]:
    """The Service and the rest of the path. Raises ConfigurationError."""
    from shared.kube.service_proxy import ServiceAddress

    place, _, path = url.removeprefix(SCHEME).partition("/")
    named, _, rest = path.partition("/")
    name, _, port = named.partition(":")
    if not (place and name and port):
        raise ConfigurationError(f"{url} is not {SCHEME}NAMESPACE/NAME:PORT")
    return ServiceAddress(place, name, port), f"/{rest}"


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body or b"null")
    except ValueError:
        return None
