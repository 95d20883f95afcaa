"""HorizontalPodAutoscaler in ``autoscaling/v1``, which ``kubectl autoscale`` writes up to version 1.32.

The stored version is ``autoscaling/v2``. The older version has only one metric, CPU utilization; other metrics remain
stored and are not shown in it.
"""

from __future__ import annotations

from typing import Any

from local.cluster.builtin.resources import AUTOSCALERS, AUTOSCALERS_V1

Document = dict[str, Any]
PERCENTAGE = "targetCPUUtilizationPercentage"


def to_stored(document: Document) -> Document:
    """The ``autoscaling/v2`` form of an object in ``autoscaling/v1``."""
    spec = dict(document.get("spec") or {})
    percentage = spec.pop(PERCENTAGE, None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return {**document, "apiVersion": AUTOSCALERS.api_version, "spec": spec}


def from_stored(document: Document) -> Document:
    """The ``autoscaling/v1`` form of a stored object."""
    spec = dict(document.get("spec") or {})
    for metric in spec.pop("metrics", None) or ():
        resource = metric.get("resource") or {}
        used = (resource.get("target") or {}).get("averageUtilization")
        if resource.get("name") == "cpu" and used is not None:
            spec[PERCENTAGE] = used
    return {**document, "apiVersion": AUTOSCALERS_V1.api_version, "spec": spec}
