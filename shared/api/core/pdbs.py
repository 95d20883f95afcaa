"""policy/v1 PodDisruptionBudget -> domain record."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api.core.expressions import read_selector
from shared.api.shapes import mapping, text, whole
from shared.domain.workloads.pdbs import PodDisruptionBudget

Json = Mapping[str, Any]


def parse_pdb(raw: Json) -> PodDisruptionBudget:
    """The record of a budget. Without a status it allows no eviction. Raises InvalidObject naming the field."""
    meta = raw["metadata"]
    spec, status = mapping(raw.get("spec"), "spec"), mapping(raw.get("status"), "status")
    match_labels, expressions = read_selector(spec.get("selector"), "spec.selector")
    return PodDisruptionBudget(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        match_labels=match_labels,
        expressions=expressions,
        selects_nothing=spec.get("selector") is None,
        allowed=whole(status.get("disruptionsAllowed"), "status.disruptionsAllowed") or 0,
        unhealthy_policy=text(
            spec.get("unhealthyPodEvictionPolicy"), "spec.unhealthyPodEvictionPolicy"
        ),
    )
