"""HTTP in the proxy: what it takes for a whole request, and what it answers itself."""

from __future__ import annotations

import pytest

from shared.errors import Gone
from shared.kube.resources import PODS
from shared.kube.transport.statuses import Call
from shared.kube.watching import LineSplitter, parse_event
from simulation.chaos.ways.answers import EXPIRED, HALF_LINE, is_watch, method_of_whole


@pytest.mark.parametrize(
    ("data", "method"),
    [
        (b"GET /api HTTP/1.1\r\nHost: a\r\n\r\n", "GET"),
        (b"PATCH /api HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}", "PATCH"),
        (b"POST /api HTTP/1.1\r\ncontent-length:2\r\n\r\n{}", "POST"),
        (b"POST /api HTTP/1.1\r\nContent-Length: 3\r\n\r\n{}", ""),
        (b"POST /api HTTP/1.1\r\nContent-Le", ""),
        (b'{"kind":"Pod"}', ""),
        (b"*1\r\n$4\r\nPING\r\n", ""),
    ],
)
def test_a_whole_request_has_a_method(data: bytes, method: str) -> None:
    assert method_of_whole(data) == method


def test_only_the_request_for_a_watch_is_one() -> None:
    assert is_watch(b"GET /api/v1/pods?watch=true&timeoutSeconds=3 HTTP/1.1\r\n\r\n")
    assert not is_watch(b"GET /api/v1/pods HTTP/1.1\r\nX: watch=true\r\n\r\n")


def test_the_services_understand_that_their_position_has_expired() -> None:
    call = Call("watch", PODS)
    (line,) = LineSplitter().feed(EXPIRED)
    with pytest.raises(Gone):
        parse_event(call, line)
    assert LineSplitter().feed(HALF_LINE) == []
