"""Equal parts of records are kept once: the pods of a deployment differ in little but their names.

A decoded record has its own copy of every dict and string. A hundred thousand pods take 200 MB then, and 60 MB when
what is equal is one object. Records are never changed, so nobody can tell the difference.
"""

from __future__ import annotations

import sys
from typing import Any

from msgspec.json import encode
from msgspec.structs import force_setattr

from shared.domain.workloads.kept import Known
from shared.domain.workloads.pods import Pod

MOST = 20_000
"""So many different values of a field are known; then it begins anew. Pods that have one of the former keep it."""

_NAMES = ("namespace", "node_name", "phase")
_PARTS = (
    "labels",
    "requests",
    "node_selector",
    "owner",
    "required_terms",
    "preferred_terms",
    "tolerations",
    "spread",
    "affinity",
    "anti_affinity",
    "next_requests",
)

_values = {field: Known[bytes, Any]() for field in _PARTS}
"""Of each field: value, encoded -> the value that all have."""


def shared(pod: Pod) -> Pod:
    """The pod itself, with the parts that other pods have too. Only for a record that nobody else has yet."""
    for name in _NAMES:
        force_setattr(pod, name, sys.intern(getattr(pod, name)))
    for field in _PARTS:
        value = getattr(pod, field)
        if value != ():
            force_setattr(pod, field, _once(_values[field], value))
    return pod


def _once(values: dict[bytes, Any], value: object) -> Any:
    if len(values) >= MOST:
        values.clear()
    return values.setdefault(encode(value), value)
