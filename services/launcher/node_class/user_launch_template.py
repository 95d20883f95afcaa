"""A launch template that the user keeps, which an AWSNodeTemplate names: used as it is, at its newest version (T-07).

What may go wrong: it does not exist, or names no image that exists. Both errors name the field, so that the class
shows them.
"""

from __future__ import annotations

import msgspec

from services.launcher.node_class.images import boot_images
from services.launcher.resolved_class import BootImage
from shared.cloud.client.session import Cloud
from shared.cloud.ec2.records import LaunchTemplate
from shared.domain.pools.nodepools import SelectorTerm
from shared.errors import InvalidObject, NotFound

FIELD = "spec.launchTemplate"
NOT_FOUND = "LaunchTemplateNotFound"
SSM_PREFIX = "resolve:ssm:"
"""EC2 reads the image's id at this parameter."""


class UserLaunchTemplate(msgspec.Struct, frozen=True):
    """``template.version`` is the newest: launches pin it. ``images`` has the one that it starts."""

    template: LaunchTemplate
    images: tuple[BootImage, ...]


async def find(cloud: Cloud, name: str) -> UserLaunchTemplate:
    """The template of this name. Raises InvalidObject when it cannot be launched from, and Unauthorized."""
    try:
        template = await cloud.launch_templates.named(name)
        written = await cloud.launch_templates.data(template)
    except NotFound as error:
        raise InvalidObject(
            f"EC2 has no launch template {name}; make it, or name another",
            field=FIELD,
            reason=NOT_FOUND,
        ) from error
    said = str(written.get("ImageId") or "")
    if not said:
        raise InvalidObject(f"launch template {name} names no image; give it one", field=FIELD)
    images = await cloud.ec2.images([SelectorTerm(id=await _image_id(cloud, name, said))])
    found = boot_images(images, {})
    if not found:
        raise InvalidObject(
            f"the image {said} of launch template {name} does not exist; give it another",
            field=FIELD,
        )
    return UserLaunchTemplate(template, found)


async def _image_id(cloud: Cloud, name: str, said: str) -> str:
    if not said.startswith(SSM_PREFIX):
        return said
    try:
        return await cloud.ssm.parameter(said.removeprefix(SSM_PREFIX))
    except NotFound as error:
        raise InvalidObject(
            f"launch template {name} takes its image from {said}, which SSM does not have",
            field=FIELD,
        ) from error
