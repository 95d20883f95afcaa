"""Reads of objects and kinds that may not be there."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar

from shared.errors import NotFound
from shared.kube.client import Kube
from shared.kube.resources import Resource

Value = TypeVar("Value")


async def or_none(reading: Awaitable[Value]) -> Value | None:
    """What ``reading`` gives; None where it raises NotFound."""
    try:
        return await reading
    except NotFound:
        return None


async def list_if_served(kube: Kube, resource: Resource) -> list[dict[str, Any]]:
    """All objects of a kind; none where the cluster does not know it (it may have one generation's kinds only)."""
    answer = await or_none(kube.list(resource))
    return answer.items if answer is not None else []
