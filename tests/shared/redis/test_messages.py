"""Messages between services: what is not understood is refused, a repeat has the same id (F8, F30)."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.redis.bus import BadMessage, Envelope
from shared.redis.messages import (
    TYPES,
    InterruptionReceived,
    LaunchMachine,
    NodeJoined,
    PodUnschedulable,
    TerminateMachine,
    decode,
    encode,
)
from tests.support.clock.fake import FakeClock


def launch(machine: str = "default-a", cause: str = "plan-1", at: float = 1.0) -> Envelope:
    return encode(LaunchMachine(machine=machine), cause=cause, clock=FakeClock(wall=at))


def test_a_message_reads_back_the_same() -> None:
    received = InterruptionReceived(kind="spot", instances=("i-1",), deadline=2.5, event="e")
    envelope = encode(received, cause="sqs", clock=FakeClock(wall=5.0))
    assert decode(envelope) == received
    assert (envelope.type, envelope.version, envelope.key) == ("InterruptionReceived", 1, "e")
    assert (envelope.cause, envelope.at) == ("sqs", 5.0)


def test_the_id_follows_from_type_content_and_cause_and_not_from_time() -> None:
    """F8: a repeat after a crash is dropped by its id."""
    assert launch(at=1.0).id == launch(at=99.0).id
    different = {
        launch().id,
        launch(machine="default-b").id,
        launch(cause="plan-2").id,
        encode(TerminateMachine(name="default-a"), cause="plan-1", clock=FakeClock()).id,
    }
    assert len(different) == 4


@pytest.mark.parametrize("change", [{"type": "Unheard"}, {"version": 2}, {"type": "Message"}])
def test_an_unknown_type_or_version_is_refused(change: dict[str, object]) -> None:
    """F30: the dead letters keep it."""
    with pytest.raises(BadMessage, match="unknown message"):
        decode(dataclasses.replace(launch(), **change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"machine": ""}', b'{"machine": 5}', b'{"machine": null}',
     b'{"machine": "' + b"x" * 254 + b'"}', b"\xff\xfe"],
)  # fmt: skip
def test_a_body_that_does_not_validate_is_refused(body: bytes) -> None:
    with pytest.raises(BadMessage, match="LaunchMachine"):
        decode(dataclasses.replace(launch(), body=body))


def test_fields_of_a_newer_minor_version_are_ignored() -> None:
    """F30: two versions at once."""
    body = b'{"machine": "default-a", "colour": "red"}'
    assert decode(dataclasses.replace(launch(), body=body)) == LaunchMachine(machine="default-a")


def test_messages_about_one_object_share_a_key() -> None:
    """They are handled one after the other."""
    assert launch().key == "default-a"
    assert NodeJoined(node="n", resource_version="5").key == "n"
    assert TerminateMachine(kind="Node", name="x").key != TerminateMachine(name="x").key
    assert PodUnschedulable(uid="u", pod="ns/p", generation=1).key == "u"


@given(st.sampled_from(sorted(TYPES)), st.binary(max_size=200))
def test_no_bytes_raise_anything_else(kind: str, body: bytes) -> None:
    """F30: a poisoned entry goes to the dead letters and never stops a consumer."""
    envelope = dataclasses.replace(launch(), type=kind, body=body)
    with pytest.raises(BadMessage):
        decode(envelope)
