"""DescribeLaunchTemplates in pages: moto answers fifteen templates and drops the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from local.aws.ec2.filters import page
from local.aws.emulator import Emulator

PAGE = 200


def describe_launch_templates(
    emulator: Emulator, region: str, parameters: Mapping[str, Any]
) -> dict[str, Any]:
    """The templates by names, ids and filters, oldest first. Raises RequestRefused and moto's own errors for unknown
    ones.
    """
    filters = {row["Name"]: row.get("Values") or [] for row in parameters.get("Filters") or []}
    found = emulator.ec2(region).describe_launch_templates(
        template_names=parameters.get("LaunchTemplateNames") or [],
        template_ids=parameters.get("LaunchTemplateIds") or [],
        filters=filters,
    )
    shown, token = page(found, parameters, PAGE)
    return {"LaunchTemplates": [_row(template) for template in shown], "NextToken": token}


def _row(template: Any) -> dict[str, Any]:
    return {
        "CreateTime": template.create_time,
        "DefaultVersionNumber": template.default_version_number,
        "LatestVersionNumber": template.latest_version_number,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Tags": template.get_tags(),
    }
