"""Messages that a queue consumer must survive: invalid JSON, wrong shapes, unknown kinds (INT-04, INT-05)."""

from __future__ import annotations

import json

_HEAD = {"version": "0", "id": "00000000-0000-4000-8000-000000000000", "region": "us-west-2"}
_SPOT = {
    **_HEAD,
    "source": "aws.ec2",
    "detail-type": "EC2 Spot Instance Interruption Warning",
    "account": "123456789012",
    "time": "2026-01-01T00:00:00Z",
    "resources": [],
}
_KNOWN = "i-0123456789abcdef0"

MALFORMED = {
    "not-json": "this is no JSON {",
    "empty-object": "{}",
    "array": "[1, 2, 3]",
    "null": "null",
    "number": "42",
    "no-detail": json.dumps(_SPOT),
    "detail-is-text": json.dumps({**_SPOT, "detail": "i-1"}),
    "instance-id-is-number": json.dumps({**_SPOT, "detail": {"instance-id": 42}}),
    "unknown-kind": json.dumps({**_SPOT, "detail-type": "EC2 Weather Report", "detail": {}}),
    "unknown-version": json.dumps({**_SPOT, "version": "9", "detail": {"instance-id": _KNOWN}}),
    "bad-time": json.dumps({**_SPOT, "time": "yesterday", "detail": {"instance-id": _KNOWN}}),
    "entities-are-text": json.dumps(
        {
            **_SPOT,
            "source": "aws.health",
            "detail-type": "AWS Health Event",
            "detail": {
                "service": "EC2",
                "eventTypeCategory": "scheduledChange",
                "affectedEntities": "all",
            },
        }
    ),
    "deep": "[" * 5_000 + "]" * 5_000,
    "large": json.dumps({**_SPOT, "detail": {"instance-id": _KNOWN, "padding": "x" * 200_000}}),
    "surrogate": '{"version": "0", "source": "\\ud800", "detail-type": "\\udfff"}',
}
"""Name -> message body."""
