"""Requests of commands: what a refused one leaves open."""

from __future__ import annotations

import socket
import urllib.error
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from local.probe import exchange_json, probe, read_text, request_json
from shared.errors import Unreachable

SECONDS = 30.0
BODY = b'{"error": "no such page"}'


def refusing(listener: socket.socket) -> bytes:
    """Answer one request with 404. Returns what its client sends afterwards: nothing, once it has closed."""
    connection, _ = listener.accept()
    with connection:
        connection.settimeout(SECONDS)
        connection.recv(2**16)
        head = b"HTTP/1.1 404 Not Found\r\nContent-Length: %d\r\n\r\n" % len(BODY)
        connection.sendall(head + BODY)
        return connection.recv(1)


@pytest.mark.parametrize(
    "request_of", [partial(exchange_json, timeout=SECONDS), partial(read_text, timeout=SECONDS)]
)
def test_a_refused_request_leaves_no_connection_while_its_error_is_held(
    request_of: Callable[[str], object],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        closed = pool.submit(refusing, listener)
        with pytest.raises(urllib.error.HTTPError) as refused:
            request_of(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        assert closed.result(SECONDS) == b""
        assert (refused.value.code, refused.value.read()) == (404, BODY)


def test_a_refusal_is_told_with_what_was_answered() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor() as pool:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        pool.submit(refusing, listener)
        assert probe(url, SECONDS) == f"{url} answered 404: {BODY.decode()}"
        pool.submit(refusing, listener)
        with pytest.raises(Unreachable, match="404"):
            request_json(url, timeout=SECONDS)
