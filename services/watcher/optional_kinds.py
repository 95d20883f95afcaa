"""Which kinds are watched: those that no setting asks for are left out (OPS-02).

A server need not serve the kind of a setting: its CRD is not installed, or it is of a later Kubernetes. Such a kind
counts as one without objects, and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from services.watcher.conversion import KINDS, Json, Kind
from shared.api.core.autoscaling.vertical_autoscalers import template_with_parts, with_parts
from shared.api.faults import Parsed
from shared.domain.feature_gates import FeatureGates, gate_name
from shared.domain.records import POD_TEMPLATES, PODS
from shared.kube import resources
from shared.kube.informer import Informer
from shared.kube.resources import Resource

_BUFFER, _REQUEST = "capacity_buffer", "provisioning_request"
GATES: dict[Resource, tuple[str, ...]] = {
    resources.NODE_OVERLAYS: ("node_overlay",),
    resources.CAPACITY_BUFFERS: (_BUFFER,),
    # What a CapacityBuffer may name beside PodTemplates.
    resources.DEPLOYMENTS: (_BUFFER,),
    resources.REPLICA_SETS: (_BUFFER,),
    resources.STATEFUL_SETS: (_BUFFER,),
    resources.POD_TEMPLATES: (_BUFFER, _REQUEST),
    resources.PROVISIONING_REQUESTS: (_REQUEST,),
    resources.POD_GROUPS: ("pod_group",),
    resources.WORKLOADS: ("workload",),
    resources.SCHEDULING_GROUPS: ("workload",),
    resources.VERTICAL_AUTOSCALERS: ("vertical_pod_autoscaler",),
}
"""Kind -> the fields of the gates of which one must be on."""
ALTERNATIVES = (resources.WORKLOADS, resources.SCHEDULING_GROUPS)
"""Of one gate, in different versions of Kubernetes: one of them is enough."""
DEVICES = (*resources.DEVICE_KINDS, resources.DEVICE_TEMPLATES)


def kinds(gates: FeatureGates, *, devices: bool = False) -> tuple[Kind, ...]:
    """Those that are watched. ``devices``: device claims are planned."""
    found = tuple(kind for kind in KINDS if _is_wanted(kind.resource, gates, devices=devices))
    return tuple(map(_reading_parts, found)) if gates.vertical_pod_autoscaler else found


def _reading_parts(kind: Kind) -> Kind:
    """The kind, whose records of pods say what their requests are made of (POD-12)."""

    def convert(raw: Json) -> Parsed[Any]:
        parsed = kind.convert(raw)
        if parsed.record is None:
            return parsed
        if kind.name == PODS:
            return replace(parsed, record=with_parts(parsed.record, raw.get("spec")))
        return replace(parsed, record=template_with_parts(parsed.record, raw))

    return replace(kind, convert=convert) if kind.name in (PODS, POD_TEMPLATES) else kind


def _is_wanted(resource: Resource, gates: FeatureGates, *, devices: bool) -> bool:
    if resource in DEVICES:
        return devices
    fields = GATES.get(resource)
    return fields is None or any(getattr(gates, field) for field in fields)


def switch_of(resource: Resource) -> str:
    """The setting that asks for a kind, as users write it; empty for a kind without which nothing works."""
    if resource in DEVICES:
        return "IGNORE_DRA_REQUESTS=false"
    gates = " or ".join(f"{gate_name(field)}=true" for field in GATES.get(resource, ()))
    return f"FEATURE_GATES={gates}" if gates else ""


def absences(informers: Iterable[Informer]) -> list[str]:
    """The settings without effect because the API server does not serve their kind, as sentences."""
    listed = list(informers)
    absent = [one.resource for one in listed if one.absent]
    if any(one.resource in ALTERNATIVES and not one.absent for one in listed):
        absent = [one for one in absent if one not in ALTERNATIVES]
    missing: dict[str, list[str]] = {}
    for resource in absent:
        name = f"{resource.qualified}/{resource.version}"
        missing.setdefault(switch_of(resource), []).append(name)
    return [
        f"{switch} has no effect: the API server does not serve {', '.join(names)}. All else is "
        "planned without it. Install the CRD, or take the setting away"
        for switch, names in missing.items()
    ]
