"""Readiness probes of the local stack's parts: an HTTP GET, a Redis PING or the existence of a file.

Requests never use a proxy. Another program's server may hold a part's port and answer in its place, so failure messages
always show the answer.
"""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from io import BytesIO
from pathlib import Path
from typing import Any

from shared.errors import Unreachable

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_BODY_LIMIT = 16 * 1024 * 1024
_REFUSAL_LIMIT = 64 * 1024


def probe(target: str, timeout: float = 2.0) -> str | None:
    """None when ``target`` is ready, else why it is not.

    ``target`` is an ``http://`` or ``redis://`` URL, or the absolute path of a file.
    """
    if target.startswith("/"):
        return None if Path(target).is_file() else f"{target} is not written"
    if target.startswith("redis://"):
        return _probe_redis(target, timeout)
    return _probe_http(target, timeout)


def _probe_redis(target: str, timeout: float) -> str | None:
    host, _, port = target.removeprefix("redis://").partition("/")[0].rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout) as connection:
            connection.sendall(b"PING\r\n")
            answer = connection.recv(64)
    except OSError as error:
        return f"{target}: {error}"
    return None if answer.startswith(b"+PONG") else f"{target} answered {answer[:60]!r}"


def _probe_http(target: str, timeout: float) -> str | None:
    try:
        with _opened(target, timeout):
            return None
    except urllib.error.HTTPError as error:
        body = error.read(400).decode(errors="replace").strip()
        return f"{target} answered {error.code}: {body}"
    except (OSError, ValueError) as error:
        return f"{target}: {getattr(error, 'reason', error)}"


def request_json(
    url: str, *, body: object = None, method: str | None = None, timeout: float = 10.0
) -> Any:
    """The JSON answer of ``url``; POSTs ``body`` as JSON when one is given.

    Raises Unreachable for no answer, an error status or an answer that is not JSON.
    """
    try:
        return exchange_json(url, body, method=method, timeout=timeout)
    except (OSError, ValueError) as error:
        raise Unreachable(f"{url}: {error}", url=url) from error


def read_text(url: str, *, timeout: float, limit: int = _BODY_LIMIT, token: str = "") -> str:
    """The answer of GET as text. Raises urllib's own errors: HTTPError, OSError. ``token``: sent as a bearer token."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with _opened(urllib.request.Request(url, headers=headers), timeout) as answer:
        body: bytes = answer.read(limit)
    return body.decode(errors="replace")


def exchange_json(
    url: str,
    body: object = None,
    *,
    method: str | None = None,
    timeout: float = 10.0,
    limit: int = _BODY_LIMIT,
    token: str = "",
) -> Any:
    """``request_json`` with urllib's own errors, for callers that report them in detail: HTTPError, OSError,
    ValueError.

    ``limit``: most bytes read of the answer. ``token``: sent as a bearer token.
    """
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    with _opened(request, timeout) as answer:
        return json.loads(answer.read(limit) or b"null")


def _opened(request: urllib.request.Request | str, timeout: float) -> Any:
    """The answer, to be closed by the caller. The HTTPError of a refusal holds what it said, and no connection."""
    try:
        return _DIRECT.open(request, timeout=timeout)
    except urllib.error.HTTPError as refused:
        with refused:
            said = BytesIO(refused.read(_REFUSAL_LIMIT))
        raise urllib.error.HTTPError(
            refused.url, refused.code, refused.msg, refused.headers, said
        ) from None
