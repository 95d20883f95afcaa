"""Which gang a pod belongs to, and within which topology, by its labels and annotations (SCH-114, SCH-115).

Read are ours, Kueue's groups of plain pods, the label of scheduler-plugins' PodGroups, and ``spec.schedulingGroup`` and
``spec.workloadRef`` of Kubernetes 1.36 and 1.35. The last three say no size: it is in the PodGroup or Workload.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from shared.api.core.label_syntax import is_qualified_name
from shared.api.faults import Fault, Parsed
from shared.api.shapes import entries, mapping, text
from shared.domain import labels as keys
from shared.domain.workloads.gang_sizes import (
    SCHEDULING_GROUP,
    WORKLOAD,
    GangSizes,
    group_gang,
    workload_gang,
)
from shared.errors import InvalidObject

Json = Mapping[str, Any]
KUEUE_GROUP, KUEUE_COUNT = "kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGIES = (keys.GANG_TOPOLOGY, REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
"""The first that a pod has counts."""
POD_GROUP = "scheduling.x-k8s.io/pod-group"
LARGEST_GANG = 5000
_SIZE = re.compile(r"[0-9]{1,5}")


class Membership(NamedTuple):
    """The gang of a pod; no name: of none. ``size``: number of its pods; 0: not said."""

    name: str = ""
    size: int = 0
    topology: str = ""
    """Key of a node label; empty: none."""
    is_preferred: bool = False


def read_gang(meta: Json, spec: Json) -> Membership:
    """Raises InvalidObject."""
    name, size = _named(meta, spec)
    key, wanted = topology_of(meta)
    if wanted == keys.GANG_TOPOLOGY and not name:
        raise InvalidObject(
            f"is for pods of a gang: add the annotation {keys.GANG}, or take it away",
            field=f"metadata.annotations[{wanted}]",
        )
    return Membership(name, size, key, wanted == PREFERRED_TOPOLOGY)


def topology_of(meta: Json) -> tuple[str, str]:
    """(label that all nodes of the pod's gang share, the annotation that says so). Raises InvalidObject."""
    annotations = mapping(meta.get("annotations"), "metadata.annotations")
    name = next((one for one in TOPOLOGIES if annotations.get(one)), "")
    if not name:
        return "", ""
    field = f"metadata.annotations[{name}]"
    key = text(annotations[name], field)
    if not is_qualified_name(key):
        raise InvalidObject(f"must be the key of a node label, such as {keys.ZONE}", field=field)
    return keys.normalise(key), name


def _named(meta: Json, spec: Json) -> tuple[str, int]:
    """(name, number of pods; 0: not said); ("", 0) for a pod of no gang. Raises InvalidObject."""
    labels = mapping(meta.get("labels"), "metadata.labels")
    annotations = mapping(meta.get("annotations"), "metadata.annotations")
    own = annotations.get(keys.GANG) or labels.get(keys.GANG)
    if own:
        name = text(own, f"metadata.annotations[{keys.GANG}]")
        return name, _size(annotations, keys.GANG_SIZE)
    group = labels.get(KUEUE_GROUP)
    if group:
        return text(group, f"metadata.labels[{KUEUE_GROUP}]"), _size(annotations, KUEUE_COUNT)
    named = text(labels.get(POD_GROUP), f"metadata.labels[{POD_GROUP}]")
    return named or _scheduling_group(spec) or _workload(spec), 0


def _scheduling_group(spec: Json) -> str:
    at = "spec.schedulingGroup"
    name = text(mapping(spec.get("schedulingGroup"), at).get("podGroupName"), f"{at}.podGroupName")
    return group_gang(name) if name else ""


def _workload(spec: Json) -> str:
    at = "spec.workloadRef"
    found = mapping(spec.get("workloadRef"), at)
    parts = [text(found.get(n), f"{at}.{n}") for n in ("name", "podGroup", "podGroupReplicaKey")]
    return workload_gang(*parts) if parts[0] and parts[1] else ""


def parse_pod_group(raw: Json) -> Parsed[GangSizes]:
    """scheduling.x-k8s.io/v1alpha1 PodGroup."""
    name = raw["metadata"]["name"]
    try:
        spec = mapping(raw.get("spec"), "spec")
        least = _least(spec.get("minMember"), "spec.minMember")
    except InvalidObject as error:
        return Parsed(None, (Fault((error.field,), error.fault),))
    return Parsed(_record(raw, "PodGroup", {name: least}))


def parse_scheduling_group(raw: Json) -> Parsed[GangSizes]:
    """scheduling.k8s.io/v1alpha2 PodGroup."""
    gang = group_gang(raw["metadata"]["name"])
    try:
        spec = mapping(raw.get("spec"), "spec")
        at = "spec.schedulingPolicy"
        policy = mapping(spec.get("schedulingPolicy"), at)
        if policy.get("gang") is None:
            return Parsed(_record(raw, SCHEDULING_GROUP, {}, (gang,)))
        named = mapping(policy.get("gang"), f"{at}.gang")
        least = _least(named.get("minCount"), f"{at}.gang.minCount")
        record = _record(raw, SCHEDULING_GROUP, {gang: least})
        return Parsed(replace(record, topology=_topology(spec)))
    except InvalidObject as error:
        return Parsed(None, (Fault((error.field,), error.fault),))


def _topology(spec: Json) -> str:
    """Kubernetes takes one constraint."""
    at = "spec.schedulingConstraints"
    listed = mapping(spec.get("schedulingConstraints"), at).get("topology")
    for index, one in enumerate(entries(listed, f"{at}.topology")):
        return keys.normalise(text(one.get("key"), f"{at}.topology[{index}].key"))
    return ""


def parse_workload(raw: Json) -> Parsed[GangSizes]:
    """scheduling.k8s.io/v1alpha1 Workload: its pod groups with the policy ``gang``."""
    try:
        listed = entries(mapping(raw.get("spec"), "spec").get("podGroups"), "spec.podGroups")
        sizes: dict[str, int] = {}
        singles = []
        for index, group in enumerate(listed):
            at = f"spec.podGroups[{index}]"
            policy = mapping(group.get("policy"), f"{at}.policy")
            gang = mapping(policy.get("gang"), f"{at}.policy.gang")
            name = text(group.get("name"), f"{at}.name")
            whole = workload_gang(raw["metadata"]["name"], name)
            if gang:
                sizes[whole] = _least(gang.get("minCount"), f"{at}.policy.gang.minCount")
            else:
                singles.append(whole)
    except InvalidObject as error:
        return Parsed(None, (Fault((error.field,), error.fault),))
    return Parsed(_record(raw, WORKLOAD, sizes, tuple(singles)))


def _record(
    raw: Json, kind: str, sizes: dict[str, int], singles: tuple[str, ...] = ()
) -> GangSizes:
    meta = raw["metadata"]
    return GangSizes(kind, meta.get("namespace") or "", meta["name"], sizes, singles)


def _least(value: object, field: str) -> int:
    """0 when it is absent. Raises InvalidObject."""
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= LARGEST_GANG:
        raise InvalidObject(f"must be a number of pods from 0 to {LARGEST_GANG}", field=field)
    return value


def _size(annotations: Json, name: str) -> int:
    written = annotations.get(name)
    if written is None:
        return 0
    is_count = isinstance(written, str) and _SIZE.fullmatch(written) is not None
    if not is_count or not 1 <= int(written) <= LARGEST_GANG:
        raise InvalidObject(
            f'must be a number of pods from 1 to {LARGEST_GANG}, such as "8"',
            field=f"metadata.annotations[{name}]",
        )
    return int(written)
