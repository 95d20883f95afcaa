"""Requests to the scheduler: each refusal becomes one line that names the next step."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from cli.operations import scheduler_status
from cli.operations.scheduler_status import ask, compute
from cli.stack.requests import TOKEN
from shared.errors import ConfigurationError, DovetailError, NotFound, Unavailable, Unreachable

Serve = Callable[[int, bytes], str]


@pytest.fixture
def received() -> list[tuple[str, str | None]]:
    """(method, Authorization) of each request."""
    return []


@pytest.fixture
def serve(received: list[tuple[str, str | None]]) -> Iterator[Serve]:
    """A server that answers every request alike; returns its address."""
    servers: list[HTTPServer] = []

    def start(status: int, body: bytes) -> str:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                received.append((self.command, self.headers.get("Authorization")))
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer

            def log_message(self, format: str, *args: object) -> None:
                """Nothing on stderr."""

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def refused(text: str) -> bytes:
    return json.dumps({"error": text}).encode()


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (404, refused("no node n1"), NotFound, "no node n1; `kubectl get nodes` lists them"),
        (401, refused("no token"), ConfigurationError, f"no token; set {TOKEN} to"),
        (400, refused("effort is wrong"), ConfigurationError, "effort is wrong"),
        (503, refused("not ready"), Unavailable, "not ready; see the scheduler's log"),
        (307, b"", ConfigurationError, "/explain answered 307"),
        (500, b"<html>", Unavailable, "answered 500; see the scheduler's log"),
    ],
)
def test_a_refusal_says_what_to_do(
    serve: Serve, status: int, body: bytes, error: type[DovetailError], words: str
) -> None:
    with pytest.raises(error) as raised:
        ask(serve(status, body) + "/explain", {"node": "n1"})
    assert words in raised.value.message


def test_only_a_request_with_a_body_carries_the_token(
    serve: Serve, received: list[tuple[str, str | None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "secret")
    url = serve(200, b'{"ok": true}')
    assert ask(url) == ask(url, {}) == {"ok": True}
    assert received == [("GET", None), ("POST", "Bearer secret")]


def test_a_scheduler_that_stands_still_is_noticed_before_a_long_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes connections, as a stopped process does, and answers nothing."""
    monkeypatch.setattr(scheduler_status, "READ_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(Unreachable, match=f"does not answer at {base}/healthz"):
            compute(base, "explain", {"node": "n1"})
