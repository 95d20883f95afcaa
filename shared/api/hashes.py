"""Hashes of what makes a machine outdated when it changes (NP-19, EC-22).

Lists count as sets and empty values as absent, so that a reordered list or an empty one is no change. The version
strings are Karpenter's, which dashboards know; the numbers are ours. ``HASHED_BY`` beside them tells them apart: hashes
of another controller, or of another version of this module, are rewritten and never taken for drift (NP-20).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from shared.domain import labels as keys

POOL_HASH_VERSION = "v3"
CLASS_HASH_VERSION = "v6"
METHOD = "dovetail-2"


def pool_hash(template: Mapping[str, Any]) -> str:
    """Of ``spec.template`` without requirements, as written. 20 digits at most, like Karpenter's."""
    return _digest(template)


def class_hash(spec: Mapping[str, Any], *, excluded: Collection[str] = ()) -> str:
    """Of a node class's spec without the fields in ``excluded``."""
    return _digest({name: value for name, value in spec.items() if name not in excluded})


def _digest(value: Any) -> str:
    digest = hashlib.sha256(_text(_canonical(value)).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def _text(value: Any) -> str:
    # Not orjson: users write integers beyond 64 bits and halves of surrogate pairs.
    return json.dumps(value, sort_keys=True)


def _canonical(value: Any) -> Any:
    if isinstance(value, Mapping):
        parts = {str(name): _canonical(part) for name, part in value.items()}
        return {name: part for name, part in parts.items() if not _is_empty(part)}
    if isinstance(value, list | tuple):
        return sorted({_text(_canonical(entry)) for entry in value})
    return value


def _is_empty(value: Any) -> bool:
    return value is None or value == "" or value == [] or value == {}


def pool_hash_annotations(kind: str, digest: str) -> dict[str, str]:
    """What a pool, and every machine made from it, carries."""
    if kind == "Provisioner":
        return {keys.PROVISIONER_HASH: digest, keys.HASHED_BY: METHOD}
    return {
        keys.POOL_HASH: digest,
        keys.POOL_HASH_VERSION: POOL_HASH_VERSION,
        keys.HASHED_BY: METHOD,
    }


def class_hash_annotations(kind: str, digest: str) -> dict[str, str]:
    """What a node class, and every machine made from it, carries."""
    if kind == "AWSNodeTemplate":
        return {keys.NODE_TEMPLATE_HASH: digest, keys.HASHED_BY: METHOD}
    return {
        keys.CLASS_HASH: digest,
        keys.CLASS_HASH_VERSION: CLASS_HASH_VERSION,
        keys.HASHED_BY: METHOD,
    }
