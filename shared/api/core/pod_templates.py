"""core/v1 PodTemplate and the workloads of apps/v1 -> the record of one pod that is made from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from shared.api.core.gangs import PREFERRED_TOPOLOGY, REQUIRED_TOPOLOGY
from shared.api.core.pods import parse_pod
from shared.api.faults import Parsed
from shared.api.shapes import entries, mapping, texts, whole
from shared.domain.workloads.capacity_buffers import POD_TEMPLATE, PodTemplate
from shared.errors import InvalidObject

Json = Mapping[str, Any]


def parse_pod_template(raw: Json) -> Parsed[PodTemplate]:
    """The record. None, without faults, for a ReplicaSet of a Deployment, which stands for its replicas. Never raises:
    what is wrong with the template is in the faults of its pod."""
    meta = raw["metadata"]
    kind = str(raw.get("kind") or POD_TEMPLATE)
    if kind == "ReplicaSet" and _is_owned(meta):
        return Parsed(None)
    pod = parse_pod({"metadata": {**meta, "ownerReferences": [], "labels": {}}})
    replicas = 0
    try:
        spec = {} if kind == POD_TEMPLATE else mapping(raw.get("spec"), "spec")
        at = "template" if kind == POD_TEMPLATE else "spec.template"
        template = mapping((raw if kind == POD_TEMPLATE else spec).get("template"), at)
        pod = parse_pod({"metadata": _metadata(meta, template, at), "spec": template.get("spec")})
        replicas = 0 if kind == POD_TEMPLATE else _replicas(spec)
    except InvalidObject as error:
        pod = replace(pod, faults=(str(error),))
    generation = meta.get("generation")
    return Parsed(
        PodTemplate(
            kind=kind,
            namespace=meta["namespace"],
            name=meta["name"],
            pod=pod,
            generation=generation if type(generation) is int else 0,
            replicas=replicas,
        )
    )


def _is_owned(meta: Json) -> bool:
    owners = entries(meta.get("ownerReferences"), "metadata.ownerReferences")
    return any(owner.get("controller") for owner in owners)


def _metadata(meta: Json, template: Json, at: str) -> dict[str, Any]:
    """That of a pod: it has the template's labels, the topology that Kueue asks for, and the object's identity."""
    written = mapping(template.get("metadata"), f"{at}.metadata")
    identity = {name: meta[name] for name in ("uid", "namespace", "name", "creationTimestamp")}
    annotations = texts(written.get("annotations"), f"{at}.metadata.annotations")
    return {
        **identity,
        "labels": texts(written.get("labels"), f"{at}.metadata.labels"),
        "annotations": {
            name: annotations[name]
            for name in (REQUIRED_TOPOLOGY, PREFERRED_TOPOLOGY)
            if name in annotations
        },
    }


def _replicas(spec: Json) -> int:
    found = whole(spec.get("replicas"), "spec.replicas")
    return 1 if found is None else max(found, 0)
