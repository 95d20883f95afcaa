"""Bodies of requests to the local API server: what cannot be meant is refused, and never ends the process."""

from __future__ import annotations

import pytest

from local.cluster.api.errors import ApiError
from local.cluster.api.requests import APPLY, JSON, NESTING_LIMIT, Body

MANY = 100_000


def nested(levels: int) -> bytes:
    return b"[" * levels + b"]" * levels


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (nested(MANY), "nested more than"),
        (b'{"a":' * MANY + b"1" + b"}" * MANY, "nested more than"),
        (b"a: &a [x, x]\nb: *a", "aliases"),
        (b"a: &a {b: *a}", "aliases"),
        (b"a: [", "cannot be decoded"),
        (b"\xff\xfe\x00", "cannot be decoded"),
    ],
)
def test_yaml_that_no_client_writes_is_refused_with_the_reason(content: bytes, reason: str) -> None:
    """The first overflowed libyaml's stack, which ended the API server."""
    with pytest.raises(ApiError, match=reason) as refused:
        Body.of(APPLY, content).value()
    assert refused.value.code == 400


def test_json_that_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ApiError, match="cannot be decoded"):
        Body.of(JSON, nested(MANY)).value()


def test_what_is_nested_as_deep_as_allowed_is_read() -> None:
    value = Body.of(APPLY, nested(NESTING_LIMIT)).value()
    depth = 0
    while value:
        (value,), depth = value, depth + 1
    assert depth == NESTING_LIMIT - 1
