"""Settings of the kubelet in a Provisioner and (in v1) an EC2NodeClass (P-20..P-23, EC-10, EC-11).

The settings are written into the user data of a node, so strings are checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from shared.api.crd.model import ApiModel, Json, Rule
from shared.api.faults import Path
from shared.api.schema.scalars import (
    EXAMPLE_ADDRESS,
    IpAddress,
    Quantity,
    cel_is_address,
    worded,
)

EVICTION_SIGNALS = (
    "memory.available", "nodefs.available", "nodefs.inodesFree",
    "imagefs.available", "imagefs.inodesFree", "pid.available",
)  # fmt: skip
RESERVED_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pid")
THRESHOLD_PATTERN = (
    r"^((100(\.0{1,3})?|[0-9]{1,2}(\.[0-9]{1,3})?)%"
    r"|[0-9]{1,18}(\.[0-9]{1,9})?([KMGTPE]i|[numkMGTPE]|[eE][0-9]{1,2})?)$"
)
GRACE_PERIOD_PATTERN = r"^([0-9]{1,9}(\.[0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$"
LARGEST_NUMBER = 2**31 - 1
Number = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
Percent = Annotated[int, Field(ge=0, le=100)]
Threshold = Annotated[str, *worded(THRESHOLD_PATTERN, "5% or 100Mi")]
GracePeriod = Annotated[str, *worded(GRACE_PERIOD_PATTERN, "1m30s")]
Thresholds = Annotated[dict[str, Threshold], Field(max_length=len(EVICTION_SIGNALS))]
GracePeriods = Annotated[dict[str, GracePeriod], Field(max_length=len(EVICTION_SIGNALS))]
Reserved = Annotated[dict[str, Quantity], Field(max_length=len(RESERVED_RESOURCES))]


def _only_keys(name: str, allowed: tuple[str, ...]) -> Rule:
    """A rule that restricts the keys of the map ``name`` to ``allowed`` (P-21, P-22)."""
    listed = ", ".join(allowed)

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        for key in _keys(raw, name):
            if key not in allowed:
                yield (name, str(key)), f"is unknown; use one of {listed}"

    quoted = ", ".join(f"'{key}'" for key in allowed)
    cel = f"!has(self.{name}) || self.{name}.all(key, key in [{quoted}])"
    return Rule(f"keys of {name} must be among {listed}", cel, check)


def _also_in(name: str, other: str) -> Rule:
    """A rule that every key of the map ``name`` is also a key of the map ``other`` (P-23)."""

    def check(raw: Json) -> Iterable[tuple[Path, str]]:
        there = set(map(str, _keys(raw, other)))
        for key in _keys(raw, name):
            if str(key) not in there:
                yield (name, str(key)), f"needs an entry of the same name in {other}"

    cel = f"!has(self.{name}) || self.{name}.all(key, has(self.{other}) && key in self.{other})"
    return Rule(f"every entry of {name} needs one of the same name in {other}", cel, check)


def _keys(raw: Json, name: str) -> list[Any]:
    """Keys of the map ``name``; none for a map that is too large, which the schema reports as one fault."""
    found = raw.get(name)
    most = max(len(EVICTION_SIGNALS), len(RESERVED_RESOURCES))
    return list(found) if isinstance(found, Mapping) and len(found) <= most else []


def _check_collection(raw: Json) -> Iterable[tuple[Path, str]]:
    high = raw.get("imageGCHighThresholdPercent")
    low = raw.get("imageGCLowThresholdPercent")
    if isinstance(high, int) and isinstance(low, int) and high < low:
        yield (
            ("imageGCHighThresholdPercent",),
            f"{high} is below imageGCLowThresholdPercent ({low}); swap the two values",
        )


class KubeletConfiguration(ApiModel):
    """Settings of the kubelet on the nodes."""

    RULES: ClassVar[tuple[Rule, ...]] = (
        *(
            _only_keys(name, EVICTION_SIGNALS)
            for name in ("evictionHard", "evictionSoft", "evictionSoftGracePeriod")
        ),
        *(_only_keys(name, RESERVED_RESOURCES) for name in ("systemReserved", "kubeReserved")),
        _also_in("evictionSoft", "evictionSoftGracePeriod"),
        _also_in("evictionSoftGracePeriod", "evictionSoft"),
        Rule(
            "imageGCHighThresholdPercent must not be below imageGCLowThresholdPercent",
            "!has(self.imageGCHighThresholdPercent) || !has(self.imageGCLowThresholdPercent) || "
            "self.imageGCHighThresholdPercent >= self.imageGCLowThresholdPercent",
            _check_collection,
        ),
        Rule(
            f"clusterDNS must list IP addresses such as {EXAMPLE_ADDRESS}",
            f"!has(self.clusterDNS) || self.clusterDNS.all(a, {cel_is_address('a')})",
        ),
    )

    cluster_dns: Annotated[list[IpAddress], Field(max_length=16)] | None = Field(
        default=None, alias="clusterDNS"
    )
    """IP addresses of the cluster's DNS servers, for pods."""
    max_pods: Number | None = None
    """Maximum number of pods on a node; by default the number of addresses of its network interfaces."""
    pods_per_core: Number | None = None
    """Maximum number of pods per vCPU of a node; 0 for no limit. The smaller of this limit and maxPods applies."""
    system_reserved: Reserved | None = None
    """Resources reserved for the operating system: cpu, memory, ephemeral-storage, pid."""
    kube_reserved: Reserved | None = None
    """Resources reserved for Kubernetes' own processes: cpu, memory, ephemeral-storage, pid."""
    eviction_hard: Thresholds | None = None
    """Thresholds, such as memory.available: 5%, below which pods are evicted immediately."""
    eviction_soft: Thresholds | None = None
    """Thresholds below which pods are evicted after a grace period."""
    eviction_soft_grace_period: GracePeriods | None = None
    """How long, such as 1m30s, a value may stay below its threshold in evictionSoft before pods are evicted."""
    eviction_max_pod_grace_period: Number | None = None
    """Maximum grace period, in seconds, of pods that are evicted because of a threshold in evictionSoft."""
    image_gc_high_threshold_percent: Percent | None = Field(
        default=None, alias="imageGCHighThresholdPercent"
    )
    """Disk usage, in percent, above which unused images are removed."""
    image_gc_low_threshold_percent: Percent | None = Field(
        default=None, alias="imageGCLowThresholdPercent"
    )
    """Disk usage, in percent, down to which unused images are removed."""
    cpu_cfs_quota: bool | None = Field(default=None, alias="cpuCFSQuota")
    """Whether CPU limits of containers are enforced by CFS quota."""


class ProvisionerKubelet(KubeletConfiguration):
    """Settings of the kubelet on the nodes."""

    container_runtime: Literal["dockerd", "containerd"] | None = None
    """Container runtime of the nodes."""


FIXED_FIELDS = frozenset(
    field.alias or name for name, field in KubeletConfiguration.model_fields.items()
)
"""EC-10: settings that work with every image family."""


def kubelet_settings(written: KubeletConfiguration | None) -> dict[str, object]:
    """The settings that are set, by their API names, as domain records and documents hold them.

    Quantities become strings, as KubeletConfiguration requires them.
    """
    if written is None:
        return {}
    settings: dict[str, Any] = written.model_dump(by_alias=True, exclude_none=True)
    for name in ("systemReserved", "kubeReserved"):
        if name in settings:
            settings[name] = {key: str(amount) for key, amount in settings[name].items()}
    return settings
