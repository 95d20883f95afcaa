"""Auto scaling groups and managed node groups, as the AWS command line prints them, and the pools that replace them.

Read are the answers of ``aws autoscaling describe-auto-scaling-groups``, ``aws eks describe-nodegroup`` and ``aws ec2
describe-launch-template-versions``. Pure; what cannot be read is a fault that names the group and the field.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cli.migration.autoscaler_flags import Translation, written_duration
from shared.api.label_rules import reserved_v1
from shared.domain import labels as keys
from shared.domain.expressions import Taint
from shared.domain.pools.generations import CLASS_GROUP

Json = Mapping[str, Any]
LABEL_TAG = "k8s.io/cluster-autoscaler/node-template/label/"
TAINT_TAG = "k8s.io/cluster-autoscaler/node-template/taint/"
OPTION_TAG = "k8s.io/cluster-autoscaler/node-template/autoscaling-options/"
RESOURCE_TAG = "k8s.io/cluster-autoscaler/node-template/resources/"
UNNEEDED, THRESHOLD = "scaledownunneededtime", "scaledownutilizationthreshold"
"""Flags that a group has of its own."""
EFFECTS = {
    "NO_SCHEDULE": "NoSchedule",
    "NO_EXECUTE": "NoExecute",
    "PREFER_NO_SCHEDULE": "PreferNoSchedule",
}
CAPACITY_TYPES = {"SPOT": keys.SPOT, "CAPACITY_BLOCK": keys.RESERVED}
"""Capacity type of a managed node group -> of a pool; all others are on demand."""
OF_THE_TYPE = ("cpu", "memory", "ephemeral-storage", "pods")
ALIASES = (
    ("AL2023", "al2023"), ("AL2_", "al2"), ("BOTTLEROCKET", "bottlerocket"),
    ("WINDOWS_CORE_2022", "windows2022"), ("WINDOWS_FULL_2022", "windows2022"),
    ("WINDOWS_CORE_2019", "windows2019"), ("WINDOWS_FULL_2019", "windows2019"),
)  # fmt: skip
"""Beginning of EKS's amiType -> alias of EC2NodeClass."""


@dataclass(frozen=True)
class NodeGroup:
    """One group. ``notes``: what the pool does not say."""

    name: str
    least: int
    most: int
    types: tuple[str, ...]
    capacity_types: tuple[str, ...] = (keys.ON_DEMAND,)
    zones: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    alias: str = "al2023"
    role: str = ""
    unneeded: str = ""
    """How long its nodes are not needed before they go; empty: as the flag says."""
    threshold: str = ""
    """Use from which on its nodes stay, as a percentage; empty: as the flag says."""
    by_attributes: bool = False
    """Whether EC2 chooses its types, by ``InstanceRequirements``."""
    notes: tuple[str, ...] = ()


@dataclass
class Groups:
    """All groups of the files, and faults as ``group: field: what is wrong``."""

    found: list[NodeGroup] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def read_groups(documents: Iterable[object]) -> Groups:
    """The groups in these answers. A managed node group counts once, not as its auto scaling group too."""
    answers = [one for one in documents if isinstance(one, Mapping)]
    templates = _template_types(answers)
    groups = Groups()
    managed: set[str] = set()
    for answer in answers:
        if isinstance(one := answer.get("nodegroup"), Mapping):
            resources = _mapping(one.get("resources")).get("autoScalingGroups") or ()
            managed |= {str(_mapping(group).get("name")) for group in resources}
            _add(groups, _managed(one, templates))
    for answer in answers:
        for one in answer.get("AutoScalingGroups") or ():
            if isinstance(one, Mapping) and one.get("AutoScalingGroupName") not in managed:
                _add(groups, _scaling(one, templates))
    if not groups.found and not groups.faults:
        groups.faults.append(_nothing_found(answers))
    return groups


def _add(groups: Groups, group: NodeGroup) -> None:
    if group.types:
        groups.found.append(group)
    elif group.by_attributes:
        groups.faults.append(
            f"{group.name}: instance types: InstanceRequirements are not read; write them as Overrides with an "
            "InstanceType each, which aws ec2 get-instance-types-from-instance-requirements lists"
        )
    else:
        groups.faults.append(
            f"{group.name}: instance types: none; also give the output of aws ec2 describe-launch-template-versions"
        )


def _nothing_found(answers: Iterable[Json]) -> str:
    text = (
        "no AutoScalingGroups and no nodegroup in the files; give the output of aws autoscaling "
        "describe-auto-scaling-groups, or of aws eks describe-nodegroup"
    )
    is_eksctl = any(one.get("kind") == "ClusterConfig" for one in answers)
    return f"{text}. A ClusterConfig of eksctl is not read" if is_eksctl else text


def _mapping(value: object) -> Json:
    return value if isinstance(value, Mapping) else {}


def _number(value: object, default: int) -> int:
    return (
        value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


def _managed(one: Json, templates: Mapping[str, str]) -> NodeGroup:
    scaling = _mapping(one.get("scalingConfig"))
    kind = str(one.get("amiType") or "")
    alias = next((alias for prefix, alias in ALIASES if kind.startswith(prefix)), "")
    notes = (
        [] if alias else [f"amiType {kind or 'is missing'}: write amiSelectorTerms and userData"]
    )
    capacity_type = CAPACITY_TYPES.get(str(one.get("capacityType")), keys.ON_DEMAND)
    if capacity_type == keys.RESERVED:
        notes.append("capacity block: write capacityReservationSelectorTerms")
    template = str(_mapping(one.get("launchTemplate")).get("id"))
    in_template = (templates[template],) if template in templates else ()
    return NodeGroup(
        name=str(one.get("nodegroupName") or "group"),
        least=_number(scaling.get("minSize"), 0),
        most=_number(scaling.get("maxSize"), 0),
        types=_texts(one.get("instanceTypes")) or in_template,
        capacity_types=(capacity_type,),
        subnets=_texts(one.get("subnets")),
        labels={str(k): str(v) for k, v in _mapping(one.get("labels")).items()},
        taints=tuple(_eks_taint(t) for t in one.get("taints") or () if isinstance(t, Mapping)),
        alias=alias or "al2023",
        role=str(one.get("nodeRole") or "").rpartition("/")[2],
        notes=tuple(notes),
    )


def _eks_taint(raw: Json) -> Taint:
    effect = EFFECTS.get(str(raw.get("effect")), "NoSchedule")
    return Taint(str(raw.get("key") or ""), effect, str(raw.get("value") or ""))


def _scaling(one: Json, templates: Mapping[str, str]) -> NodeGroup:
    tags = {
        str(t.get("Key")): str(t.get("Value") or "") for t in map(_mapping, one.get("Tags") or ())
    }
    labels = {k.removeprefix(LABEL_TAG): v for k, v in tags.items() if k.startswith(LABEL_TAG)}
    options = {k.removeprefix(OPTION_TAG): v for k, v in tags.items() if k.startswith(OPTION_TAG)}
    subnets = str(one.get("VPCZoneIdentifier") or "")
    return NodeGroup(
        name=str(one.get("AutoScalingGroupName") or "group"),
        least=_number(one.get("MinSize"), 0),
        most=_number(one.get("MaxSize"), 0),
        types=_types(one, templates),
        by_attributes=any("InstanceRequirements" in _mapping(o) for o in _overrides(one)),
        capacity_types=_capacity_types(one),
        zones=_texts(one.get("AvailabilityZones")),
        subnets=tuple(part.strip() for part in subnets.split(",") if part.strip()),
        labels=labels,
        taints=tuple(_tag_taint(k, v) for k, v in tags.items() if k.startswith(TAINT_TAG)),
        unneeded=written_duration(options.get(UNNEEDED, "")),
        threshold=_percent(options.get(THRESHOLD, "")),
        notes=(
            "image: the latest of al2023; write amiSelectorTerms for another",
            *_option_notes(options),
            *_override_notes(one),
            *_resource_notes(tags),
        ),
    )


def _percent(share: str) -> str:
    """``35%`` of ``0.35``; empty for another text than a share."""
    try:
        found = float(share)
    except ValueError:
        return ""
    return f"{round(found * 100)}%" if 0 <= found <= 1 else ""


def _option_notes(options: Mapping[str, str]) -> Iterator[str]:
    """What became of none of the group's options, by name."""
    for name, value in sorted(options.items()):
        if name == UNNEEDED and not written_duration(value):
            yield f"{name}: {value!r} is not a duration such as 10m"
        elif name == THRESHOLD and not _percent(value):
            yield f"{name}: {value!r} is not a share such as 0.5"
        elif name not in (UNNEEDED, THRESHOLD):
            yield f"{name}={value}: no counterpart of a pool"


def _override_notes(one: Json) -> Iterator[str]:
    """What the pool does not say of the group's overrides."""
    overrides = [_mapping(o) for o in _overrides(one)]
    if any("InstanceRequirements" in o for o in overrides):
        yield "InstanceRequirements: the pool has the types that run now; --any-type allows all"
    if any(str(o.get("WeightedCapacity") or "1") != "1" for o in overrides):
        yield "WeightedCapacity: sizes of the group are units; mend limits.nodes and the minimum"


def _resource_notes(tags: Mapping[str, str]) -> Iterator[str]:
    """Resources that Cluster Autoscaler was to expect of nodes, and which the pool does not have."""
    for tag, amount in sorted(tags.items()):
        name = tag.removeprefix(RESOURCE_TAG)
        if tag == name:
            continue
        if name in OF_THE_TYPE:
            yield f"resources/{name}={amount}: instance type and volumes decide"
        else:
            yield f"resources/{name}={amount}: a NodeOverlay adds what drivers report"


def _tag_taint(key: str, value: str) -> Taint:
    text, _, effect = value.rpartition(":")
    return Taint(key.removeprefix(TAINT_TAG), effect or "NoSchedule", text)


def _mixed(one: Json) -> Json:
    return _mapping(_mapping(one.get("MixedInstancesPolicy")).get("LaunchTemplate"))


def _overrides(one: Json) -> list[object]:
    found = _mixed(one).get("Overrides")
    return found if isinstance(found, list) else []


def _types(one: Json, templates: Mapping[str, str]) -> tuple[str, ...]:
    mixed = _mixed(one)
    listed = [str(_mapping(o).get("InstanceType") or "") for o in _overrides(one)]
    if named := tuple(dict.fromkeys(filter(None, listed))):
        return named
    for specification in (one.get("LaunchTemplate"), mixed.get("LaunchTemplateSpecification")):
        if found := templates.get(str(_mapping(specification).get("LaunchTemplateId"))):
            return (found,)
    used = [str(_mapping(i).get("InstanceType") or "") for i in one.get("Instances") or ()]
    return tuple(dict.fromkeys(filter(None, used)))


def _template_types(answers: Iterable[Json]) -> dict[str, str]:
    """Id of a launch template -> instance type, of its last version in the answers."""
    return {
        str(version["LaunchTemplateId"]): str(
            _mapping(version.get("LaunchTemplateData")).get("InstanceType")
        )
        for answer in answers
        for version in map(_mapping, answer.get("LaunchTemplateVersions") or ())
        if "LaunchTemplateId" in version
        and _mapping(version.get("LaunchTemplateData")).get("InstanceType")
    }


def _capacity_types(one: Json) -> tuple[str, ...]:
    distribution = _mapping(_mapping(one.get("MixedInstancesPolicy")).get("InstancesDistribution"))
    base = _number(distribution.get("OnDemandBaseCapacity"), 0)
    share = _number(distribution.get("OnDemandPercentageAboveBaseCapacity"), 100)
    if share >= 100:
        return (keys.ON_DEMAND,)
    return (keys.SPOT,) if share == 0 and base == 0 else (keys.SPOT, keys.ON_DEMAND)


def pool_name(group: str) -> str:
    """A name that an API server accepts."""
    return re.sub(r"[^a-z0-9.-]+", "-", group.lower()).strip("-.")[:200] or "group"


def node_pool(group: NodeGroup, flags: Translation, *, any_type: bool) -> dict[str, Any]:
    """The NodePool of a group. ``any_type``: its types are not a requirement."""
    wanted: dict[str, tuple[str, ...]] = {
        keys.CAPACITY_TYPE: group.capacity_types,
        keys.ZONE: group.zones,
        keys.INSTANCE_TYPE: () if any_type else group.types,
    }
    name = pool_name(group.name)
    usual = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    disruption = {**usual, **flags.disruption}
    if group.unneeded and disruption["consolidateAfter"] != "Never":
        disruption["consolidateAfter"] = group.unneeded
    labels = {key: value for key, value in group.labels.items() if not reserved_v1(key)}
    least = {keys.MINIMUM_ANNOTATION: f"nodes: {group.least}"} if group.least else {}
    threshold = {keys.UTILIZATION_ANNOTATION: group.threshold} if group.threshold else {}
    annotations = {**flags.annotations, **least, **threshold}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {
            "template": {
                **({"metadata": {"labels": labels}} if labels else {}),
                "spec": {
                    "requirements": [
                        {"key": key, "operator": "In", "values": list(values)}
                        for key, values in wanted.items() if values
                    ],
                    **({"taints": [_taint(one) for one in group.taints]} if group.taints else {}),
                    "nodeClassRef": {"group": CLASS_GROUP, "kind": "EC2NodeClass", "name": name},
                    "expireAfter": "Never",
                    **flags.template,
                },
            },
            "disruption": {**disruption, **({"budgets": flags.budgets} if flags.budgets else {})},
            **({"limits": {"nodes": str(group.most)}} if group.most else {}),
        },
    }  # fmt: skip


def _taint(one: Taint) -> dict[str, str]:
    return {"key": one.key, "effect": one.effect, **({"value": one.value} if one.value else {})}


def node_class(group: NodeGroup, cluster: str, role: str) -> dict[str, Any]:
    """The EC2NodeClass of a group. ``role``: for groups that name none."""
    subnets = [{"id": one} for one in group.subnets]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": pool_name(group.name)},
        "spec": {
            "amiSelectorTerms": [{"alias": f"{group.alias}@latest"}],
            "role": group.role or role,
            "subnetSelectorTerms": subnets or [{"tags": {"karpenter.sh/discovery": cluster}}],
            "securityGroupSelectorTerms": [{"tags": {f"kubernetes.io/cluster/{cluster}": "owned"}}],
        },
    }


def notes_of(group: NodeGroup) -> list[str]:
    """What the pool of a group does not say, as sentences."""
    found = list(group.notes)
    reserved = sorted(key for key in group.labels if reserved_v1(key))
    if reserved:
        found.append(f"labels that nodes get anyway, or that are reserved: {', '.join(reserved)}")
    return found
