"""ConfigMap ``karpenter-global-settings`` -> GlobalSettings: the settings of Karpenter up to v0.31 (OPS-04).

All values are strings. All faults are reported at once; a ConfigMap with a fault must not be used at all. Unknown keys
are not faults, because charts of other versions write them; they are in ``notes``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shared.api.faults import Fault, Parsed, Path
from shared.domain.durations import go_duration_seconds
from shared.domain.pools.nodepools import CONSOLIDATORS
from shared.domain.tags import parse_tags

NAME = "karpenter-global-settings"
LONGEST_BATCH_SECONDS = 30 * 24 * 3600.0
ROLE_SECONDS = (15 * 60.0, 12 * 3600.0)
"""STS's limits for the duration of one session."""
LONGEST_CLUSTER_NAME = 100
LONGEST_SHOWN = 40
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:role/\S{1,576}")
_TRUE = ("1", "t", "T", "TRUE", "true", "True")
_FALSE = ("0", "f", "F", "FALSE", "false", "False")
Json = Mapping[str, Any]


class GlobalSettings(msgspec.Struct, frozen=True):
    """The values of the ConfigMap, under the names of our settings; None for a missing key."""

    batch_max_duration: float | None = None
    """Seconds."""
    batch_idle_duration: float | None = None
    """Seconds."""
    assume_role_arn: str | None = None
    assume_role_duration: float | None = None
    """Seconds."""
    cluster_ca_bundle: str | None = None
    cluster_name: str | None = None
    cluster_endpoint: str | None = None
    default_instance_profile: str | None = None
    enable_pod_eni: bool | None = None
    enable_eni_limited_pod_density: bool | None = None
    isolated_vpc: bool | None = None
    vm_memory_overhead_percent: float | None = None
    """A fraction from 0 to 1, in spite of its name."""
    interruption_queue: str | None = None
    aws_tags: dict[str, str] | None = None
    reserved_enis: int | None = None
    feature_gates: str | None = None
    """In the notation of FEATURE_GATES."""
    disruption: str | None = None
    """on or off, the kill switch of disruption; not a setting of Karpenter."""
    consolidation: str | None = None
    """Karpenter or Global; not a setting of Karpenter."""
    notes: tuple[Fault, ...] = ()
    """Unknown keys."""

    def present(self) -> dict[str, object]:
        """Name and value of every setting that the ConfigMap sets."""
        fields = {name: getattr(self, name) for name in self.__struct_fields__ if name != "notes"}
        return {name: value for name, value in fields.items() if value is not None}


def parse_global_settings(raw: Json) -> Parsed[GlobalSettings]:
    """The settings, or every fault with its path such as ``data[aws.clusterName]``. Never raises."""
    data = raw.get("data") if isinstance(raw, Mapping) else raw
    if data is None:
        return Parsed(GlobalSettings())
    if not isinstance(data, Mapping):
        return Parsed(None, (Fault(("data",), "must be a map of strings"),))
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    notes: list[Fault] = []
    for key, text in data.items():
        path: Path = ("data", str(key)[:253])
        known = _KEYS.get(key)
        if known is None:
            notes.append(Fault(path, "is not a known setting and has no effect"))
            continue
        name, read = known
        try:
            # Charts write every key, so an empty value counts as absent.
            if text not in ("", None):
                values[name] = read(_text(text))
        except ValueError as error:
            faults.append(Fault(path, str(error)))
    if faults:
        return Parsed(None, tuple(sorted(faults)))
    return Parsed(GlobalSettings(**values, notes=tuple(sorted(notes))))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("must be a string; put it in quotes")
    return value


def _shown(text: str) -> str:
    return repr(text[:LONGEST_SHOWN] + ("…" if len(text) > LONGEST_SHOWN else ""))


def _duration(least: float, most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        seconds = go_duration_seconds(text)
        if seconds is None:
            raise ValueError(f"{_shown(text)} is not a duration such as 10s, 1.5s, 500ms or 1m30s")
        if not least <= seconds <= most:
            raise ValueError(f"must be from {least:.0f}s to {most:.0f}s")
        return seconds

    return read


def _switch(text: str) -> bool:
    if text not in (*_TRUE, *_FALSE):
        raise ValueError(f'{_shown(text)} must be "true" or "false"')
    return text in _TRUE


def _fraction(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < 1:
        raise ValueError(f"{_shown(text)} must be a number from 0 to less than 1 such as 0.075")
    return value


def _interfaces(text: str) -> int:
    if not re.fullmatch("[0-9]{1,3}", text):
        raise ValueError(f"{_shown(text)} must be a whole number of network interfaces such as 1")
    return int(text)


def _role(text: str) -> str:
    if not _ROLE.fullmatch(text):
        raise ValueError(
            f"{_shown(text)} is not a role ARN such as arn:aws:iam::123456789012:role/nodes"
        )
    return text


def _endpoint(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("https", "http") or not parts.netloc:
        raise ValueError(f"{_shown(text)} is not a URL such as https://example.eks.amazonaws.com")
    return text


def _cluster_name(text: str) -> str:
    if len(text) > LONGEST_CLUSTER_NAME:
        raise ValueError(f"has more than {LONGEST_CLUSTER_NAME} characters")
    return text


def _drift(text: str) -> str:
    return f"Drift={str(_switch(text)).lower()}"


def _one_of(*allowed: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"{_shown(text)} must be {' or '.join(allowed)}")
        return text

    return read


_KEYS: dict[str, tuple[str, Callable[[str], object]]] = {
    "batchMaxDuration": ("batch_max_duration", _duration(0, LONGEST_BATCH_SECONDS)),
    "batchIdleDuration": ("batch_idle_duration", _duration(0, LONGEST_BATCH_SECONDS)),
    "aws.assumeRoleARN": ("assume_role_arn", _role),
    "aws.assumeRoleDuration": ("assume_role_duration", _duration(*ROLE_SECONDS)),
    "aws.clusterCABundle": ("cluster_ca_bundle", str),
    "aws.clusterName": ("cluster_name", _cluster_name),
    "aws.clusterEndpoint": ("cluster_endpoint", _endpoint),
    "aws.defaultInstanceProfile": ("default_instance_profile", str),
    "aws.enablePodENI": ("enable_pod_eni", _switch),
    "aws.enableENILimitedPodDensity": ("enable_eni_limited_pod_density", _switch),
    "aws.isolatedVPC": ("isolated_vpc", _switch),
    "aws.vmMemoryOverheadPercent": ("vm_memory_overhead_percent", _fraction),
    "aws.interruptionQueueName": ("interruption_queue", str),
    "aws.tags": ("aws_tags", parse_tags),
    "aws.reservedENIs": ("reserved_enis", _interfaces),
    "featureGates.driftEnabled": ("feature_gates", _drift),
    "disruption": ("disruption", _one_of("on", "off")),
    "consolidation": ("consolidation", _one_of(*CONSOLIDATORS)),
}
