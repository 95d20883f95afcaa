"""Extended resources that a DeviceClass answers: pods ask for them as for those of a device plugin (DRA-06).

A class with ``extendedResourceName`` answers that resource; every class answers ``deviceclass.resource.kubernetes.io/``
and its name. kube-scheduler makes the claim when it binds the pod. For the planner such requests become a claim of the
pod, and no node needs to report the resource.

What may go wrong: a device plugin serves the same resource. While a node reports it, it is planned as that resource.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from shared.domain.devices.records import (
    ClaimSpec,
    ClaimTemplate,
    PodClaim,
    Request,
    Wanted,
)
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod

IMPLICIT = "deviceclass.resource.kubernetes.io/"
CLAIM = "extended resources"
"""Name of the claim in a pod; no entry of ``resourceClaims`` may have a blank."""


def with_claims(snapshot: Snapshot) -> Snapshot:
    """The snapshot in which such pods have claims instead, and the templates of these."""
    answers = _answers(snapshot)
    if not answers:
        return snapshot
    held = {uid for one in snapshot.resource_claims if one.is_allocated for uid in one.reserved_for}
    templates: dict[str, ClaimTemplate] = {}
    pods = tuple(_claiming(pod, answers, held, templates) for pod in snapshot.pods)
    return replace(
        snapshot, pods=pods, claim_templates=(*snapshot.claim_templates, *templates.values())
    )


def _answers(snapshot: Snapshot) -> dict[str, str]:
    """Resource -> class, without what nodes report. Of two classes for one resource the newer counts."""
    reported = {name for node in snapshot.nodes for name, n in node.allocatable.items() if n > 0}
    oldest_first = sorted(snapshot.device_classes, key=lambda one: (one.created_at, one.name))
    found = {IMPLICIT + one.name: one.name for one in oldest_first}
    found |= {one.extended_resource: one.name for one in oldest_first if one.extended_resource}
    return {resource: name for resource, name in found.items() if resource not in reported}


def _claiming(
    pod: Pod, answers: Mapping[str, str], held: set[str], templates: dict[str, ClaimTemplate]
) -> Pod:
    asked = {name: count for name, count in pod.requests.items() if count and name in answers}
    if not asked:
        return pod
    requests = {name: count for name, count in pod.requests.items() if name not in asked}
    if pod.node_name and pod.uid in held:
        return replace(pod, requests=requests)  # kube-scheduler's claim holds its devices
    template = _template(pod.namespace, asked, answers)
    templates[template.key] = template
    claim = PodClaim(CLAIM, template=template.name)
    return replace(pod, requests=requests, device_claims=(*pod.device_claims, claim))


def _template(
    namespace: str, asked: Mapping[str, int], answers: Mapping[str, str]
) -> ClaimTemplate:
    """Equal requests of one namespace have one template. Its name is no name of Kubernetes, so no object has it."""
    listed = sorted(asked.items())
    name = " ".join(f"{resource}={count}" for resource, count in listed)
    wanted = ((resource, Wanted(resource, answers[resource], count=n)) for resource, n in listed)
    requests = tuple(Request(resource, (one,)) for resource, one in wanted)
    return ClaimTemplate(name, namespace, name, ClaimSpec(requests), title="extended resources")
