"""EventBridge: the rules that send to a queue, for ``dovetail interruption check``. Dovetail never changes a rule."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from shared.cloud.client.calls import AwsService


class Rule(msgspec.Struct, frozen=True):
    """``pattern``: the event pattern, empty when there is none or it is not JSON."""

    name: str
    enabled: bool
    pattern: dict[str, Any]

    def matches(self, source: str, detail_type: str) -> bool:
        """Whether the rule matches all events of this source and type; with further fields it matches only some."""
        if not self.enabled or not self.pattern or self.pattern.keys() - {"source", "detail-type"}:
            return False
        event = {"source": source, "detail-type": detail_type}
        return all(event[field] in (named or ()) for field, named in self.pattern.items())


class Events(AwsService):
    """The default event bus."""

    async def rules_of(self, target_arn: str) -> list[Rule]:
        """The rules that have this target. Raises Unauthorized."""
        names = await self._calls.pages(
            "list_rule_names_by_target", "RuleNames", TargetArn=target_arn
        )
        return [_rule(await self._calls.read("describe_rule", Name=name)) for name in names]


def _rule(raw: dict[str, Any]) -> Rule:
    try:
        pattern = json.loads(raw.get("EventPattern") or "{}")
    except ValueError:
        pattern = {}
    return Rule(
        str(raw.get("Name") or ""),
        raw.get("State") != "DISABLED",
        pattern if isinstance(pattern, dict) else {},
    )
