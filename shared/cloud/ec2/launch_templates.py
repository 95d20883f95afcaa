"""EC2 launch templates: created once, found by name or tags, deleted by id (LCH-20..25, T-07).

What may go wrong: another client deletes a template at any time. Deleting an absent template succeeds; a launch with
one fails in ``Ec2.create_fleet`` (LCH-25).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from shared.cloud.client.calls import AwsService, Json
from shared.cloud.ec2.records import (
    LaunchTemplate,
    launch_template_from,
    tag_specification,
)
from shared.cloud.ec2.selectors import tag_filters
from shared.errors import AlreadyExists, NotFound, Unavailable
from shared.log import get_logger

log = get_logger(__name__)

CREATE_ATTEMPTS = 2


class TemplateNotListed(Unavailable):
    """The name of the template is taken, but EC2 does not list it: its lists are behind, or somebody deletes it now."""

    def __init__(self, name: str) -> None:
        super().__init__(f"EC2 has launch template {name} and does not list it yet", name=name)


class LaunchTemplates(AwsService):
    """Calls on one region's launch templates. Every method may raise the errors of ``shared.cloud.client.errors``."""

    async def ensure(
        self, name: str, data: Json, tags: dict[str, str]
    ) -> tuple[LaunchTemplate, bool]:
        """The template of this name, and whether it was created now. The name contains the hash of ``data`` (LCH-20).

        The SDK chooses the ClientToken: with a fixed one EC2 would return a template that was deleted since. Raises
        TemplateNotListed.
        """
        for _ in range(CREATE_ATTEMPTS):
            try:
                return await self._create(name, data, tags), True
            except AlreadyExists:
                # Another launcher may delete it between the two calls.
                with suppress(NotFound):
                    return await self.named(name), False
        raise TemplateNotListed(name)

    async def _create(self, name: str, data: Json, tags: dict[str, str]) -> LaunchTemplate:
        answer = await self._calls.write(
            "create_launch_template",
            launching=True,
            LaunchTemplateName=name,
            LaunchTemplateData=data,
            TagSpecifications=[tag_specification("launch-template", tags)],
        )
        return launch_template_from(answer["LaunchTemplate"])

    async def named(self, name: str) -> LaunchTemplate:
        """The template of this name. Raises NotFound."""
        found = await self._calls.pages(
            "describe_launch_templates", "LaunchTemplates", LaunchTemplateNames=[name]
        )
        if not found:
            raise NotFound(f"there is no launch template {name}", name=name)
        return launch_template_from(found[0])

    async def data(self, template: LaunchTemplate) -> Json:
        """The content of ``template.version``. Raises NotFound."""
        answer = await self._calls.read(
            "describe_launch_template_versions",
            LaunchTemplateId=template.id,
            Versions=[str(template.version)],
        )
        for version in answer.get("LaunchTemplateVersions") or ():
            content: Json = version["LaunchTemplateData"]
            return content
        raise NotFound(f"launch template {template.name} has no version {template.version}")

    async def tagged(self, tags: Mapping[str, str]) -> list[LaunchTemplate]:
        """Templates that carry all ``tags``, by name; ``*`` as value means the key exists (LCH-22)."""
        items = await self._calls.pages(
            "describe_launch_templates", "LaunchTemplates", Filters=tag_filters(tags)
        )
        return sorted((launch_template_from(i) for i in items), key=lambda t: t.name)

    async def delete(self, template: LaunchTemplate) -> None:
        """Delete by id, so that a newer template of the same name stays. An absent template is not an error."""
        try:
            await self._calls.write("delete_launch_template", LaunchTemplateId=template.id)
        except NotFound:
            log.debug("launch template is gone already", launch_template_name=template.name)
