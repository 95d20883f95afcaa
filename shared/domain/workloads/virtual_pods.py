"""Virtual pods: room that is kept for pods that do not exist yet takes part in planning as pods that wait (GAT-02).

Pure. A virtual pod is never written, bound or evicted. It comes after every real pod, so it takes room from none. Its
UID follows from its object's, so that every process makes the same ones, and none need be remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from shared.domain.resources import Resources
from shared.domain.workloads.capacity_buffers import (
    POD_TEMPLATE,
    SCALABLE_KINDS,
    CapacityBuffer,
    PodTemplate,
)
from shared.domain.workloads.pods import Owner, Pod
from shared.domain.workloads.provisioning_requests import ProvisioningRequest

RESOLVED = "Resolved"
TEMPLATE_NOT_FOUND, SCALABLE_NOT_FOUND = "PodTemplateNotFound", "ScalableRefNotFound"
RESOLUTION_FAILED = "ResolutionFailed"
"""Reasons of the condition ReadyForProvisioning, as in Karpenter."""
MOST_REPLICAS = 1000
"""Virtual pods of one buffer: each is planned like a pod."""
MOST_VIRTUAL_PODS = 10_000
"""Of all buffers together, the first by name."""
BUFFER, REQUEST = "CapacityBuffer", "ProvisioningRequest"


class Resolution(msgspec.Struct, frozen=True):
    """What a buffer keeps room for: ``replicas`` of ``template.pod``; nothing unless ``reason`` is Resolved."""

    buffer: CapacityBuffer
    reason: str
    message: str
    template: PodTemplate | None = None
    replicas: int = 0

    @property
    def is_ready(self) -> bool:
        return self.reason == RESOLVED


def resolved(buffer: CapacityBuffer, templates: Mapping[str, PodTemplate]) -> Resolution:
    """``templates``: by key, those of workloads too."""
    if buffer.faults:
        return Resolution(buffer, RESOLUTION_FAILED, "; ".join(buffer.faults))
    if buffer.kind != POD_TEMPLATE and (
        buffer.group not in ("", "apps") or buffer.kind not in SCALABLE_KINDS
    ):
        kind = f"{buffer.group}/{buffer.kind}" if buffer.group else buffer.kind
        text = f"spec.scalableRef.kind: {kind[:80]} is not supported; use {', '.join(SCALABLE_KINDS)} of apps"
        return Resolution(buffer, RESOLUTION_FAILED, text)
    template = templates.get(buffer.template_key)
    if template is None:
        reason = TEMPLATE_NOT_FOUND if buffer.kind == POD_TEMPLATE else SCALABLE_NOT_FOUND
        text = f"{buffer.kind} {buffer.namespace}/{buffer.template} does not exist; apply it, or mend the reference"
        return Resolution(buffer, reason, text)
    if template.pod.faults:
        text = f"{buffer.kind} {buffer.template}: {'; '.join(template.pod.faults)}"
        return Resolution(buffer, RESOLUTION_FAILED, text)
    desired = replicas_of(buffer, template)
    kept = min(desired, MOST_REPLICAS)
    more = f"; {desired} were asked for, {kept} is the most" if desired > kept else ""
    return Resolution(buffer, RESOLVED, f"{buffer.kind} {buffer.template}{more}", template, kept)


def replicas_of(buffer: CapacityBuffer, template: PodTemplate) -> int:
    """The greater of replicas and percentage, as far as the limits allow; alone, the limits decide."""
    sizes = [] if buffer.replicas is None else [buffer.replicas]
    if buffer.percentage is not None:
        sizes.append(_share(template.replicas, buffer.percentage))
    within = None if buffer.limits is None else _within(buffer.limits, template.pod.requests)
    if within is None:
        return max(sizes, default=0)
    return min(max(sizes), within) if sizes else within


def _share(replicas: int, percent: int) -> int:
    return -(-replicas * percent // 100)


def _within(limits: Resources, requests: Resources) -> int | None:
    """How many pods fit; None when they request nothing that is limited."""
    found = [
        limits[name] // amount for name, amount in requests.items() if amount and name in limits
    ]
    return min(found) if found else None


def virtual_pods(
    buffers: Iterable[CapacityBuffer], templates: Mapping[str, PodTemplate]
) -> list[Pod]:
    """Pods that wait, of every buffer that can be resolved; at most MOST_VIRTUAL_PODS."""
    found: list[Pod] = []
    for buffer in sorted(buffers, key=lambda one: one.key):
        if buffer.is_active and len(found) < MOST_VIRTUAL_PODS:
            found += _pods_of(resolved(buffer, templates))
    return found[:MOST_VIRTUAL_PODS]


def _pods_of(resolution: Resolution) -> Iterator[Pod]:
    buffer, template = resolution.buffer, resolution.template
    if template is None:
        return
    owner = Owner(BUFFER, buffer.name, buffer.uid)
    for number in range(1, resolution.replicas + 1):
        yield as_virtual(
            template.pod,
            uid=f"{buffer.uid}-{number}",
            name=f"capacity-buffer-{buffer.name}-{number}",
            owner=owner,
        )


def request_pods(
    request: ProvisioningRequest, templates: Mapping[str, PodTemplate], taken: Iterable[Pod] = ()
) -> tuple[Pod, ...] | str:
    """The pods of a request that do not exist yet, or why it cannot be judged. ``taken``: pods that use its room."""
    sets = request_pod_sets(request, templates, taken)
    return sets if isinstance(sets, str) else tuple(pod for _, pods in sets for pod in pods)


def request_pod_sets(
    request: ProvisioningRequest, templates: Mapping[str, PodTemplate], taken: Iterable[Pod] = ()
) -> tuple[tuple[int, tuple[Pod, ...]], ...] | str:
    """The same by the index of the pod set."""
    sets: list[tuple[int, tuple[Pod, ...]]] = []
    owner = Owner(REQUEST, request.name, request.uid)
    shapes = Counter(_shape(pod) for pod in taken)
    for index, pod_set in request.booked_sets:
        template = templates.get(request.template_key(pod_set))
        if template is None or template.pod.faults:
            at = f"spec.podSets[{index}].podTemplateRef: PodTemplate {request.namespace}/{pod_set.template}"
            why = "; ".join(template.pod.faults) if template else "does not exist yet"
            return f"{at}: {why}"
        there = min(pod_set.count, shapes[_shape(template.pod)])
        shapes[_shape(template.pod)] -= there
        found: list[Pod] = []
        for number in range(there + 1, pod_set.count + 1):
            name = f"provisioning-request-{request.name}-{index}-{number}"
            uid = f"{request.uid}-{index}-{number}"
            found.append(
                as_virtual(
                    template.pod, uid=uid, name=name, owner=owner, gang=name_of_gang(request)
                )
            )
        sets.append((index, tuple(found)))
    return tuple(sets)


def name_of_gang(request: ProvisioningRequest) -> str:
    """No pod can be in a gang of this name: annotations of gangs cannot hold it by chance."""
    return f"{REQUEST}/{request.name}"


def _shape(pod: Pod) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(pod.requests.items()))


def as_virtual(pod: Pod, *, uid: str, name: str, owner: Owner, gang: str = "") -> Pod:
    """A pod like this one that waits. It has no volumes, which its real pods will bring, and blocks nothing."""
    return msgspec.structs.replace(
        pod,
        uid=uid,
        name=name,
        owner=owner,
        created_at=0.0,
        unschedulable=True,
        node_name="",
        volume_claims=(),
        do_not_disrupt="",
        gang=gang,
        gang_size=0,
        consumes="",
        virtual=True,
    )
