"""Hashes of the fields whose change makes machines drift (NP-19, EC-22).

Lists count as sets and empty values as absent, so that a reordered or empty list is not a change. The annotations with
the hash versions have Karpenter's values, on which dashboards rely. The annotation ``HASHED_BY`` identifies the hash
method: hashes of another controller, or of another version of this module, are rewritten and do not count as drift
(NP-20).
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
    """The hash of ``spec.template`` without requirements, with at most 20 digits, like Karpenter's."""
    return _digest(template)


def class_hash(spec: Mapping[str, Any], *, excluded: Collection[str] = ()) -> str:
    """The hash of a node class's spec without the fields in ``excluded``."""
    return _digest({name: value for name, value in spec.items() if name not in excluded})


def _digest(value: Any) -> str:
    digest = hashlib.sha256(_text(_canonical(value)).encode()).digest()
    return str(int.from_bytes(digest[:8], "big"))


def _text(value: Any) -> str:
    # Not msgspec or orjson, which refuse integers beyond 64 bits and halves of surrogate pairs.
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
    """The hash annotations of a pool and of every machine created from it."""
    if kind == "Provisioner":
        return {keys.PROVISIONER_HASH: digest, keys.HASHED_BY: METHOD}
    return {
        keys.POOL_HASH: digest,
        keys.POOL_HASH_VERSION: POOL_HASH_VERSION,
        keys.HASHED_BY: METHOD,
    }


def class_hash_annotations(kind: str, digest: str) -> dict[str, str]:
    """The hash annotations of a node class and of every machine created from it."""
    if kind == "AWSNodeTemplate":
        return {keys.NODE_TEMPLATE_HASH: digest, keys.HASHED_BY: METHOD}
    return {
        keys.CLASS_HASH: digest,
        keys.CLASS_HASH_VERSION: CLASS_HASH_VERSION,
        keys.HASHED_BY: METHOD,
    }
