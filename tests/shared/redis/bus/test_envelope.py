"""The envelope's codec: what goes out comes in, and what is malformed is a BadMessage (design
section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import InvalidObject
from shared.redis.bus import BadMessage, Envelope

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
MESSAGE = Envelope(id="1", type="a", key="k", body=b"{}", at=1.0)
_text = st.text(min_size=1, max_size=60)
_envelopes = st.builds(
    Envelope,
    id=_text,
    type=_text,
    key=_text,
    body=st.binary(max_size=2000),
    at=st.floats(allow_nan=False, allow_infinity=False),
    version=st.integers(1, 9),
    cause=st.text(max_size=60),
    attempt=st.integers(0, 500),
    trace=st.sampled_from(["", TRACE]),
)


def _encodable(envelope: Envelope) -> bool:
    try:
        "".join((envelope.id, envelope.type, envelope.key, envelope.cause)).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(_envelopes.filter(_encodable))
def test_decode_is_the_inverse_of_encode(envelope: Envelope) -> None:
    """Whatever our side sends, the other side reads the same."""
    fields = {name.encode(): value for name, value in envelope.encode().items()}
    assert Envelope.decode(fields) == envelope


@given(st.dictionaries(st.binary(max_size=10), st.binary(max_size=50), max_size=8))
def test_foreign_fields_are_a_bad_message(fields: Any) -> None:
    """F4: never another error, whatever the bytes."""
    with pytest.raises(BadMessage):
        Envelope.decode(fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("at", b"nan"),
        ("at", b"inf"),
        ("at", b"soon"),
        ("version", b"0"),
        ("version", b"1.5"),
        ("attempt", b"-1"),
        ("id", b""),
        ("key", b"k" * 513),
        ("type", b"\xff\xfe"),
        ("body", b"x" * 65_537),
    ],
)
def test_each_broken_field_is_a_bad_message(
    message: Callable[..., Envelope], name: str, value: Any
) -> None:
    """Every limit also holds on the way in."""
    fields = {key.encode(): text for key, text in message("n1").encode().items()}
    fields[name.encode()] = value
    with pytest.raises(BadMessage):
        Envelope.decode(fields)


def test_the_trace_of_an_older_build_is_ignored(message: Callable[..., Envelope]) -> None:
    """F30: builds before this one wrote a field ``trace``, which was always empty."""
    fields = {key.encode(): text for key, text in message("n1").encode().items()}
    assert Envelope.decode({**fields, b"trace": b""}) == message("n1")


def test_fields_of_a_newer_minor_version_are_ignored(message: Callable[..., Envelope]) -> None:
    """F30: additive fields within a major version."""
    fields = {key.encode(): text for key, text in message("n1").encode().items()}
    assert Envelope.decode({**fields, b"colour": b"blue"}) == message("n1")


def test_an_empty_key_is_our_own_mistake(message: Callable[..., Envelope]) -> None:
    """The sender hears at once which field is wrong."""
    with pytest.raises(InvalidObject, match="key: must not be empty"):
        message("", id="m").encode()


@pytest.mark.parametrize(
    "trace",
    [
        "",
        "soon",
        "00-" + 32 * "0" + "-b7ad6b7169203331-01",
        "01" + TRACE[2:],
        TRACE + "-more",
        "x" * 9000,
    ],
)
def test_a_trace_that_is_none_never_makes_a_message_fail(trace: str) -> None:
    """It says where a message belongs in a picture, and nothing that its handling needs."""
    fields = {name.encode(): value for name, value in MESSAGE.encode().items()}
    assert Envelope.decode({**fields, b"trace": trace.encode()}) == MESSAGE
    assert Envelope.decode({**fields, b"trace": b"\xff\xfe"}) == MESSAGE


def test_without_tracing_an_entry_has_no_field_for_it_and_a_retry_keeps_its_trace() -> None:
    assert "trace" not in MESSAGE.encode()
    assert replace(MESSAGE, trace=TRACE).for_retry("g").trace == TRACE
