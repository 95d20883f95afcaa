"""DescribeInstances and TerminateInstances by id, merged across callers (LCH-55).

Hundreds of drains call EC2 at the same time for one instance each, and EC2 would throttle them. Calls are collected
until none arrived for 0.1 s, for at most 1 s and at most 500 ids. A merged call that EC2 refuses is repeated for each
id, so that one bad id fails alone; one that is throttled or unanswered is not, because it would become 500 calls.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable

from shared.cloud.client.batching import Answers, Batcher, one_by_one
from shared.cloud.client.calls import Json, ServiceCalls
from shared.cloud.ec2.records import Instance, instance_from
from shared.cloud.ec2.selectors import VALUES_LIMIT, Filters
from shared.errors import NotFound, Unavailable

PAGE = 100
IDLE_SECONDS = 0.1
LONGEST_SECONDS = 1.0
MOST_IDS = 500
_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}")


class InstanceCalls:
    """The merged calls of one region."""

    def __init__(self, calls: ServiceCalls, *, idle_seconds: float = IDLE_SECONDS) -> None:
        self._calls = calls
        self._descriptions: Batcher[str, Instance | None] = Batcher(
            self._describe, idle=idle_seconds, longest=LONGEST_SECONDS, most=MOST_IDS
        )
        self._terminations: Batcher[str, bool] = Batcher(
            self._terminate, idle=idle_seconds, longest=LONGEST_SECONDS, most=MOST_IDS
        )

    async def described(self, ids: Iterable[str]) -> list[Instance]:
        """Instances in every state, sorted by id; an unknown id is absent."""
        requests = [self._descriptions.put(one) for one in sorted(set(ids))]
        return [found for found in await asyncio.gather(*requests) if found is not None]

    async def terminated(self, ids: Iterable[str]) -> tuple[str, ...]:
        """Terminate all; returns the ids that EC2 does not know (no proof of termination, F20). Idempotent."""
        unique = sorted(set(ids))
        known = await asyncio.gather(*(self._terminations.put(one) for one in unique))
        return tuple(one for one, is_known in zip(unique, known, strict=True) if not is_known)

    async def listed(self, filters: Filters) -> list[Instance]:
        """All instances that match the filters."""
        reservations = await self._calls.pages(
            "describe_instances", "Reservations", Filters=filters, MaxResults=PAGE
        )
        return [instance_from(item) for r in reservations for item in r.get("Instances") or ()]

    async def _describe(self, ids: list[str]) -> Answers[Instance | None]:
        return await one_by_one(ids, self._describe_together)

    async def _describe_together(self, ids: list[str]) -> Answers[Instance | None]:
        unique = sorted(set(ids))
        found: dict[str, Instance] = {}
        for start in range(0, len(unique), VALUES_LIMIT):
            chunk = {"Name": "instance-id", "Values": unique[start : start + VALUES_LIMIT]}
            found |= {instance.id: instance for instance in await self.listed([chunk])}
        return [found.get(one) for one in ids]

    async def _terminate(self, ids: list[str]) -> Answers[bool]:
        return await one_by_one(ids, self._terminate_together)

    async def _terminate_together(self, ids: list[str]) -> Answers[bool]:
        """Terminate the known ids. EC2 refuses a call with an unknown id, so that id is removed and the rest resent."""
        remaining, missing = set(ids), set()
        while remaining:
            try:
                answer = await self._calls.write(
                    "terminate_instances", InstanceIds=sorted(remaining)
                )
                _require_all(remaining, answer)
                break
            except NotFound as error:
                named = set(_INSTANCE_ID.findall(error.message)) & remaining
                if not named and len(remaining) > 1:
                    raise
                unknown = named or set(remaining)
                missing |= unknown
                remaining -= unknown
        return [one not in missing for one in ids]


def _require_all(ids: set[str], answer: Json) -> None:
    """Raise Unavailable unless the answer names every instance: the outcome for the others is unknown."""
    unnamed = ids - {one["InstanceId"] for one in answer["TerminatingInstances"]}
    if unnamed:
        raise Unavailable(f"TerminateInstances did not confirm {', '.join(sorted(unnamed)[:5])}")
