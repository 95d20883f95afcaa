"""Expands Deployments, ReplicaSets, StatefulSets and Jobs into the pods and PersistentVolumeClaims that they make.

Pods among the inputs that a controller owns count against its replicas. A Deployment whose ReplicaSets are among the
inputs makes no pods of its own.

What may go wrong: a huge replica count. The number of pods is bounded, and a controller that would exceed it is a
fault.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from shared.api.shapes import entries, mapping, text, texts, whole
from shared.errors import InvalidObject
from shared.simulation.objects import EPOCH, KubeObject, Objects

Json = Mapping[str, Any]
CONTROLLERS = ("ReplicaSet", "ReplicationController", "StatefulSet", "Job", "Deployment")
MOST_PODS = 100_000
MOST_VOLUMES = 64
"""Bound per pod: each volume may make a claim, and a template is read once per replica."""
HASH_LABEL = "pod-template-hash"
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
INDEX_LABEL = "apps.kubernetes.io/pod-index"
JOB_LABEL = "batch.kubernetes.io/job-name"


def expand(objects: Objects, most_pods: int = MOST_PODS) -> None:
    """Adds the pods of all controllers, the claims of StatefulSets and of ephemeral volumes, and the faults.

    ``most_pods``: bound of all pods together; a controller that would exceed it makes none.
    """
    owned = Counter(_owners(objects.of("Pod", "ReplicaSet")))
    left = most_pods - len(objects.of("Pod"))
    for controller in objects.of(*CONTROLLERS):
        with _faults_of(controller, objects):
            wanted = _pods_wanted(controller, owned)
            if wanted > left:
                raise InvalidObject(
                    f"would make more than {most_pods} pods", field=_count_field(controller)
                )
            left -= wanted
            _take(list(_made(controller, wanted, objects)), objects)
    for pod in objects.of("Pod"):
        with _faults_of(pod.controller or pod, objects):
            _take(_own_claims(pod), objects)


@contextmanager
def _faults_of(one: KubeObject, objects: Objects) -> Iterator[None]:
    """Turns InvalidObject into a fault of this object, once."""
    try:
        yield
    except InvalidObject as error:
        fault = one.fault(error.field, error.fault)
        if fault not in objects.faults[-1:]:
            objects.faults.append(fault)


def _take(made: Iterable[KubeObject], objects: Objects) -> None:
    for one in made:
        if one.kind == "Pod" or not objects.has(one.kind, one.name):
            objects.take(one)


def _owners(owned: Iterable[KubeObject]) -> Iterator[tuple[str, str, str]]:
    """(kind, namespace, name) of the owners of each object that is not finished."""
    for one in owned:
        status = one.raw.get("status")
        if isinstance(status, Mapping) and status.get("phase") in ("Succeeded", "Failed"):
            continue
        for reference in one.metadata["ownerReferences"]:
            yield reference["kind"], one.metadata["namespace"], reference["name"]


def _identity(controller: KubeObject) -> tuple[str, str, str]:
    meta = controller.metadata
    return controller.kind, meta["namespace"], meta["name"]


def _count_field(controller: KubeObject) -> str:
    return "spec.parallelism" if controller.kind == "Job" else "spec.replicas"


def _pods_wanted(controller: KubeObject, owned: Counter[tuple[str, str, str]]) -> int:
    spec = mapping(controller.raw.get("spec"), "spec")
    there = owned[_identity(controller)]
    if controller.metadata.get("deletionTimestamp"):
        return 0
    if controller.kind == "Deployment":
        return 0 if there else _number(spec, "replicas", 1)
    if controller.kind == "Job":
        return max(_parallel(controller, spec) - there, 0)
    return max(_number(spec, "replicas", 1) - there, 0)


def _parallel(job: KubeObject, spec: Json) -> int:
    """The number of pods that a Job runs at once."""
    if spec.get("suspend") is True:
        return 0
    parallelism = _number(spec, "parallelism", 1)
    if spec.get("completions") is None:
        return parallelism
    status = mapping(job.raw.get("status"), "status")
    done = whole(status.get("succeeded"), "status.succeeded") or 0
    return min(parallelism, max(_number(spec, "completions", 1) - done, 0))


def _number(given: Json, name: str, default: int, at: str = "spec") -> int:
    found = whole(given.get(name), f"{at}.{name}")
    if found is not None and found < 0:
        raise InvalidObject("must not be negative", field=f"{at}.{name}")
    return default if found is None else found


def _made(controller: KubeObject, wanted: int, objects: Objects) -> Iterator[KubeObject]:
    spec = mapping(controller.raw.get("spec"), "spec")
    template = mapping(spec.get("template"), "spec.template")
    pod_spec = mapping(template.get("spec"), "spec.template.spec")
    if not pod_spec:
        raise InvalidObject("is required", field="spec.template.spec")
    meta = mapping(template.get("metadata"), "spec.template.metadata")
    labels = texts(meta.get("labels"), "spec.template.metadata.labels")
    annotations = texts(meta.get("annotations"), "spec.template.metadata.annotations")
    claims = _bounded_entries(spec.get("volumeClaimTemplates"), "spec.volumeClaimTemplates")
    namespace = controller.metadata["namespace"]
    if controller.kind == "Deployment":
        labels = {**labels, HASH_LABEL: _digest(template)}
    free = (
        index
        for index in itertools.count(_first_number(spec))
        if not objects.has("Pod", f"{namespace}/{_pod_name(controller, index)}")
    )
    for index in itertools.islice(free, wanted):
        name = _pod_name(controller, index)
        made_labels = {**labels, **_own_labels(controller, name, index)}
        metadata = _metadata(controller, name, made_labels, annotations)
        volumes = [] if controller.kind != "StatefulSet" else _claim_names(claims, name)
        pod = {"metadata": metadata, "spec": _with_claims(pod_spec, volumes)}
        yield KubeObject("Pod", {"apiVersion": "v1", "kind": "Pod", **pod}, controller)
        for claim, (_, claim_name) in zip(claims, volumes, strict=False):
            yield _claim(controller, claim, claim_name, "spec.volumeClaimTemplates")


def _first_number(spec: Json) -> int:
    """The number of a StatefulSet's first pod; zero for other controllers."""
    ordinals = mapping(spec.get("ordinals"), "spec.ordinals")
    return _number(ordinals, "start", 0, at="spec.ordinals")


def _bounded_entries(raw: object, field: str) -> list[Json]:
    """Entries of which each makes a claim per pod. Raises InvalidObject for more than MOST_VOLUMES."""
    found = entries(raw, field)
    if len(found) > MOST_VOLUMES:
        raise InvalidObject(f"more than {MOST_VOLUMES}; no machine attaches so many", field=field)
    return found


def _pod_name(controller: KubeObject, index: int) -> str:
    """The name that a StatefulSet would use; for other controllers a name that sorts like the index."""
    name = controller.metadata["name"]
    return f"{name}-{index}" if controller.kind == "StatefulSet" else f"{name}-{index:05d}"


def _own_labels(controller: KubeObject, pod: str, index: int) -> dict[str, str]:
    """Labels that the controller adds to its pods and that selectors may use."""
    if controller.kind == "StatefulSet":
        return {POD_NAME_LABEL: pod, INDEX_LABEL: str(index)}
    if controller.kind == "Job":
        return {JOB_LABEL: controller.metadata["name"]}
    return {}


def _metadata(controller: KubeObject, name: str, labels: Json, annotations: Json) -> dict[str, Any]:
    meta = controller.metadata
    owner = {"kind": controller.kind, "name": meta["name"], "uid": meta["uid"], "controller": True}
    return {
        "name": name,
        "namespace": meta["namespace"],
        "uid": "",
        "creationTimestamp": EPOCH,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [owner],
        "finalizers": [],
    }


def _digest(template: Json) -> str:
    """A digest of the template."""
    content = msgspec.json.encode(template, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:10]


def _claim_names(claims: list[Json], pod: str) -> list[tuple[str, str]]:
    """(volume, claim name) of each claim template; the claim is named ``<template>-<pod>``."""
    found = []
    for index, claim in enumerate(claims):
        field = f"spec.volumeClaimTemplates[{index}].metadata"
        name = text(mapping(claim.get("metadata"), field).get("name"), f"{field}.name")
        if not name:
            raise InvalidObject("is required", field=f"{field}.name")
        found.append((name, f"{name}-{pod}"))
    return found


def _with_claims(spec: Json, claims: list[tuple[str, str]]) -> dict[str, Any]:
    if not claims:
        return dict(spec)
    names = {volume for volume, _ in claims}
    others = [
        one
        for one in entries(spec.get("volumes"), "spec.template.spec.volumes")
        if one.get("name") not in names
    ]
    added = [
        {"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims
    ]
    return {**spec, "volumes": [*others, *added]}


def _own_claims(pod: KubeObject) -> Iterator[KubeObject]:
    """The claim of each generic ephemeral volume (POD-07)."""
    template = "spec.template.spec" if pod.controller else "spec"
    spec = mapping(pod.raw.get("spec"), template)
    volumes = entries(spec.get("volumes"), f"{template}.volumes")
    _bounded_entries([one for one in volumes if one.get("ephemeral")], f"{template}.volumes")
    for index, volume in enumerate(volumes):
        field = f"{template}.volumes[{index}].ephemeral"
        given = mapping(volume.get("ephemeral"), field).get("volumeClaimTemplate")
        if given is not None:
            field = f"{field}.volumeClaimTemplate"
            volume_name = text(volume.get("name"), f"{template}.volumes[{index}].name")
            name = f"{pod.metadata['name']}-{volume_name}"
            yield _claim(pod, mapping(given, field), name, field)


def _claim(owner: KubeObject, template: Json, name: str, field: str) -> KubeObject:
    metadata = _metadata(owner, name, {}, {})
    spec = mapping(template.get("spec"), f"{field}.spec")
    raw = {"apiVersion": "v1", "metadata": {**metadata, "ownerReferences": []}, "spec": spec}
    return KubeObject("PersistentVolumeClaim", {**raw, "kind": "PersistentVolumeClaim"})
