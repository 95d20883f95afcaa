"""How the API server listens."""

from __future__ import annotations

import socket

import pytest

from local.cluster.api.listening import listen


def test_what_it_accepts_sends_small_answers_at_once() -> None:
    """Otherwise each answer waits for the client's delayed acknowledgement."""
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()[:2]):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_taken_port_is_an_error() -> None:
    with listen("127.0.0.1", 0) as listener, pytest.raises(OSError, match="in use"):
        listen("127.0.0.1", listener.getsockname()[1])
