"""core/v1 Namespace -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.shapes import texts
from shared.domain.workloads.namespaces import Namespace

Json = Mapping[str, Any]


def parse_namespace(raw: Json) -> Namespace:
    """The planner's record of a namespace. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    labels = texts(meta.get("labels"), "metadata.labels")
    return Namespace(uid=meta["uid"], name=meta["name"], labels=labels)
