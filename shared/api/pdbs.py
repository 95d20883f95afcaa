"""policy/v1 PodDisruptionBudget -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.pods import SELECTOR_OPERATORS, parse_expressions
from shared.api.shapes import mapping, text, texts, whole
from shared.domain.pdbs import PodDisruptionBudget

Json = Mapping[str, Any]


def parse_pdb(raw: Json) -> PodDisruptionBudget:
    """The record of a budget. A status that was never written allows nothing. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    selector = mapping(spec.get("selector"), "spec.selector")
    return PodDisruptionBudget(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        match_labels=texts(selector.get("matchLabels"), "spec.selector.matchLabels"),
        expressions=parse_expressions(
            selector.get("matchExpressions"),
            field="spec.selector.matchExpressions",
            operators=SELECTOR_OPERATORS,
        ),
        selects_nothing=spec.get("selector") is None,
        allowed=whole(status.get("disruptionsAllowed"), "status.disruptionsAllowed") or 0,
        unhealthy_policy=text(
            spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy"
        ),
    )
