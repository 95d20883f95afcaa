"""autoscaling.x-k8s.io/v1beta1 CapacityBuffer <-> domain record (GAT-02)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.conditions import condition_objects, known_conditions
from shared.api.core.metadata import read_metadata
from shared.api.crd.model import read
from shared.api.faults import Fault, Parsed, texts_of
from shared.api.schema.autoscaling.capacity_buffer import ACTIVE_CAPACITY, CapacityBufferSpec
from shared.api.v1.node_pools import amounts_of
from shared.domain.machines.machine import Condition
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE, CapacityBuffer

Json = Mapping[str, Any]
TEMPLATE, GENERATION = "podTemplateRef", "podTemplateGeneration"
REPLICAS, STRATEGY = "replicas", "provisioningStrategy"


def parse_capacity_buffer(raw: Json) -> Parsed[CapacityBuffer]:
    """The buffer, with its faults in the record too: its status names them. Never raises."""
    meta, written = read_metadata(raw), raw.get("metadata")
    namespace = written.get("namespace") if isinstance(written, Mapping) else ""
    status = raw.get("status")
    record = CapacityBuffer(
        uid=meta.uid,
        namespace=namespace if isinstance(namespace, str) else "",
        name=meta.name,
        generation=meta.generation,
        conditions=known_conditions(status),
        shown=_shown(status if isinstance(status, Mapping) else {}),
    )
    spec, found = read(CapacityBufferSpec, raw.get("spec"), at=("spec",))
    limits, too_large = amounts_of(spec.limits or {} if spec else {}, at=("spec", "limits"))
    faults = (*found, *too_large)
    if spec is None or faults:
        return Parsed(replace(record, faults=texts_of(faults)), faults)
    reference = spec.scalable_ref or spec.pod_template_ref
    return Parsed(
        replace(
            record,
            kind=spec.scalable_ref.kind if spec.scalable_ref else POD_TEMPLATE,
            group=spec.scalable_ref.api_group if spec.scalable_ref else "",
            template=reference.name if reference else "",
            replicas=spec.replicas,
            percentage=spec.percentage if spec.scalable_ref else None,
            limits=None if spec.limits is None else limits,
            is_active=spec.provisioning_strategy == ACTIVE_CAPACITY,
        )
    )


def warnings_of(raw: Json) -> list[Fault]:
    """Valid settings that keep no room, or not as they seem to."""
    spec, _ = read(CapacityBufferSpec, raw.get("spec"), at=("spec",))
    if spec is None:
        return []
    found = []
    if spec.provisioning_strategy != ACTIVE_CAPACITY:
        text = f"Dovetail ignores the object; only {ACTIVE_CAPACITY} is followed"
        found.append(Fault(("spec", STRATEGY), text))
    if spec.percentage is not None and spec.scalable_ref is None:
        text = "has no effect with podTemplateRef; name a workload in scalableRef"
        found.append(Fault(("spec", "percentage"), text))
    if spec.replicas is None and spec.percentage is None and spec.limits is None:
        text = "is missing, as are percentage and limits: no room is kept"
        found.append(Fault(("spec", REPLICAS), text))
    return found


def _shown(status: Json) -> dict[str, str | int]:
    reference = status.get(TEMPLATE)
    name = reference.get("name") if isinstance(reference, Mapping) else None
    written = {name_: status.get(name_) for name_ in (GENERATION, REPLICAS, STRATEGY)}
    return {
        key: value
        for key, value in {TEMPLATE: name, **written}.items()
        if isinstance(value, str | int)
    }


def status_object(
    shown: Mapping[str, str | int], conditions: Mapping[str, Condition]
) -> dict[str, Any]:
    """``status`` for a merge patch: what ``shown`` lacks is removed."""
    template = shown.get(TEMPLATE)
    return {
        TEMPLATE: None if template is None else {"name": template},
        **{name: shown.get(name) for name in (GENERATION, REPLICAS, STRATEGY)},
        "conditions": condition_objects(conditions),
    }
