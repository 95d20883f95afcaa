"""TagSpecifications of a request: the tags of each resource type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local.aws.ec2.refusal import RequestRefused

TAG_LIMIT = 50


@dataclass(frozen=True, slots=True)
class TagSpecifications:
    """Tags per resource type; types that this emulator does not create are accepted and unused."""

    instance: dict[str, str] = field(default_factory=dict)
    volume: dict[str, str] = field(default_factory=dict)
    fleet: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, rows: Iterable[Mapping[str, Any]]) -> TagSpecifications:
        """Read [{ResourceType, Tags: [{Key, Value}]}]. Raises RequestRefused for more than 50 tags."""
        found: dict[str, dict[str, str]] = {"instance": {}, "volume": {}, "fleet": {}}
        for row in rows:
            tags = {tag["Key"]: tag.get("Value") or "" for tag in row.get("Tags") or []}
            if len(tags) > TAG_LIMIT:
                raise RequestRefused(
                    "TagLimitExceeded", f"At most {TAG_LIMIT} tags per resource, not {len(tags)}"
                )
            found.setdefault(str(row.get("ResourceType")), {}).update(tags)
        return cls(found["instance"], found["volume"], found["fleet"])

    def merged_over(self, template_rows: Iterable[Mapping[str, Any]]) -> TagSpecifications:
        """These tags merged over those of the launch template, which they override."""
        template = TagSpecifications.parse(template_rows)
        return TagSpecifications(
            instance={**template.instance, **self.instance},
            volume={**template.volume, **self.volume},
            fleet=dict(self.fleet),
        )
