"""Requests to the console: one snapshot, one report, or the stream of changes.

Errors: no variable names a console; nothing answers; the console refuses the token; what answers is no console. Each
message names the next step.

Redirects are not followed: the token is for the address that the user named.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from http import HTTPStatus
from typing import NamedTuple
from urllib.parse import urlsplit

import aiohttp

from cli.stack.requests import TOKEN as CLUSTER_TOKEN
from cli.stack.requests import is_in_cluster, opened_in_cluster
from cli.top.cells import safe
from cli.top.events import Decoder, message_of
from cli.top.records import Message, Snapshot
from cli.top.state import Lost
from shared.concurrency.backoff import Backoff
from shared.errors import (
    ConfigurationError,
    DovetailError,
    Unauthorized,
    Unavailable,
    Unreachable,
)

VARIABLE = "DOVETAIL_CONSOLE_URL"
TOKEN = "DOVETAIL_CONSOLE_TOKEN"
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 30.0
"""A connection without a byte for this time is given up: six beats are missing."""
SNAPSHOT_SECONDS = 60.0
ANSWER_LIMIT_BYTES = 256 * 2**20
ERROR_LIMIT_BYTES = 64 * 2**10
FIRST_RETRY_SECONDS = 0.5
LONGEST_RETRY_SECONDS = 15.0


class Address(NamedTuple):
    """Base URL of a console, and the token for it, empty if it needs none."""

    url: str
    token: str = ""


def address_of(variables: Mapping[str, str], shell: Mapping[str, str]) -> Address:
    """``variables`` name the console, ``shell`` has the token. Raises ConfigurationError with the ways to set them."""
    url = variables.get(VARIABLE, "").rstrip("/")
    if not url:
        raise ConfigurationError(
            f"no stack with a console runs here and {VARIABLE} is not set; run `dovetail up --detach`, or in a "
            "cluster: kubectl port-forward -n dovetail deploy/dovetail-console 8080, then "
            f"export {VARIABLE}=http://127.0.0.1:8080"
        )
    if not _is_http(url):
        raise ConfigurationError(
            f"{VARIABLE} is not a URL such as http://127.0.0.1:8080, without a password"
        )
    variable = CLUSTER_TOKEN if is_in_cluster(url) else TOKEN
    token = shell.get(variable, "").strip()
    if not (token.isascii() and token.isprintable()):
        raise ConfigurationError(f"{variable} has characters that no token has; set it again")
    return Address(url, token)


def _is_http(url: str) -> bool:
    """Without a password: messages show the URL."""
    if is_in_cluster(url):
        return True
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
        return parts.scheme in ("http", "https") and named
    except ValueError:
        return False


async def snapshot(address: Address) -> bytes:
    """The JSON of the whole cluster. Raises as ``report``."""
    return await report(address, "cluster")


async def report(address: Address, name: str) -> bytes:
    """The JSON of one view. Raises Unauthorized, ConfigurationError, Unavailable, Unreachable."""
    limits = aiohttp.ClientTimeout(total=SNAPSHOT_SECONDS, sock_connect=CONNECT_SECONDS)
    async with _answer(address, f"/api/{name}", {}, limits) as answer:
        if answer.content_type != "application/json":
            raise _no_console(address, f"sends {answer.content_type}")
        return await _read(answer, ANSWER_LIMIT_BYTES)


async def updates(address: Address, backoff: Backoff) -> AsyncGenerator[Message | Lost, None]:
    """The messages of the stream, without an end. After a break it continues where it was, or with a snapshot.

    Raises Unauthorized when the console refuses the token, at any time. Other errors are raised when there was no
    message at all; later they are yielded as Lost, and the next attempt follows after a pause that grows.
    """
    last_id, heard = "", False
    while True:
        problem = "the console ended the stream"
        try:
            async with aclosing(_messages(address, last_id)) as messages:
                async for name, message in messages:
                    last_id, heard = name, True
                    if not isinstance(message, Snapshot):  # the first message proves little
                        backoff.reset()
                    yield message
        except DovetailError as error:
            if not heard or isinstance(error, Unauthorized):
                raise
            problem = error.message
        except ValueError as error:
            # With this id the console would send the same event again; without one it sends a snapshot.
            problem, last_id = f"the console sends what is not understood ({error})", ""
        if not heard:
            raise Unreachable(f"{problem} at {address.url}; see the console's log")
        pause = backoff.next()
        yield Lost(problem, pause)
        await asyncio.sleep(pause)


async def _messages(address: Address, last_id: str) -> AsyncGenerator[tuple[str, Message], None]:
    """The messages of one connection, each with its id."""
    limits = aiohttp.ClientTimeout(
        total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
    )
    headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
    if last_id:
        headers["Last-Event-ID"] = last_id
    async with _answer(address, "/api/stream", headers, limits) as answer:
        if answer.content_type != "text/event-stream":
            raise _no_console(address, f"sends {answer.content_type}")
        decoder = Decoder(last_id)
        async for chunk in answer.content.iter_any():
            for event in decoder.feed(chunk):
                if (message := message_of(event)) is not None:
                    yield event.id, message


@asynccontextmanager
async def _answer(
    address: Address, path: str, headers: Mapping[str, str], limits: aiohttp.ClientTimeout
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A response with status 200. Errors of the connection while the block reads are raised as Unreachable."""
    try:
        async with _opened(address, path, headers, limits) as answer:
            if answer.status != HTTPStatus.OK:
                raise refusal(address, answer.status, await _read(answer, ERROR_LIMIT_BYTES))
            yield answer
    except (aiohttp.ClientError, OSError) as error:
        why = safe(str(error)) or type(error).__name__
        raise Unreachable(
            f"the console does not answer at {address.url} ({why}); `dovetail status` shows what runs"
        ) from error


@asynccontextmanager
async def _opened(
    address: Address, path: str, headers: Mapping[str, str], limits: aiohttp.ClientTimeout
) -> AsyncIterator[aiohttp.ClientResponse]:
    if is_in_cluster(address.url):
        opened = opened_in_cluster(address.url + path, headers, limits, address.token)
        async with opened as answer:
            yield answer
        return
    token = {"Authorization": f"Bearer {address.token}"} if address.token else {}
    async with (
        aiohttp.ClientSession(timeout=limits, headers={**headers, **token}) as session,
        session.get(address.url + path, allow_redirects=False) as answer,
    ):
        yield answer


async def _read(answer: aiohttp.ClientResponse, limit: int) -> bytes:
    """The body. Raises Unreachable when it is larger than ``limit`` bytes."""
    body = bytearray()
    async for chunk in answer.content.iter_any():
        body += chunk
        if len(body) > limit:
            raise Unreachable(f"{answer.url} answers more than {limit} bytes")
    return bytes(body)


def refusal(address: Address, status: int, body: bytes) -> DovetailError:
    """The error for an answer with another status than 200. 5xx and 429 are worth another attempt."""
    problem = _problem(body) or f"{address.url} answered {status}"
    variable = CLUSTER_TOKEN if is_in_cluster(address.url) else TOKEN
    if status == HTTPStatus.UNAUTHORIZED:
        step = "another token" if address.token else "a token that the console accepts"
        return Unauthorized(f"{problem}; set {variable} to {step}")
    if status == HTTPStatus.FORBIDDEN:
        return Unauthorized(f"{problem}; set {variable} to a token with the right to read")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        return Unavailable(f"{problem}; see the console's log")
    return _no_console(address, f"answered {status}")


def _problem(body: bytes) -> str:
    """The console's own words, empty if there are none."""
    try:
        return safe(str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _no_console(address: Address, what: str) -> ConfigurationError:
    return ConfigurationError(
        f"{address.url} is not a console of Dovetail: it {safe(what)}; set {VARIABLE} to the console's address"
    )
