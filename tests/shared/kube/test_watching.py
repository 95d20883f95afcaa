"""The watch wire format."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import DovetailError, Gone, Unavailable
from shared.kube.resources import PODS
from shared.kube.transport.statuses import Call
from shared.kube.watching import LineSplitter, parse_event
from tests.support.cluster.scripted_api import event, failure

WATCH = Call("watch", PODS)
LINES = st.lists(st.binary(min_size=1, max_size=20).filter(lambda line: b"\n" not in line))


@given(LINES, st.lists(st.integers(1, 9)))
def test_chunk_borders_do_not_change_the_lines(lines: list[bytes], sizes: list[int]) -> None:
    data = b"".join(line + b"\n" for line in lines)
    splitter, found = LineSplitter(), list[bytes]()
    for size in sizes:
        found += splitter.feed(data[:size])
        data = data[size:]
    found += splitter.feed(data)
    assert found == lines
    assert splitter.pending == 0


def test_a_half_line_stays_pending() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"one\ntw") == [b"one"]
    assert splitter.pending == 2


def test_an_endless_line_is_refused() -> None:
    splitter = LineSplitter(limit=10)
    splitter.feed(b"123456")
    with pytest.raises(Unavailable, match="longer than 10 bytes"):
        splitter.feed(b"123456")


@given(st.binary(max_size=60))
def test_garbage_raises_our_errors_only(line: bytes) -> None:
    with pytest.raises(DovetailError):
        parse_event(WATCH, line)


@pytest.mark.parametrize("status", [failure(410, "Expired"), {"reason": "Expired"}])
def test_an_expired_position_raises_gone(status: dict[str, object]) -> None:
    """F15: 410 in the stream."""
    with pytest.raises(Gone):
        parse_event(WATCH, event("ERROR", status))


def test_another_error_event_raises_what_it_stands_for() -> None:
    with pytest.raises(Unavailable, match="etcd"):
        parse_event(WATCH, event("ERROR", failure(500, "InternalError", "etcd is gone")))
