"""Hashes of the fields whose change makes machines drift (NP-19, EC-22).

Lists count as sets and empty values as absent, so that a reordered or empty list is not a change. Sizes of volumes and
grace periods count by their amount, as in Karpenter: 1Ti is 1024Gi, and 60s is 1m. The annotations with
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
from shared.domain.durations import go_duration_seconds
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

GRACE_PERIODS = "evictionSoftGracePeriod"
DEVICES = "blockDeviceMappings"
POOL_HASH_VERSION = "v3"
CLASS_HASH_VERSION = "v6"
METHOD = "dovetail-3"


def pool_hash(template: Mapping[str, Any]) -> str:
    """The hash of ``spec.template`` without requirements, with at most 20 digits, like Karpenter's."""
    return _digest({**template, **_kubelet_amounts(template)})


def class_hash(spec: Mapping[str, Any], *, excluded: Collection[str] = ()) -> str:
    """The hash of a node class's spec without the fields in ``excluded``."""
    amounts = {**spec, **_kubelet_amounts(spec), **_volume_amounts(spec)}
    return _digest({name: value for name, value in amounts.items() if name not in excluded})


def _kubelet_amounts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The kubelet's settings with grace periods in seconds."""
    found = {}
    for name in ("kubelet", "kubeletConfiguration"):
        kubelet = spec.get(name)
        periods = kubelet.get(GRACE_PERIODS) if isinstance(kubelet, Mapping) else None
        if isinstance(kubelet, Mapping) and isinstance(periods, Mapping):
            seconds = {signal: _seconds(period) for signal, period in periods.items()}
            found[name] = {**kubelet, GRACE_PERIODS: seconds}
    return found


def _seconds(period: object) -> object:
    seconds = go_duration_seconds(period) if isinstance(period, str) else None
    return period if seconds is None else seconds


def _volume_amounts(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The block devices with sizes in bytes."""
    devices = spec.get(DEVICES)
    return {DEVICES: [_device(one) for one in devices]} if isinstance(devices, list | tuple) else {}


def _device(device: Any) -> Any:
    ebs = device.get("ebs") if isinstance(device, Mapping) else None
    if not isinstance(ebs, Mapping) or "volumeSize" not in ebs:
        return device
    try:
        size = parse_quantity(ebs["volumeSize"], field="volumeSize")
    except InvalidObject:
        return device
    return {**device, "ebs": {**ebs, "volumeSize": str(size.normalize())}}


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
