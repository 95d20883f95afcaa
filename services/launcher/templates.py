"""Launch templates by content hash (LCH-20..26): equal settings share one, a changed setting makes another.

One template per (image, number of pods), because both are in the user data (LCH-21).
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from services.launcher.fleet import Choice, Template, cluster_tag, v1_tags
from services.launcher.node_classes import NodeClasses, Resolved
from shared.cloud.session import Cloud
from shared.cloud.user_data import (
    Bootstrap,
    al2_user_data,
    al2023_user_data,
    boot_taints,
    kubelet_labels,
)
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.domain.nodepools import V1, NodeClass
from shared.domain.requirements import Requirements
from shared.domain.resources import PODS, parse_quantity
from shared.errors import InvalidObject
from shared.settings import LauncherSettings

_DEFAULT_METADATA = {
    "HttpEndpoint": "enabled",
    "HttpProtocolIpv6": "disabled",
    "HttpPutResponseHopLimit": 2,
    "HttpTokens": "required",
}
"""T-08."""
_DEFAULT_METADATA_V1 = {
    **_DEFAULT_METADATA,
    "HttpPutResponseHopLimit": 1,
    "InstanceMetadataTags": "disabled",
}
"""EC-13, LCH-24."""
_DEFAULT_VOLUME = {
    "DeviceName": "/dev/xvda",
    "Ebs": {"VolumeSize": 20, "VolumeType": "gp3", "Encrypted": True, "DeleteOnTermination": True},
}
MOST_KNOWN = 1000
LONGEST_CLUSTER_PART = 90
"""EC2 allows 128 characters in a template's name, EKS 100 in a cluster's."""


def boot_labels(machine: Machine) -> dict[str, str]:
    """LCH-37: the Machine's labels and what its requirements decided, as far as a kubelet may set them."""
    decided = Requirements.of(machine.requirements).labels()
    # The kubelet and the cloud provider know the instance better than the plan did.
    known = (keys.INSTANCE_TYPE, keys.ZONE, keys.REGION, keys.ARCH, keys.OS)
    labels = {k: v for k, v in {**decided, **machine.labels}.items() if k not in known}
    return kubelet_labels(labels)


def template_name(cluster: str, data: Mapping[str, Any]) -> str:
    """LCH-20 [5]: the same data has the same name, for ever."""
    return f"Karpenter-{cluster[:LONGEST_CLUSTER_PART]}-{_digest(data)}"


def template_name_v1(data: Mapping[str, Any], tags: Mapping[str, str]) -> str:
    """LCH-20 [1]. The tags count, so that no two clusters or classes share one: it goes with its class (LCH-22)."""
    return f"karpenter.k8s.aws/{_digest({'data': data, 'tags': tags})}"


def _digest(value: Mapping[str, Any]) -> int:
    digest = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return int(digest[:16], 16)


def template_tags(machine: Machine, node_class: NodeClass, cluster: str) -> dict[str, str]:
    """LCH-23."""
    if node_class.generation_api == V1:
        owner = v1_tags(machine, node_class, cluster)
    else:
        owner = {"karpenter.k8s.aws/cluster": cluster}
    return {**node_class.tags, cluster_tag(cluster): "owned", **owner}


def template_data(resolved: Resolved, image: str, profile: str, user_data: str) -> dict[str, Any]:
    """LCH-24. Raises InvalidObject for a volume size that is no quantity."""
    node_class = resolved.node_class
    volumes = _volumes(node_class)
    return {
        "ImageId": image,
        "UserData": base64.b64encode(user_data.encode()).decode(),
        **_network(resolved),
        "MetadataOptions": _metadata_options(node_class),
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        **({"BlockDeviceMappings": volumes} if volumes else {}),
        **({"IamInstanceProfile": {"Name": profile}} if profile else {}),
    }


def _network(resolved: Resolved) -> dict[str, Any]:
    """LCH-14: only an interface can carry the wish for a public address, and it has the groups then."""
    groups = sorted(group.id for group in resolved.security_groups)
    public = resolved.node_class.associate_public_ip
    prefixes = resolved.node_class.ip_prefix_count
    if public is None and prefixes is None:
        return {"SecurityGroupIds": groups}
    interface: dict[str, Any] = {"DeviceIndex": 0, "Groups": groups}
    if public is not None:
        interface["AssociatePublicIpAddress"] = public
    if prefixes is not None:
        interface["Ipv4PrefixCount"] = prefixes
    return {"NetworkInterfaces": [interface]}


def _metadata_options(node_class: NodeClass) -> dict[str, Any]:
    options = {key[:1].upper() + key[1:]: v for key, v in node_class.metadata_options.items()}
    if "HttpProtocolIPv6" in options:
        options["HttpProtocolIpv6"] = options.pop("HttpProtocolIPv6")
    defaults = _DEFAULT_METADATA_V1 if node_class.generation_api == V1 else _DEFAULT_METADATA
    return {**defaults, **options}


def _volumes(node_class: NodeClass) -> list[dict[str, Any]]:
    """The class's own, or the family's. A custom image knows its devices itself."""
    mapped = [_volume(raw, index) for index, raw in enumerate(node_class.block_device_mappings)]
    return mapped or ([] if node_class.ami_family == "Custom" else [_DEFAULT_VOLUME])


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


@dataclass
class Templates:
    """Makes the templates a launch needs, all at once, and remembers those that exist."""

    cloud: Cloud
    node_classes: NodeClasses
    settings: LauncherSettings
    _known: dict[str, Template] = field(default_factory=dict)

    async def ensure(
        self, machine: Machine, resolved: Resolved, choices: Iterable[Choice]
    ) -> list[Template]:
        """Templates that together start every chosen type. Raises InvalidObject."""
        groups: dict[tuple[str, int], set[str]] = defaultdict(set)
        for choice in choices:
            arch = choice.type.labels.get(keys.ARCH, ("amd64",))[0]
            if image := resolved.images.get(arch):
                groups[image, choice.type.capacity.get(PODS, 0)].add(choice.type.name)
        if not groups:
            raise InvalidObject(
                "no image suits the architectures that are asked for", field="spec.amiSelector"
            )
        return list(
            await asyncio.gather(
                *(
                    self._one(machine, resolved, image, pods, frozenset(types))
                    for (image, pods), types in sorted(groups.items())
                )
            )
        )

    def forget(self) -> None:
        """LCH-25: EC2 says that a template is gone; make them again."""
        self._known.clear()

    async def _one(
        self, machine: Machine, resolved: Resolved, image: str, pods: int, types: frozenset[str]
    ) -> Template:
        node_class = resolved.node_class
        user_data = await self._user_data(machine, node_class, pods)
        data = template_data(resolved, image, resolved.profile, user_data)
        cluster = self.settings.cluster_name
        tags = template_tags(machine, node_class, cluster)
        v1 = node_class.generation_api == V1
        name = template_name_v1(data, tags) if v1 else template_name(cluster, data)
        known = self._known.get(name)
        if known is None:
            made = await self.cloud.ec2.ensure_launch_template(name, data, tags)
            known = Template(made.id, made.version, image, types)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[name] = known
        return Template(known.id, known.version, image, types)

    async def _user_data(self, machine: Machine, node_class: NodeClass, pods: int) -> str:
        if node_class.ami_family == "Custom":
            return node_class.user_data
        cluster = await self.node_classes.cluster()
        kubelet = node_class.kubelet if node_class.generation_api == V1 else machine.kubelet
        taints = [(t.key, t.value, t.effect) for t in (*machine.taints, *machine.startup_taints)]
        bootstrap = Bootstrap(
            cluster_name=self.settings.cluster_name,
            endpoint=self.settings.cluster_endpoint or cluster.endpoint,
            ca_bundle=self.settings.cluster_ca_bundle or cluster.certificate_authority,
            dns_ip=dns_address(kubelet),
            labels=boot_labels(machine),
            taints=boot_taints(taints),
            max_pods=pods,
            kubelet=dict(kubelet),
            user_data=node_class.user_data or None,
            service_cidr=cluster.service_cidr,
            raid0_instance_store=node_class.instance_store_policy == "RAID0",
        )
        return (al2023_user_data if node_class.ami_family == "AL2023" else al2_user_data)(bootstrap)


def dns_address(kubelet: Mapping[str, Any]) -> str | None:
    """The first of kubelet.clusterDNS, which bootstrap.sh takes as an argument of its own (LCH-30)."""
    addresses = kubelet.get("clusterDNS")
    return str(addresses[0]) if isinstance(addresses, list | tuple) and addresses else None
