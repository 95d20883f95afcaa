"""IAM: the instance profiles that Dovetail creates for node classes with a role (EC-21).

Every write is idempotent. What may go wrong: IAM is eventually consistent, so EC2 may not know a new profile for some
seconds; a role that does not exist is ``NotFound``.
"""

from __future__ import annotations

import msgspec

from shared.cloud.client.calls import MAXIMUM_PAGES, AwsService, Json
from shared.cloud.ec2.records import tags_to
from shared.errors import AlreadyExists, DovetailError, NotFound, Unavailable
from shared.log import get_logger

log = get_logger(__name__)


class InstanceProfile(msgspec.Struct, frozen=True):
    """``roles``: the names of its roles; IAM allows at most one."""

    name: str
    path: str
    roles: tuple[str, ...]


class Iam(AwsService):
    """Calls on IAM, which is one service for all regions of a partition."""

    async def instance_profile(self, name: str) -> InstanceProfile:
        """The instance profile of this name. Raises NotFound."""
        answer = await self._calls.read("get_instance_profile", InstanceProfileName=name)
        return _profile_from(answer["InstanceProfile"])

    async def instance_profiles(self, path: str) -> list[InstanceProfile]:
        """The profiles whose path is exactly ``path``, which begins and ends with a slash."""
        return [one for one in await self.instance_profiles_below(path) if one.path == path]

    async def instance_profiles_below(self, path: str) -> list[InstanceProfile]:
        """The profiles whose path begins with ``path``."""
        found: list[InstanceProfile] = []
        position: Json = {}
        for _ in range(MAXIMUM_PAGES):
            answer = await self._calls.read("list_instance_profiles", PathPrefix=path, **position)
            found += map(_profile_from, answer.get("InstanceProfiles") or ())
            if not answer.get("IsTruncated"):
                return [profile for profile in found if profile.path.startswith(path)]
            if not answer.get("Marker"):
                raise Unavailable(
                    "list_instance_profiles returned a truncated list without a marker"
                )
            position = {"Marker": answer["Marker"]}
        raise Unavailable(f"list_instance_profiles returned more than {MAXIMUM_PAGES} pages")

    async def ensure_instance_profile(
        self, name: str, *, role: str, path: str, tags: dict[str, str]
    ) -> None:
        """Create or correct the profile of this name, so that it holds only this role. Raises NotFound for the role."""
        profile = await self._found_or_made(name, path, tags)
        for other in profile.roles:
            if other != role:
                await self._remove_role(name, other)
        if role not in profile.roles:
            await self._add_role(name, role)

    async def _add_role(self, name: str, role: str) -> None:
        try:
            await self._calls.write(
                "add_role_to_instance_profile", InstanceProfileName=name, RoleName=role
            )
        except DovetailError as error:
            # A profile holds one role: another launcher may have added it since the profile was read.
            full = error.context.get("code") == "LimitExceeded"
            if not full or role not in (await self.instance_profile(name)).roles:
                raise

    async def _found_or_made(self, name: str, path: str, tags: dict[str, str]) -> InstanceProfile:
        try:
            return await self.instance_profile(name)
        except NotFound:
            log.debug("instance profile is missing, making it", instance_profile=name)
        try:
            answer = await self._calls.write(
                "create_instance_profile", InstanceProfileName=name, Path=path, Tags=tags_to(tags)
            )
        except AlreadyExists:
            return await self.instance_profile(name)
        log.info("created instance profile", instance_profile=name)
        return _profile_from(answer["InstanceProfile"])

    async def delete_instance_profile(self, profile: InstanceProfile) -> None:
        """Remove its roles (IAM deletes only empty profiles) and delete it. An absent profile is not an error."""
        for role in profile.roles:
            await self._remove_role(profile.name, role)
        try:
            await self._calls.write("delete_instance_profile", InstanceProfileName=profile.name)
        except NotFound:
            return
        log.info("deleted instance profile", instance_profile=profile.name)

    async def _remove_role(self, name: str, role: str) -> None:
        try:
            await self._calls.write(
                "remove_role_from_instance_profile", InstanceProfileName=name, RoleName=role
            )
        except NotFound:
            log.debug("role is out already", instance_profile=name, role=role)


def _profile_from(item: Json) -> InstanceProfile:
    return InstanceProfile(
        name=item["InstanceProfileName"],
        path=item.get("Path", "/"),
        roles=tuple(role["RoleName"] for role in item.get("Roles") or ()),
    )
