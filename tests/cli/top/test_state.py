"""The picture after any messages, and the events of any chunks."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.top.events import Decoder, Event, message_of, snapshot_of
from cli.top.records import Message
from cli.top.state import Lost, Picture, Received, picture_after, received
from tests.cli.top.small_console import AT, Document, change, event, node, pod, snapshot

NAMES = st.sampled_from("abcd")
STATES = st.sampled_from(["launching", "ready", "draining"])
Cluster = tuple[dict[str, Document], dict[str, Document]]


def message(name: str, body: Document) -> Message:
    found = message_of(Event(name, json.dumps(body).encode(), ""))
    assert found is not None
    return found


@st.composite
def steps(draw: st.DrawFn) -> Document:
    """One message of the stream: objects put, and others gone."""
    nodes = {name: node(name, state=draw(STATES)) for name in draw(st.sets(NAMES))}
    pods = {name: pod(name, cpu=draw(st.integers(0, 900))) for name in draw(st.sets(NAMES))}
    gone_nodes = [node(name)["id"] for name in draw(st.sets(NAMES)) - nodes.keys()]
    gone_pods = [pod(name)["id"] for name in draw(st.sets(NAMES)) - pods.keys()]
    return change(
        at=AT + draw(st.integers(0, 99)),
        put={"nodes": [*nodes.values()], "pods": [*pods.values()]},
        gone={"nodes": gone_nodes, "pods": gone_pods},
    )


def merged(objects: dict[str, Document], step: Document, kind: str) -> dict[str, Document]:
    kept = {name: one for name, one in objects.items() if name not in step["gone"][kind]}
    return kept | {one["id"]: one for one in step["put"][kind]}


def whole(cluster: Cluster, at: float) -> Document:
    return snapshot([*cluster[0].values()], [*cluster[1].values()], at=at)


def after(bodies: Iterable[tuple[str, Document]], before: Picture | None = None) -> Picture | None:
    for name, body in bodies:
        before = picture_after(before, message(name, body))
    return before


@given(st.lists(steps(), max_size=8), st.integers(0, 8))
def test_any_changes_equal_the_snapshot_at_their_end(
    changes: list[Document], replaced: int
) -> None:
    """Also when a snapshot comes between two of them, as after a reconnection."""
    cluster: Cluster = ({}, {})
    sent: list[tuple[str, Document]] = [("snapshot", whole(cluster, AT))]
    for at, step in enumerate(changes):
        cluster = (merged(cluster[0], step, "nodes"), merged(cluster[1], step, "pods"))
        sent.append(
            ("snapshot", whole(cluster, step["at"])) if at == replaced else ("change", step)
        )
    expected = after([("snapshot", whole(cluster, changes[-1]["at"] if changes else AT))])
    assert after(sent) == expected


def test_a_snapshot_replaces_what_was_known() -> None:
    found = after([("snapshot", snapshot([node("a")], [pod()])), ("snapshot", snapshot([], []))])
    assert found is not None
    assert (found.nodes, found.pods) == ({}, {})


def test_an_object_that_is_gone_and_put_in_one_message_exists() -> None:
    step = change(put={"nodes": [], "pods": [pod(cpu=7)]}, gone={"nodes": [], "pods": ["uid-web"]})
    found = after([("snapshot", snapshot([], [pod()])), ("change", step)])
    assert found is not None
    assert found.pods["uid-web"].cpu == 7


def test_without_a_snapshot_a_change_means_nothing() -> None:
    assert after([("change", change()), ("beat", {"at": AT, "trusted": {"ok": True}})]) is None


def test_a_beat_has_the_time_and_the_trust() -> None:
    known = after([("snapshot", snapshot([node()], []))])
    found = after([("beat", {"at": AT + 5, "trusted": {"ok": False, "reason": "late"}})], known)
    assert found is not None
    assert (found.at, found.trusted.reason, len(found.nodes)) == (AT + 5, "late", 1)


def test_a_lost_connection_keeps_the_picture_until_the_next_message() -> None:
    first = received(Received(), message("snapshot", snapshot([node()], [])), now=1.0)
    lost = received(first, Lost("gone", 2.0), now=3.0)
    assert (lost.picture, lost.problem, lost.retry, lost.heard) == (first.picture, "gone", 5.0, 1.0)
    again = received(lost, message("beat", {"at": AT, "trusted": {"ok": True}}), now=9.0)
    assert (again.problem, again.heard) == ("", 9.0)


def test_a_newer_console_is_understood() -> None:
    """Fields, states and events that this version does not know."""
    body = snapshot([node(state="resting", colour="red")], [], weather="rain")
    assert snapshot_of(json.dumps(body).encode()).nodes[0].state == "resting"
    assert message_of(Event("fireworks", b"{}", "")) is None


@pytest.mark.parametrize("body", [{}, [], {"at": "now"}, snapshot([{"id": 7}], []), None])
def test_what_is_no_snapshot_is_refused(body: Any) -> None:
    with pytest.raises(ValueError, match=r"Object|Expected"):
        snapshot_of(json.dumps(body).encode())


STREAM = (
    b": hello\nretry: 10\n\n"
    + event("snapshot", {"id": "r-1", "text": "ü"})
    + b"event: beat\r\ndata: 1\r\ndata: 2\r\n\r\n"
    + b"id: bad\x00\nid: r-2\ndata:x\n\nevent: unfinished\ndata: no"
)
EVENTS = [
    Event("snapshot", b'{"id": "r-1", "text": "\\u00fc"}', "r-1"),
    Event("beat", b"1\n2", "r-1"),
    Event("", b"x", "r-2"),
]


@given(st.sets(st.integers(0, len(STREAM))))
def test_events_are_the_same_however_the_network_cuts_them(cuts: set[int]) -> None:
    ends = sorted({0, *cuts, len(STREAM)})
    decoder = Decoder()
    chunks = [STREAM[start:end] for start, end in pairwise(ends)]
    assert [one for chunk in chunks for one in decoder.feed(chunk)] == EVENTS


def test_an_endless_event_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.top.events.LONGEST_EVENT_BYTES", 100)
    decoder = Decoder()
    line = b"data: " + b"x" * 40 + b"\n"
    assert [*decoder.feed(line * 2)] == []
    with pytest.raises(ValueError, match="more than 100 bytes"):
        [*decoder.feed(line)]
