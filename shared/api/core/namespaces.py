"""core/v1 Namespace -> domain record, and the namespaces of an affinity term."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.core.expressions import read_selector
from shared.api.shapes import text_list, texts
from shared.domain.workloads.namespaces import Namespace, NamespaceSelector

Json = Mapping[str, Any]


def parse_namespace(raw: Json) -> Namespace:
    """The planner's record of a namespace. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    labels = texts(meta.get("labels"), "metadata.labels")
    return Namespace(uid=meta["uid"], name=meta["name"], labels=labels)


def namespaces_of(term: Mapping[str, Any], field: str) -> dict[str, Any]:
    """SCH-83: the namespaces of a term (() for all, None for the pod's own), and its selector of namespace labels."""
    named = text_list(term.get("namespaces"), f"{field}.namespaces") or None
    if term.get("namespaceSelector") is None:
        return {"namespaces": named}
    selector = read_selector(term["namespaceSelector"], f"{field}.namespaceSelector")
    if not any(selector):
        return {"namespaces": ()}
    return {"namespaces": named, "namespace_selector": NamespaceSelector(*selector)}
