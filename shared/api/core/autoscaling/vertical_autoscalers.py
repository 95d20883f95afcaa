"""autoscaling.k8s.io/v1 VerticalPodAutoscaler -> its recommendation, if new pods get it (POD-12).

VPA writes ``target`` into pods at their creation in every mode but Off, already within the limits of its policies. A
container with the policy mode Off, or a resource that is not controlled, keeps what its template says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.core.pod_requests import request_parts
from shared.api.faults import Fault, Parsed
from shared.api.shapes import entries, mapping, text, text_list
from shared.domain.resources import CPU, MEMORY, parse_resources
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE, PodTemplate
from shared.domain.workloads.pods import Pod
from shared.domain.workloads.recommendations import Recommendation
from shared.errors import InvalidObject

Json = Mapping[str, Any]
APPLIED = ("Initial", "Recreate", "Auto", "InPlaceOrRecreate", "InPlace")
DEFAULT_MODE = "Recreate"
_EVERY_OTHER = "*"
_SCALABLE = (CPU, MEMORY)


def parse_vertical_autoscaler(raw: Json) -> Parsed[Recommendation]:
    """The record. None, without faults, for one that only recommends."""
    try:
        return Parsed(_recommendation(raw))
    except InvalidObject as error:
        return Parsed(None, (Fault((error.field,), error.fault),))


def _recommendation(raw: Json) -> Recommendation | None:
    spec = mapping(raw.get("spec"), "spec")
    policy = mapping(spec.get("updatePolicy"), "spec.updatePolicy")
    mode = text(policy.get("updateMode"), "spec.updatePolicy.updateMode") or DEFAULT_MODE
    if mode not in APPLIED:
        return None
    target = mapping(spec.get("targetRef"), "spec.targetRef")
    meta = raw["metadata"]
    return Recommendation(
        namespace=meta.get("namespace") or "",
        name=meta["name"],
        kind=text(target.get("kind"), "spec.targetRef.kind"),
        target=text(target.get("name"), "spec.targetRef.name"),
        containers=_containers(raw, _controlled(spec)),
    )


def _containers(raw: Json, controlled: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, int]]:
    status = mapping(raw.get("status"), "status")
    at = "status.recommendation"
    listed = mapping(status.get("recommendation"), at).get("containerRecommendations")
    found: dict[str, dict[str, int]] = {}
    for index, one in enumerate(entries(listed, f"{at}.containerRecommendations")):
        field = f"{at}.containerRecommendations[{index}]"
        name = text(one.get("containerName"), f"{field}.containerName")
        names = controlled.get(name, controlled.get(_EVERY_OTHER, _SCALABLE))
        target = parse_resources(one.get("target"), field=f"{field}.target")
        amounts = {key: amount for key, amount in target.items() if key in names}
        if amounts:
            found[name] = amounts
    return found


def _controlled(spec: Json) -> dict[str, tuple[str, ...]]:
    """Container, or ``*`` for every other one -> the resources that are changed."""
    at = "spec.resourcePolicy.containerPolicies"
    policy = mapping(spec.get("resourcePolicy"), "spec.resourcePolicy")
    found: dict[str, tuple[str, ...]] = {}
    for index, one in enumerate(entries(policy.get("containerPolicies"), at)):
        name = text(one.get("containerName"), f"{at}[{index}].containerName") or _EVERY_OTHER
        listed = one.get("controlledResources")
        names = tuple(text_list(listed, f"{at}[{index}].controlledResources"))
        is_off = one.get("mode") == "Off"
        found[name] = () if is_off else _SCALABLE if listed is None else names
    return found


def with_parts(pod: Pod, spec: object) -> Pod:
    """The record of a pod with the parts of its requests. A spec with faults has none: its pod is not planned."""
    try:
        return replace(pod, parts=request_parts(mapping(spec, "spec")))
    except InvalidObject:
        return pod


def template_with_parts(template: PodTemplate, raw: Json) -> PodTemplate:
    """The same of a template or workload, for the pod that is made from it."""
    holder = raw if template.kind == POD_TEMPLATE else raw.get("spec")
    try:
        made = mapping(mapping(holder, "spec").get("template"), "spec.template")
    except InvalidObject:
        return template
    return replace(template, pod=with_parts(template.pod, made.get("spec")))
