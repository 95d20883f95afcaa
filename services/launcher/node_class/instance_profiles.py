"""The instance profile of a node class: the one it names, or one that is made for its role (EC-07, EC-21).

The name of a made profile holds a hash of region, class and role: a changed role gets a profile of its own while
machines with the old one still run. All of them go when the class goes.

What may go wrong: a role or a profile that does not exist raises ``InvalidObject``; missing IAM permissions raise
``Unauthorized``.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from services.launcher.ports import Ports
from shared.cloud.ec2.ownership import CLUSTER_NAME_TAG, cluster_tag
from shared.cloud.iam import InstanceProfile
from shared.domain import labels as keys
from shared.domain.pools.nodepools import NodeClass
from shared.errors import InvalidObject, NotFound, Unauthorized
from shared.log import get_logger

log = get_logger(__name__)

NOT_FOUND = "InstanceProfileNotFound"
PROFILE_FRESH_SECONDS = 900.0
"""How long a profile counts as there (LCH-90)."""
MOST_PROFILES_KNOWN = 1000


def profile_name(cluster: str, region: str, uid: str, role: str) -> str:
    """``<cluster>_<hash>``: at most 121 of the 128 characters that IAM takes."""
    digest = hashlib.sha256("|".join((region, uid, role)).encode()).digest()
    return f"{cluster}_{int.from_bytes(digest[:8], 'big')}"


def profile_path(cluster: str, region: str, uid: str) -> str:
    """Where all profiles of one class are."""
    return f"/karpenter/{region}/{cluster}/{uid}/"


@dataclass
class InstanceProfiles:
    ports: Ports
    _seen: dict[str, float] = field(default_factory=dict)

    async def resolve(self, node_class: NodeClass) -> str:
        """The name of the profile that its machines get; empty for none. Raises InvalidObject."""
        name = self.name_of(node_class)
        since = self._seen.get(name)
        if not name or (
            since is not None and self.ports.clock.monotonic() - since < PROFILE_FRESH_SECONDS
        ):
            return name
        if node_class.role and not node_class.instance_profile:
            await self._ensure(name, node_class)
        else:
            await self._check(name)
        if len(self._seen) >= MOST_PROFILES_KNOWN:
            self._seen.clear()
        self._seen[name] = self.ports.clock.monotonic()
        return name

    async def delete_all(self, uid: str) -> None:
        """Delete every profile that was made for this class."""
        path = profile_path(self.ports.settings.cluster_name, self.ports.settings.aws_region, uid)
        for profile in await self.ports.cloud.iam.instance_profiles(path):
            await self.delete(profile)

    async def made(self) -> list[InstanceProfile]:
        """Every profile that was made for any class of this cluster."""
        path = profile_path(self.ports.settings.cluster_name, self.ports.settings.aws_region, "")
        return await self.ports.cloud.iam.instance_profiles_below(path.rstrip("/") + "/")

    async def delete(self, profile: InstanceProfile) -> None:
        """Take it away, and believe no longer that it is there."""
        self._seen.pop(profile.name, None)
        await self.ports.cloud.iam.delete_instance_profile(profile)

    def name_of(self, node_class: NodeClass) -> str:
        """Empty for none (T-05, EC-07)."""
        if node_class.instance_profile:
            return node_class.instance_profile
        if not node_class.api.class_makes_profile:
            return self.ports.settings.default_instance_profile
        cluster, region = self.ports.settings.cluster_name, self.ports.settings.aws_region
        return profile_name(cluster, region, node_class.uid, node_class.role)

    async def _ensure(self, name: str, node_class: NodeClass) -> None:
        cluster, region = self.ports.settings.cluster_name, self.ports.settings.aws_region
        tags = {
            **node_class.tags,
            cluster_tag(cluster): "owned",
            CLUSTER_NAME_TAG: cluster,
            keys.NODE_CLASS: node_class.name,
            keys.REGION: region,
        }
        path = profile_path(cluster, region, node_class.uid)
        try:
            await self.ports.cloud.iam.ensure_instance_profile(
                name, role=node_class.role, path=path, tags=tags
            )
        except NotFound as error:
            raise InvalidObject(
                f"IAM has no role {node_class.role}; create it, or name another",
                field="spec.role",
                reason=NOT_FOUND,
            ) from error

    async def _check(self, name: str) -> None:
        try:
            await self.ports.cloud.iam.instance_profile(name)
        except Unauthorized as error:
            # Who makes profiles outside may keep IAM closed to us: EC2 judges the name then.
            log.warning("cannot check the instance profile", profile=name, error=error.message)
        except NotFound as error:
            raise InvalidObject(
                f"IAM has no instance profile {name}; create it, or name another",
                field="spec.instanceProfile",
                reason=NOT_FOUND,
            ) from error
