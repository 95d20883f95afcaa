"""Allocatable resources of an instance type for the settings of a pool and its class (docs/spec/instance-types.md).

    capacity   what the kubelet will report: pods and disk depend on the settings, the rest on the hardware
    overhead   kubeReserved + systemReserved + hard eviction threshold, per resource

The catalogue holds every type with the default settings; ``adapted`` converts a type to other settings. The arithmetic
equals Karpenter's to the byte (also where it uses floating point and rounds up), because an allocatable that is one
byte too large puts a pod on a node where it does not fit. Pure.

A type without ``facts`` (written by hand, or stored by an older version) keeps its amounts; only the limits on pods
are applied to it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set

from msgspec.structs import replace

from shared.domain import labels as keys
from shared.domain.instance_types.evaluation import value_of
from shared.domain.instance_types.expressions import (
    UNITS,
    Expressions,
    Texts,
    Variables,
    units_of,
)
from shared.domain.instance_types.size_settings import (
    AL2023,
    LINUX,
    USUAL,
    WINDOWS_BUILDS,
    Amounts,
    SizeSettings,
    Threshold,
)
from shared.domain.instance_types.types import EFA, HUGE_PAGES, InstanceType, SizeFacts
from shared.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, add
from shared.errors import InvalidObject

MIB = 1024**2
GIB = 1024**3
GIGABYTE = 1000**3
DEFAULT_PODS = 110
ReservedTexts = tuple[tuple[str, str, str], ...]
"""(field of the kubelet's settings, resource, quantity), such as ``("kubeReserved", "cpu", "480m")``."""
INSTANCE_MEMORY = keys.AWS_PREFIX + "instance-memory"
INSTANCE_PODS = keys.AWS_PREFIX + "instance-pods"
PRIVATE_IPV4 = "vpc.amazonaws.com/PrivateIPv4Address"
_EVICTION_MEMORY = Threshold(amount=100 * MIB)
_EVICTION_STORAGE = Threshold(percent=10)
_CPU_BANDS = ((0, 1000, 600), (1000, 2000, 100), (2000, 4000, 50), (4000, None, 25))
"""IT-30: (from milli-CPU, to, share in hundredths of a percent)."""


def adapted(kind: InstanceType, settings: SizeSettings) -> InstanceType:
    """The type with the amounts, and the labels derived from them, of machines with these settings.

    A type that the settings exclude (arm64 with Windows, a1 with AL2023, one that lacks enclaves, one for which an
    expression fails) has no offerings.
    """
    settings = effective(settings, kind.memory_by_image.keys(), first_graviton=is_a1(kind.name))
    if settings == USUAL:
        return kind
    try:
        settings = resolved(kind, settings)
    except InvalidObject:
        return replace(kind, offerings=())
    if settings.enclaves and kind.facts is not None and kind.facts.enclaves is False:
        return replace(kind, offerings=())
    if settings.platform == AL2023:
        return replace(kind, offerings=())
    return sized(kind, kind.facts, settings) if kind.facts else _as_described(kind, settings)


def resolved(kind: InstanceType, settings: SizeSettings) -> SizeSettings:
    """The settings with amounts in the place of expressions (EC-11). A type without facts has amounts of its own, and
    no expression changes them. Raises InvalidObject naming the field whose expression fails for the type."""
    asked, facts = settings.expressions, kind.facts
    if not asked:
        return settings
    plain = replace(settings, expressions=Expressions())
    if facts is None:
        return plain
    usual = _limited(_usual_pods(facts, plain), kind.capacity, plain)
    variables = Variables(
        kind.name, kind.capacity[CPU] // 1000, _described_mib(kind), facts.interfaces,
        facts.addresses_per_interface, usual,
    )  # fmt: skip
    if asked.max_pods:
        plain = replace(plain, max_pods=value_of("maxPods", asked.max_pods, variables))
    pods = _limited(_usual_pods(facts, plain), kind.capacity, plain)
    variables = variables._replace(max_pods=pods)
    return replace(
        plain,
        kube_reserved=_amounts("kubeReserved", asked.kube_reserved, plain.kube_reserved, variables),
        system_reserved=_amounts(
            "systemReserved", asked.system_reserved, plain.system_reserved, variables
        ),
    )


def reserved_texts(kind: InstanceType, settings: SizeSettings) -> ReservedTexts:
    """What expressions for reserved resources yield for this type, as the kubelet reads it. Raises InvalidObject."""
    found = resolved(kind, settings)
    amounts = {
        "kubeReserved": dict(found.kube_reserved),
        "systemReserved": dict(found.system_reserved),
    }
    return tuple(
        (field, resource, UNITS[resource].text(amounts[field][resource]))
        for field, texts in settings.expressions.reserved()
        for resource, _ in texts
        if resource in amounts[field]
    )


def _described_mib(kind: InstanceType) -> int:
    """The memory that EC2 names, which is more than what the kubelet will report."""
    named = kind.labels.get(INSTANCE_MEMORY, ())
    return int(named[0]) if named else kind.capacity[MEMORY] // MIB


def _amounts(field: str, texts: Texts, written: Amounts, variables: Variables) -> Amounts:
    found = dict(written)
    for resource, text in texts:
        unit = UNITS.get(resource)
        if unit is None:
            raise InvalidObject(f"is unknown; use {', '.join(UNITS)}", field=f"{field}[{resource}]")
        value = value_of(f"{field}[{resource}]", text, variables)
        found[resource] = units_of(resource, value) * unit.factor
    return tuple(sorted(found.items()))


def effective(settings: SizeSettings, known: Set[str], *, first_graviton: bool) -> SizeSettings:
    """The settings reduced to what affects a type with measurements of the images ``known``; pools with equal results
    have equal sizes.
    """
    images = tuple(image for image in settings.images if image in known)
    linux = settings.platform == AL2023 and not first_graviton
    platform = LINUX if linux else settings.platform
    if (images, platform) == (settings.images, settings.platform):
        return settings
    return replace(settings, images=images, platform=platform)


def is_a1(name: str) -> bool:
    """IT-02: the first Graviton lacks instructions that AL2023 is built with."""
    return name.startswith("a1.")


def _as_described(kind: InstanceType, settings: SizeSettings) -> InstanceType:
    pods = _limited(kind.capacity.get(PODS, 0), kind.capacity, settings)
    labels = {**kind.labels, INSTANCE_PODS: (str(pods),), **_group_labels(settings)}
    return replace(kind, labels=labels, capacity={**kind.capacity, PODS: pods})


def _group_labels(settings: SizeSettings) -> dict[str, tuple[str, ...]]:
    """IT-44: labels of the placement group of the machines; a machine may be in any of its partitions."""
    labels: dict[str, tuple[str, ...]] = {}
    if settings.placement_group:
        labels[keys.PLACEMENT_GROUP] = (settings.placement_group,)
    if settings.partitions:
        labels[keys.PARTITION] = tuple(str(one + 1) for one in range(settings.partitions))
    return labels


def _adapters(kind: InstanceType, settings: SizeSettings) -> dict[str, int]:
    """IT-18: if a class lists network interfaces, they determine the number of adapters."""
    if settings.efa_interfaces is None or EFA not in kind.capacity:
        return {}
    return {EFA: min(settings.efa_interfaces, kind.capacity[EFA])}


def sized(kind: InstanceType, facts: SizeFacts, settings: SizeSettings) -> InstanceType:
    """The type with all amounts computed for the settings, from its cpu, memory, devices and ``facts``."""
    capacity = {
        **kind.capacity,
        **_adapters(kind, settings),
        MEMORY: _memory(kind, settings),
        EPHEMERAL_STORAGE: _ephemeral_storage(facts, settings),
        PODS: _limited(_usual_pods(facts, settings), kind.capacity, settings),
    }
    labels = {**kind.labels, INSTANCE_PODS: (str(capacity[PODS]),), **_group_labels(settings)}
    offerings = kind.offerings
    if settings.is_windows:
        capacity[PRIVATE_IPV4] = max(facts.addresses_per_interface - 1, 0)
        labels[keys.OS] = ("windows",)
        labels[keys.WINDOWS_BUILD] = (WINDOWS_BUILDS[settings.platform],)
        offerings = offerings if "amd64" in labels.get(keys.ARCH, ()) else ()
    return replace(
        kind,
        labels=labels,
        capacity=capacity,
        overhead=_overhead(capacity, facts, settings),
        offerings=offerings,
        facts=facts,
    )


def _memory(kind: InstanceType, settings: SizeSettings) -> int:
    """IT-12: the smallest memory that nodes with one of these images reported, else the estimate."""
    seen = [kind.memory_by_image[i] for i in settings.images if i in kind.memory_by_image]
    return min(seen, default=kind.capacity[MEMORY])


def _usual_pods(facts: SizeFacts, settings: SizeSettings) -> int:
    """IT-13, IT-14: the number of pods without kubelet settings."""
    if settings.is_windows or facts.pod_interfaces is None:
        return DEFAULT_PODS
    usable = facts.pod_interfaces - settings.efa_only_interfaces
    return eni_limited_pods(usable, facts.addresses_per_interface)


def _limited(pods: int, capacity: Mapping[str, int], settings: SizeSettings) -> int:
    """IT-13: ``pods`` where maxPods and podsPerCore allow it."""
    count = pods if settings.max_pods is None else settings.max_pods
    if settings.pods_per_core and not settings.is_bottlerocket:
        count = min(count, settings.pods_per_core * capacity[CPU] // 1000)
    return count


def eni_limited_pods(interfaces: int, addresses_per_interface: int) -> int:
    """How many pods the VPC CNI can address with so many interfaces; none without any (IT-13)."""
    return interfaces * (addresses_per_interface - 1) + 2 if interfaces > 0 else 0


def _ephemeral_storage(facts: SizeFacts, settings: SizeSettings) -> int:
    """IT-15: ephemeral storage."""
    if settings.instance_store and facts.instance_store_gb:
        return facts.instance_store_gb * GIGABYTE
    return settings.volume_bytes


def _overhead(
    capacity: Mapping[str, int], facts: SizeFacts, settings: SizeSettings
) -> dict[str, int]:
    kube = _kube_reserved(capacity, facts, settings) | dict(settings.kube_reserved)
    total = add(kube, dict(settings.system_reserved), _eviction(capacity, settings))
    # IT-19: the kernel allocates huge pages from memory, so reserved huge pages reduce it.
    huge = sum(amount for name, amount in total.items() if name.startswith(HUGE_PAGES))
    return total | {MEMORY: total[MEMORY] + huge}


def _kube_reserved(
    capacity: Mapping[str, int], facts: SizeFacts, settings: SizeSettings
) -> dict[str, int]:
    """IT-30..32, IT-36. With Amazon Linux the memory is that for all pods the type could address, whatever maxPods."""
    actual = settings.is_bottlerocket or settings.is_windows
    addressable = eni_limited_pods(facts.interfaces, facts.addresses_per_interface)
    pods = capacity[PODS] if actual else addressable
    return {
        CPU: kube_reserved_cpu_milli(capacity[CPU]),
        MEMORY: (11 * pods + 255) * MIB,
        EPHEMERAL_STORAGE: GIB,
    }


def kube_reserved_cpu_milli(cpu_milli: int) -> int:
    """IT-30: each band is cut to whole milli-CPU."""
    reserved = 0
    for start, end, share in _CPU_BANDS:
        inside = max((cpu_milli if end is None else min(cpu_milli, end)) - start, 0)
        reserved += inside * share // 10_000
    return reserved


def _eviction(capacity: Mapping[str, int], settings: SizeSettings) -> dict[str, int]:
    """IT-33: eviction threshold."""
    memory = settings.memory_eviction or _EVICTION_MEMORY
    storage = settings.storage_eviction or _EVICTION_STORAGE
    return {
        MEMORY: _bytes_of(memory, capacity[MEMORY]),
        EPHEMERAL_STORAGE: _bytes_of(storage, capacity[EPHEMERAL_STORAGE]),
    }


def _bytes_of(threshold: Threshold, capacity: int) -> int:
    if threshold.percent is None:
        return threshold.amount
    return math.ceil(capacity / 100 * threshold.percent)
