"""How objects of API server and Redis become the values that are judged."""

from __future__ import annotations

import msgspec

from cli.operations.audit.picture import Difference
from cli.operations.audit.reading.cluster import limits_written_at
from cli.operations.audit.reading.redis import Entry, differences
from shared.concurrency.clock import parse_rfc3339

TAG = b"0123456789abcdef"


def entry(version: str, **fields: object) -> Entry:
    return Entry(msgspec.json.encode(fields), version)


def test_entries_that_are_missing_old_or_too_many_differ() -> None:
    """I8: the order of fields, and what a feature gate adds to pods, say nothing."""
    expected = {
        "a": entry("1", name="a", labels={"x": "1", "y": "2"}),
        "b": entry("2", name="b"),
        "c": entry("3", name="c"),
    }
    stored = {
        "a": TAG + b'{"labels":{"y":"2","x":"1"},"name":"a","parts":{"containers":{}}}',
        "b": TAG + b'{"name":"old"}',
        "d": TAG + b'{"name":"d"}',
    }
    assert differences("pods", expected, stored) == [
        Difference("pods b", "stale", f"2 {TAG.hex()}"),
        Difference("pods c", "missing", "3"),
        Difference("pods d", "surplus", TAG.hex()),
    ]
    assert next(one.entry for one in differences("nodes", expected, stored)) == "nodes a"


def test_the_last_write_of_limits_is_that_of_who_owns_them() -> None:
    """The API server keeps one time per writer."""
    fields = [
        {"time": "2026-11-26T10:00:00Z", "fieldsV1": {"f:spec": {"f:limits": {"f:cpu": {}}}}},
        {"time": "2026-11-26T11:00:00Z", "fieldsV1": {"f:spec": {"f:weight": {}}}},
        {"time": "2026-11-26T12:00:00Z", "fieldsV1": {"f:status": {}}},
    ]
    assert limits_written_at(fields) == parse_rfc3339("2026-11-26T10:00:00Z")
    assert limits_written_at([]) == 0.0
