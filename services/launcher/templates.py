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

from services.launcher.fleet import Choice, Template, cluster_tag
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
    digest = hashlib.sha256(orjson.dumps(data, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return f"Karpenter-{cluster[:LONGEST_CLUSTER_PART]}-{int(digest[:16], 16)}"


def template_data(resolved: Resolved, image: str, profile: str, user_data: str) -> dict[str, Any]:
    """LCH-24. Raises InvalidObject for a volume size that is no quantity."""
    node_class = resolved.node_class
    metadata = {key[:1].upper() + key[1:]: v for key, v in node_class.metadata_options.items()}
    if "HttpProtocolIPv6" in metadata:
        metadata["HttpProtocolIpv6"] = metadata.pop("HttpProtocolIPv6")
    volumes = [
        _volume(raw, index) for index, raw in enumerate(node_class.block_device_mappings)
    ] or [_DEFAULT_VOLUME]
    return {
        "ImageId": image,
        "UserData": base64.b64encode(user_data.encode()).decode(),
        "SecurityGroupIds": sorted(group.id for group in resolved.security_groups),
        "MetadataOptions": {**_DEFAULT_METADATA, **metadata},
        "BlockDeviceMappings": volumes,
        "Monitoring": {"Enabled": node_class.detailed_monitoring},
        **({"IamInstanceProfile": {"Name": profile}} if profile else {}),
    }


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
        profile = node_class.instance_profile or self.settings.default_instance_profile
        user_data = await self._user_data(
            machine, node_class.ami_family, node_class.user_data, pods
        )
        data = template_data(resolved, image, profile, user_data)
        name = template_name(self.settings.cluster_name, data)
        known = self._known.get(name)
        if known is None:
            tags = {
                **node_class.tags,
                cluster_tag(self.settings.cluster_name): "owned",
                "karpenter.k8s.aws/cluster": self.settings.cluster_name,
            }
            made = await self.cloud.ec2.ensure_launch_template(name, data, tags)
            known = Template(made.id, made.version, types)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            self._known[name] = known
        return Template(known.id, known.version, types)

    async def _user_data(self, machine: Machine, family: str, extra: str, pods: int) -> str:
        if family == "Custom":
            return extra
        cluster = await self.node_classes.cluster()
        taints = [(t.key, t.value, t.effect) for t in (*machine.taints, *machine.startup_taints)]
        bootstrap = Bootstrap(
            cluster_name=self.settings.cluster_name,
            endpoint=self.settings.cluster_endpoint or cluster.endpoint,
            ca_bundle=self.settings.cluster_ca_bundle or cluster.certificate_authority,
            dns_ip=None,
            labels=boot_labels(machine),
            taints=boot_taints(taints),
            max_pods=pods,
            kubelet=dict(machine.kubelet),
            user_data=extra or None,
            service_cidr=cluster.service_cidr,
        )
        return (al2023_user_data if family == "AL2023" else al2_user_data)(bootstrap)
