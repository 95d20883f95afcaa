"""DescribeLaunchTemplates in pages: moto answers fifteen templates and drops the rest."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
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
    known = [template for template in found if is_known(emulator, template)]
    shown, token = page(known, parameters, PAGE)
    return {"LaunchTemplates": [_row(template) for template in shown], "NextToken": token}


def is_known(emulator: Emulator, template: Any) -> bool:
    """Whether calls know one of moto's templates already: EC2 is eventually consistent."""
    seconds = emulator.behaviour.template_lag_seconds
    if seconds <= 0:
        return True
    created: float = template.create_time.replace(tzinfo=UTC).timestamp()
    return emulator.clock.now() >= created + seconds


def _row(template: Any) -> dict[str, Any]:
    return {
        "CreateTime": template.create_time,
        "DefaultVersionNumber": template.default_version_number,
        "LatestVersionNumber": template.latest_version_number,
        "LaunchTemplateId": template.id,
        "LaunchTemplateName": template.name,
        "Tags": template.get_tags(),
    }
