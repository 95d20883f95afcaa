"""Creation of pods from templates, and the state of pods."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from local.cluster.control_plane.conditions import find_condition, is_true
from local.cluster.control_plane.informers import Obj
from shared.concurrency.clock import parse_rfc3339

SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The alphabet of generated names (apimachinery's SafeEncodeString: no vowels, no bad words)."""
HASH_LABEL = "pod-template-hash"
HASHES_KEPT = 256
"""Of templates, those asked for last."""


def suffix(rng: random.Random, length: int = 5) -> str:
    """A random name suffix."""
    return "".join(rng.choices(SAFE_ALPHABET, k=length))


def template_hash(template: Mapping[str, Any]) -> str:
    """Ten letters that change with the template; a template restored by a rollback has its earlier hash again."""
    return _hash_of(orjson.dumps(template))


@lru_cache(maxsize=HASHES_KEPT)
def _hash_of(template: bytes) -> str:
    """Kept: a daemon set asks three times at each change of one of its pods, and its template hardly ever changes."""
    content = orjson.dumps(_significant(orjson.loads(template)), option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(content).digest()
    return "".join(SAFE_ALPHABET[byte % len(SAFE_ALPHABET)] for byte in digest[:10])


def _significant(value: Any) -> Any:
    """``value`` without nulls and empty parts, which clients may add or drop."""
    if isinstance(value, dict):
        parts = {key: _significant(part) for key, part in value.items() if key != HASH_LABEL}
        return {key: part for key, part in parts.items() if part not in (None, {}, [])}
    if isinstance(value, list):
        return [_significant(part) for part in value]
    return value


def owner_reference(owner: Obj) -> dict[str, Any]:
    """A controlling ownerReference to a stored object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod_from_template(owner: Obj, name: str) -> Obj:
    """A Pod as the controller of a stored workload creates it from ``spec.template``."""
    template = owner["spec"]["template"]
    metadata = template.get("metadata") or {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": owner["metadata"]["namespace"],
            "generateName": name[:-5],
            "labels": dict(metadata.get("labels") or {}),
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": dict(template.get("spec") or {}),
    }


def phase(pod: Obj) -> str:
    """Pending, Running, Succeeded or Failed."""
    return str((pod.get("status") or {}).get("phase") or "Pending")


def is_active(pod: Obj) -> bool:
    """Whether the pod is neither finished nor being deleted."""
    return phase(pod) not in ("Succeeded", "Failed") and not pod["metadata"].get(
        "deletionTimestamp"
    )


def is_ready(pod: Obj) -> bool:
    """Whether the condition Ready is True."""
    return is_true(pod, "Ready")


def ready_for(pod: Obj, now: float) -> float:
    """Seconds since the pod became ready; -1 when it is not."""
    condition = find_condition(pod, "Ready")
    if condition is None or condition.get("status") != "True":
        return -1.0
    return max(now - parse_rfc3339(condition["lastTransitionTime"]), 0.0)
