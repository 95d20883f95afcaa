"""Protocol Buffers bodies: what they say in JSON, and that no bytes do harm."""

from __future__ import annotations

import base64
import contextlib
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.cluster.api.protobuf.decoding import MAGIC, TABLE_FILE, UnknownKindError, decoded
from local.cluster.api.protobuf.wire import fields_of, signed


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    parts = []
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def field(number: int, value: Any) -> bytes:
    """A field as Go writes it; ``bool`` and ``int`` are numbers, ``str`` and ``bytes`` have a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(int(value))
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def body(api_version: str, kind: str, *fields: bytes) -> bytes:
    types = field(1, api_version) + field(2, kind)
    return MAGIC + field(1, types) + field(2, b"".join(fields)) + field(3, "") + field(4, "")


def metadata(*fields: bytes) -> bytes:
    return field(1, b"".join(fields))


@given(st.text(), st.dictionaries(st.text(), st.binary()), st.booleans())
def test_texts_maps_bytes_and_booleans_come_out_as_they_went_in(
    name: str, data: dict[str, bytes], immutable: bool
) -> None:
    entries = [field(2, field(1, key) + field(2, value)) for key, value in data.items()]
    secret = decoded(body("v1", "Secret", metadata(field(1, name)), *entries, field(5, immutable)))
    assert secret["metadata"] == ({"name": name} if name else {})
    assert secret.get("data", {}) == {k: base64.b64encode(v).decode() for k, v in data.items()}
    assert secret["immutable"] is immutable


@given(st.integers(-(1 << 31), (1 << 31) - 1))
def test_numbers_keep_their_sign_and_a_pointer_to_zero_its_value(number: int) -> None:
    deployment = decoded(body("apps/v1", "Deployment", field(2, field(1, number))))
    assert deployment["spec"] == {"replicas": number}
    priority = decoded(body("scheduling.k8s.io/v1", "PriorityClass", field(2, number)))
    assert priority["value"] == number


def test_types_with_a_json_form_of_their_own() -> None:
    when = field(1, 1_700_000_000)
    lease = decoded(
        body("coordination.k8s.io/v1", "Lease", field(2, field(3, when + field(2, 12_345_678))))
    )
    assert lease["spec"] == {"acquireTime": "2023-11-14T22:13:20.012345Z"}
    budget = body(
        "policy/v1", "PodDisruptionBudget", field(2, field(1, field(1, 1) + field(3, "5%")))
    )
    assert decoded(budget)["spec"] == {"minAvailable": "5%"}
    budget = body("policy/v1", "PodDisruptionBudget", field(2, field(1, field(1, 0) + field(2, 3))))
    assert decoded(budget)["spec"] == {"minAvailable": 3}
    created = metadata(field(8, when))
    assert decoded(body("v1", "Namespace", created))["metadata"] == {
        "creationTimestamp": "2023-11-14T22:13:20Z"
    }


def test_embedded_structures_are_part_of_what_embeds_them() -> None:
    empty_dir = field(2, field(2, field(1, "Memory")))
    volume = field(1, field(1, "tmp") + empty_dir)
    pod = decoded(body("v1", "Pod", field(2, volume)))
    assert pod["spec"]["volumes"] == [{"name": "tmp", "emptyDir": {"medium": "Memory"}}]


def test_fields_of_a_newer_client_are_left_out() -> None:
    pod = decoded(body("v1", "Pod", metadata(field(1, "a"), field(999, "?")), field(998, 1)))
    assert pod == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_options_of_a_deletion_are_known_in_every_group() -> None:
    options = decoded(body("policy/v1", "DeleteOptions", field(1, 0), field(4, "Foreground")))
    assert options["gracePeriodSeconds"] == 0
    assert options["propagationPolicy"] == "Foreground"


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(UnknownKindError, match="Pool in example/v1"):
        decoded(body("example/v1", "Pool"))


@pytest.mark.parametrize(
    "content", [b"", b"{}", MAGIC[:3], MAGIC + b"\xff", body("v1", "Pod", field(1, 7))]
)
def test_other_bytes_are_a_value_error(content: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each has words of its own
        decoded(content)


@given(st.binary(), st.sampled_from(["Pod", "Lease", "Node", "Event"]))
def test_no_bytes_raise_anything_but_a_value_error(content: bytes, kind: str) -> None:
    group = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
    with contextlib.suppress(ValueError):
        decoded(body(group, kind, content))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1)))
def test_the_wire_format_is_read_back(numbers: list[int]) -> None:
    content = b"".join(field(place + 1, number) for place, number in enumerate(numbers))
    assert [signed(int(value)) for _, _, value in fields_of(content)] == numbers


def test_no_message_contains_itself() -> None:
    """So no bytes can nest deeper than the kinds do."""
    messages = json.loads(TABLE_FILE.read_text())["messages"]
    parts = {
        name: {found[1] for found in fields.values() if found[1] in messages}
        for name, fields in messages.items()
    }
    while finished := {name for name, inner in parts.items() if not inner & parts.keys()}:
        parts = {name: inner for name, inner in parts.items() if name not in finished}
    assert parts == {}


@pytest.mark.parametrize("seconds", [1 << 62, -(1 << 62)])
def test_a_time_that_no_calendar_has_is_a_value_error(seconds: int) -> None:
    with pytest.raises(ValueError, match="year"):
        decoded(body("v1", "Namespace", metadata(field(8, field(1, seconds)))))
