"""Finds what a node class selects in AWS, keeps it for a minute, and writes it to the class's status (T-12).

What may go wrong: a selector that finds nothing, a family without an image. The class then gets a Ready=False
condition and an event which name the field; the planner skips its pools; other classes go on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.api.machines import condition_objects, parse_conditions, with_condition
from shared.api.node_templates import READY, parse_node_template
from shared.api.references import to_object
from shared.clock import Clock
from shared.cloud.eks import EksCluster
from shared.cloud.records import SecurityGroup, Subnet
from shared.cloud.session import Cloud
from shared.domain.machines import Condition
from shared.domain.nodepools import NodeClass
from shared.errors import Conflict, InvalidObject, NotFound
from shared.kube.client import Kube
from shared.kube.recorder import Recorder
from shared.kube.resources import AWS_NODE_TEMPLATES
from shared.log import get_logger
from shared.settings import LauncherSettings

log = get_logger(__name__)

FRESH_SECONDS = 60.0
"""LCH-10, LCH-13: how long a discovery is used."""
ARCHITECTURES = {"amd64": "x86_64", "arm64": "arm64"}
_SSM_PATHS = {
    "AL2": {
        "amd64": "/aws/service/eks/optimized-ami/{version}/amazon-linux-2/recommended/image_id",
        "arm64": "/aws/service/eks/optimized-ami/{version}/amazon-linux-2-arm64/recommended/image_id",
    },
    "AL2023": {
        arch: "/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/"
        + name
        + "/standard/recommended/image_id"
        for arch, name in ARCHITECTURES.items()
    },
}
"""LCH-02, LCH-03."""
Json = Mapping[str, Any]


class Resolved(msgspec.Struct, frozen=True):
    """What a class stands for in AWS now."""

    node_class: NodeClass
    subnets: tuple[Subnet, ...]
    security_groups: tuple[SecurityGroup, ...]
    images: dict[str, str]
    """Kubernetes architecture -> image id."""

    def subnet_by_zone(self) -> dict[str, str]:
        """LCH-11: per zone the subnet with most free addresses."""
        best: dict[str, Subnet] = {}
        for subnet in self.subnets:
            known = best.get(subnet.zone)
            if known is None or (subnet.available_ips, subnet.id) > (known.available_ips, known.id):
                best[subnet.zone] = subnet
        return {zone: subnet.id for zone, subnet in best.items()}


@dataclass
class NodeClasses:
    """Resolves classes by name."""

    kube: Kube
    cloud: Cloud
    clock: Clock
    recorder: Recorder
    settings: LauncherSettings
    _cluster: EksCluster | None = None
    _known: dict[str, tuple[float, Resolved]] = field(default_factory=dict)

    async def cluster(self) -> EksCluster:
        """The EKS cluster: version for images, endpoint and CA for user data. Asked once."""
        if self._cluster is None:
            self._cluster = await self.cloud.eks.cluster(self.settings.cluster_name)
            log.info("discovered kubernetes version", kubernetes_version=self._cluster.version)
        return self._cluster

    async def resolve(self, name: str) -> Resolved:
        """The class with its subnets, groups and images. Raises NotFound and InvalidObject."""
        held = self._known.get(name)
        if held is not None and self.clock.monotonic() - held[0] < FRESH_SECONDS:
            return held[1]
        return await self._resolve(await self.kube.get(AWS_NODE_TEMPLATES, name))

    async def refresh_all(self) -> None:
        """Bring every class's status up to date."""
        listed = await self.kube.list(AWS_NODE_TEMPLATES)
        self._known = {
            name: held
            for name, held in self._known.items()
            if any(raw["metadata"]["name"] == name for raw in listed.items)
        }
        for raw in listed.items:
            await self.refresh(raw)

    async def refresh_one(self, name: str) -> None:
        """After an edit: forget what was known."""
        self._known.pop(name, None)
        try:
            await self.refresh(await self.kube.get(AWS_NODE_TEMPLATES, name))
        except NotFound:
            return

    async def refresh(self, raw: Json) -> None:
        """Resolve one stored class and write what was found, or why not, to its status."""
        _, faults = parse_node_template(raw)
        if faults:
            return  # the watcher says so on the object
        try:
            resolved = await self._resolve(raw)
        except InvalidObject as error:
            await self._refuse(raw, str(error))
            return
        status = {
            "subnets": [{"id": s.id, "zone": s.zone} for s in resolved.subnets],
            "securityGroups": [{"id": g.id} for g in resolved.security_groups],
            "amis": [
                {
                    "id": image,
                    "requirements": [
                        {"key": "kubernetes.io/arch", "operator": "In", "values": [arch]}
                    ],
                }
                for arch, image in sorted(resolved.images.items())
            ],
        }
        await self._write(raw, status, Condition("True", READY, "", self.clock.now()))

    async def _resolve(self, raw: Json) -> Resolved:
        node_class, faults = parse_node_template(raw)
        if faults:
            raise InvalidObject("; ".join(faults), field=f"AWSNodeTemplate {node_class.name}")
        subnets = await self.cloud.ec2.subnets(node_class.subnet_selector)
        if not subnets:
            raise InvalidObject(
                f"no subnet has {_shown(node_class.subnet_selector)}; tag the subnets or mend the selector",
                field="spec.subnetSelector",
            )
        groups = await self.cloud.ec2.security_groups(node_class.security_group_selector)
        if not groups:
            raise InvalidObject(
                f"no security group has {_shown(node_class.security_group_selector)}; "
                "tag a group or mend the selector",
                field="spec.securityGroupSelector",
            )
        images = await self._images(node_class)
        resolved = Resolved(node_class, tuple(subnets), tuple(groups), images)
        self._known[node_class.name] = (self.clock.monotonic(), resolved)
        return resolved

    async def _images(self, node_class: NodeClass) -> dict[str, str]:
        """Per architecture the newest image (LCH-08), selected or by the family's SSM path."""
        if node_class.ami_selector:
            selected = await self.cloud.ec2.images(node_class.ami_selector)
            found: dict[str, str] = {}
            for image in selected:
                for arch, name in ARCHITECTURES.items():
                    if image.architecture == name:
                        found.setdefault(arch, image.id)
            if not found:
                raise InvalidObject(
                    f"no image has {_shown(node_class.ami_selector)}", field="spec.amiSelector"
                )
            return found
        paths = _SSM_PATHS.get(node_class.ami_family)
        if paths is None:
            raise InvalidObject(
                f"family {node_class.ami_family} needs an amiSelector in this version; "
                f"without one use {' or '.join(_SSM_PATHS)}",
                field="spec.amiFamily",
            )
        version = (await self.cluster()).version
        return {
            arch: await self._parameter(path.format(version=version))
            for arch, path in paths.items()
        }

    async def _parameter(self, path: str) -> str:
        try:
            return await self.cloud.ssm.parameter(path)
        except NotFound as error:
            raise InvalidObject(
                f"SSM has no image at {path}; is this Kubernetes version still supported?",
                field="spec.amiFamily",
            ) from error

    async def _refuse(self, raw: Json, message: str) -> None:
        meta = raw["metadata"]
        log.warning("node class is not ready", node_class=meta["name"], reason=message)
        await self.recorder.publish(
            to_object(raw), "Warning", "NodeClassNotReady", message, dedupe_seconds=300
        )
        condition = Condition("False", "NodeClassNotReady", message, self.clock.now())
        await self._write(raw, {"subnets": [], "securityGroups": [], "amis": []}, condition)

    async def _write(self, raw: Json, status: dict[str, Any], condition: Condition) -> None:
        old = raw.get("status") or {}
        conditions = with_condition(parse_conditions(old.get("conditions")), READY, condition)
        wanted = {**status, "conditions": condition_objects(conditions)}
        if all(old.get(name) == value for name, value in wanted.items()):
            return
        try:
            await self.kube.patch(
                AWS_NODE_TEMPLATES,
                raw["metadata"]["name"],
                {
                    "metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]},
                    "status": wanted,
                },
                subresource="status",
            )
        except (NotFound, Conflict):
            log.debug("node class changed meanwhile", node_class=raw["metadata"]["name"])


def _shown(selector: Mapping[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(selector.items()))
