"""From a Machine and its node class to the content, name and tags of its launch templates: pure (LCH-20..24).

One template serves all instance types that need the same content. What differs between the types of one launch is a
``Variant``; what else decides, such as what the kubelet reserves, is the same for all of them, and is in the hash.
Tags say whose an instance or a launch template is (LCH-23, LCH-56).

What may go wrong: a size that is no quantity, in a class that nobody checked: ``InvalidObject`` names the field.
"""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping
from typing import Any

import orjson

from services.launcher.launch_template.variants import Variant
from services.launcher.resolved_class import Resolved
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, NAME_TAG, cluster_tag
from shared.cloud.ec2.records import tag_specification
from shared.domain import labels as keys
from shared.domain.instance_types.size_settings import WINDOWS_BUILDS
from shared.domain.machines.machine import Machine
from shared.domain.pools.generations import V1, V1ALPHA5
from shared.domain.pools.nodepools import NodeClass
from shared.domain.requirements import Requirements
from shared.domain.resources import parse_quantity
from shared.errors import InvalidObject

NITRO_SANDBOX = "eks.amazonaws.com/nitro-sandbox"
"""An extended resource: a NodeOverlay says how many a type has."""
TENANCY = keys.AWS_PREFIX + "instance-tenancy"
DEFAULT_TENANCY, DEDICATED_TENANCY = "default", "dedicated"
OWNER_TAG = "karpenter.k8s.aws/cluster"
"""v1alpha5: on every template, the cluster's name (LCH-23)."""
NAME_PREFIX_V1 = "karpenter.k8s.aws/"
LONGEST_CLUSTER_PART = 90
"""EC2 allows 128 characters in a template's name, EKS 100 in a cluster's."""
_LIKE_ALL = {"HttpEndpoint": "enabled", "HttpProtocolIpv6": "disabled", "HttpTokens": "required"}
_METADATA = {
    V1ALPHA5: {**_LIKE_ALL, "HttpPutResponseHopLimit": 2},
    V1: {**_LIKE_ALL, "HttpPutResponseHopLimit": 1, "InstanceMetadataTags": "disabled"},
}
"""Metadata options by generation, where a class says nothing (T-08, EC-13, LCH-24)."""
_VOLUMES = {
    "Bottlerocket": (("/dev/xvda", 4), ("/dev/xvdb", 20)),
    "Ubuntu": (("/dev/sda1", 20),),
    "Custom": (),
    **dict.fromkeys(WINDOWS_BUILDS, (("/dev/sda1", 50),)),
}
_USUAL_VOLUMES = (("/dev/xvda", 20),)
"""AMI family -> devices and GiB when the class maps none (IT-16). A custom image knows its devices itself."""


def template_name(cluster: str, data: Mapping[str, Any]) -> str:
    """The same data has the same name, for ever (LCH-20)."""
    return f"{name_prefix(cluster)}{_digest(data)}"


def name_prefix(cluster: str) -> str:
    """With which the names of a cluster's v1alpha5 templates begin."""
    return f"Karpenter-{cluster[:LONGEST_CLUSTER_PART]}-"


def template_name_v1(data: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """LCH-20 [1]. The tags count, so that no two clusters or classes share one: it goes with its class (LCH-22)."""
    return f"{NAME_PREFIX_V1}{_digest({'data': data, 'tags': tags})}"


def _digest(value: Mapping[str, Any]) -> int:
    digest = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return int(digest[:16], 16)


def template_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """Tags of a launch template: whose it is (LCH-23)."""
    own = node_class.api.own_tags
    owner = v1_tags(machine, node_class, cluster) if own else {OWNER_TAG: cluster}
    return {**node_class.tags, cluster_tag(cluster): "owned", **owner}


def template_data(
    machine: Machine,
    resolved: Resolved,
    variant: Variant,
    user_data: str,
    *,
    cluster: str,
    reserved_capacity: bool = True,
    is_ipv6: bool = False,
) -> dict[str, Any]:
    """LCH-24. ``reserved_capacity``: the feature gate; ``is_ipv6``: the addresses of pods and services.

    Raises InvalidObject for a volume size that is no quantity.
    """
    node_class = resolved.node_class
    optional = {
        "BlockDeviceMappings": volumes(node_class),
        "IamInstanceProfile": {"Name": resolved.profile} if resolved.profile else {},
        "Placement": _placement(machine, node_class),
        "CpuOptions": _capitalized(node_class.cpu_options),
        "EnclaveOptions": _enclaves(machine, node_class),
        **(
            _reservation(variant)
            if node_class.api.class_reserves_capacity and reserved_capacity
            else {}
        ),
    }
    return {
        "ImageId": variant.image,
        "UserData": base64.b64encode(user_data.encode()).decode(),
        **_network(resolved, variant, is_ipv6=is_ipv6),
        "MetadataOptions": metadata_options(node_class),
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        "TagSpecifications": _tag_specifications(machine, node_class, variant, cluster),
        **{name: value for name, value in optional.items() if value},
    }


def _tag_specifications(
    machine: Machine, node_class: NodeClass, variant: Variant, cluster: str
) -> list[dict[str, Any]]:
    """What CreateFleet cannot tag, and the launcher's role may only make with tags. Sorted: the order is in the name.

    EC2 refuses tags of a spot request where none is made.
    """
    tags = dict(sorted(instance_tags(machine, node_class, cluster).items()))
    kinds = ("network-interface", *(("spot-instances-request",) if variant.spot else ()))
    return [tag_specification(kind, tags) for kind in kinds]


def _network(resolved: Resolved, variant: Variant, *, is_ipv6: bool) -> dict[str, Any]:
    """Interfaces only where something needs them; they have the security groups then (LCH-14)."""
    groups = sorted(group.id for group in resolved.security_groups)
    interfaces = _interfaces(resolved.node_class, variant)
    alone = len(interfaces) < 2
    primary = _primary_settings(resolved.node_class, alone=alone, is_ipv6=is_ipv6)
    tracking = _capitalized(resolved.node_class.connection_tracking)
    if not (interfaces or primary or tracking):
        return {"SecurityGroupIds": groups}
    listed = [{**one, "Groups": groups} for one in interfaces or [{"DeviceIndex": 0}]]
    for interface in listed:
        if tracking and interface.get("InterfaceType") != "efa-only":
            interface["ConnectionTrackingSpecification"] = tracking
    listed[0].update(primary)
    return {"NetworkInterfaces": listed}


def _primary_settings(node_class: NodeClass, *, alone: bool, is_ipv6: bool) -> dict[str, Any]:
    """What is for the first interface only: the class's wishes, and on an IPv6 cluster the node's own address."""
    wishes: dict[str, Any] = {}
    # EC2 takes a wish about public addresses for machines with one interface only.
    if node_class.associate_public_ip is not None and alone:
        wishes["AssociatePublicIpAddress"] = node_class.associate_public_ip
    prefixes = node_class.ip_prefix_count
    if is_ipv6:
        own = {"Ipv6AddressCount": 1} if prefixes is None else {"Ipv6PrefixCount": prefixes}
        return {**wishes, "PrimaryIpv6": True, **own}
    if prefixes is not None:
        wishes["Ipv4PrefixCount"] = prefixes
    return wishes


def _interfaces(node_class: NodeClass, variant: Variant) -> list[dict[str, Any]]:
    """Those that the class lists, the primary one first; else one per adapter that pods ask for (EC-14)."""
    if node_class.network_interfaces:
        written = [_capitalized(one) for one in node_class.network_interfaces]
        return sorted(
            written, key=lambda one: (one.get("NetworkCardIndex", 0), one.get("DeviceIndex", 0))
        )
    return [
        {"NetworkCardIndex": card, "DeviceIndex": min(card, 1), "InterfaceType": "efa"}
        for card in range(variant.efa_interfaces)
    ]


def metadata_options(node_class: NodeClass) -> dict[str, Any]:
    """The class's own over its generation's defaults, in EC2's spelling (T-08, EC-13)."""
    options = _capitalized(node_class.metadata_options)
    if "HttpProtocolIPv6" in options:
        options["HttpProtocolIpv6"] = options.pop("HttpProtocolIPv6")
    return {**_METADATA[node_class.generation_api], **options}


def _capitalized(options: Mapping[str, object]) -> dict[str, Any]:
    return {name[:1].upper() + name[1:]: v for name, v in options.items() if v is not None}


def _enclaves(machine: Machine, node_class: NodeClass) -> dict[str, Any]:
    """The class's own word; without one, enclaves are for machines whose pods ask for a sandbox (EC-14). Raises
    InvalidObject where the class denies what the pods ask for."""
    asks = machine.requests.get(NITRO_SANDBOX, 0) > 0
    if asks and node_class.enclave_options.get("enabled") is False:
        raise InvalidObject(
            f"is false, and pods ask for {NITRO_SANDBOX}; set it to true, or take it away",
            field="spec.enclaveOptions.enabled",
            reason="NitroEnclavesDisabled",
        )
    if asks and not node_class.enclave_options:
        return {"Enabled": True}
    return _capitalized(node_class.enclave_options)


def tenancy_of(machine: Machine) -> str:
    """Dedicated hardware only for a machine that takes nothing else (LCH-49)."""
    rule = Requirements.of(machine.requirements).get(TENANCY)
    is_dedicated = (
        rule is not None and not rule.has(DEFAULT_TENANCY) and rule.has(DEDICATED_TENANCY)
    )
    return DEDICATED_TENANCY if is_dedicated else DEFAULT_TENANCY


def partition_of(machine: Machine) -> str:
    """The partition that it was planned for; empty: EC2 chooses one (EC-06)."""
    decided = Requirements.of(machine.requirements).labels().get(keys.PARTITION, "")
    found = machine.labels.get(keys.PARTITION) or decided
    return found if found.isascii() and found.isdecimal() else ""


def _placement(machine: Machine, node_class: NodeClass) -> dict[str, Any]:
    """The class's group; dedicated hardware and a partition where the machine asks for them (EC-06, LCH-49)."""
    placement: dict[str, Any] = {}
    if tenancy_of(machine) == DEDICATED_TENANCY:
        placement["Tenancy"] = DEDICATED_TENANCY
    for name, key in (("GroupName", "name"), ("GroupId", "id")):
        if node_class.placement_group.get(key):
            placement[name] = node_class.placement_group[key]
    partition = partition_of(machine)
    if node_class.placement_group and partition:
        placement["PartitionNumber"] = int(partition)
    return placement


def _reservation(variant: Variant) -> dict[str, Any]:
    """A reservation is used by machines that were planned into it, and by no others (LCH-24)."""
    if not variant.reservation_id:
        return {"CapacityReservationSpecification": {"CapacityReservationPreference": "none"}}
    market = {"InstanceMarketOptions": {"MarketType": variant.market}} if variant.market else {}
    return {
        "CapacityReservationSpecification": {
            "CapacityReservationPreference": "capacity-reservations-only",
            "CapacityReservationTarget": {"CapacityReservationId": variant.reservation_id},
        },
        **market,
    }


def volumes(node_class: NodeClass) -> list[dict[str, Any]]:
    """BlockDeviceMappings: the class's own, or the family's. Raises InvalidObject."""
    mapped = [_volume(raw, index) for index, raw in enumerate(node_class.block_device_mappings)]
    return mapped or [
        {
            "DeviceName": device,
            "Ebs": {
                "VolumeSize": gib,
                "VolumeType": "gp3",
                "Encrypted": True,
                "DeleteOnTermination": True,
            },
        }
        for device, gib in _VOLUMES.get(node_class.ami_family, _USUAL_VOLUMES)
    ]


def _volume(raw: Mapping[str, Any], index: int) -> dict[str, Any]:
    ebs = raw.get("ebs") or {}
    field_name = f"spec.blockDeviceMappings[{index}].ebs.volumeSize"
    size = ebs.get("volumeSize")
    settings: dict[str, Any] = {
        "VolumeSize": None
        if size is None
        else math.ceil(parse_quantity(size, field=field_name) / 2**30),
        "VolumeType": ebs.get("volumeType"),
        "Iops": ebs.get("iops"),
        "Throughput": ebs.get("throughput"),
        "Encrypted": ebs.get("encrypted"),
        "KmsKeyId": ebs.get("kmsKeyID"),
        "DeleteOnTermination": ebs.get("deleteOnTermination"),
        "SnapshotId": ebs.get("snapshotID"),
        "VolumeInitializationRate": ebs.get("volumeInitializationRate"),
    }
    return {
        "DeviceName": raw.get("deviceName"),
        "Ebs": {name: value for name, value in settings.items() if value is not None},
    }


def instance_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-56: what the instances of a machine carry, whichever machine of its kind it is.

    Of the user's own tags only Name wins, and in v1alpha5 only.
    """
    owned = {cluster_tag(cluster): "owned"}
    if machine.api.own_tags:
        return {**node_class.tags, **owned, **v1_tags(machine, node_class, cluster)}
    return {
        NAME_TAG: f"karpenter.sh/provisioner-name/{machine.pool}",
        **node_class.tags,
        **owned,
        keys.PROVISIONER_NAME: machine.pool,
        keys.MANAGED_BY: cluster,
    }


def v1_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-23, LCH-56: the tags that say whose an instance or a template is. A machine without pool has an empty one."""
    return {
        keys.NODE_POOL: machine.pool,
        CLUSTER_NAME_TAG: cluster,
        keys.NODE_CLASS: node_class.name,
    }
