"""What becomes of the pods of a changed workload: other replicas, or another template. Pure.

A changed template replaces all pods, and a smaller number of replicas removes pods that wait first, then the youngest,
as the controllers of Kubernetes do. What other rules of theirs choose is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Json = Mapping[str, Any]
WORKLOADS = ("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job")


def without_pods(documents: Iterable[Any], kind: str, namespace: str, name: str) -> list[Any]:
    """The documents without the pods, and the ReplicaSets of a Deployment, that the workload made."""
    given = list(documents)
    sets = _owned(given, "ReplicaSet", namespace, (kind, {name})) if kind == "Deployment" else []
    owners = ("ReplicaSet", {one["metadata"]["name"] for one in sets}) if sets else (kind, {name})
    gone = [*sets, *_owned(given, "Pod", namespace, owners)]
    return [one for one in given if not any(one is other for other in gone)]


def with_replicas(documents: Iterable[Any], workload: Json, namespace: str, name: str) -> list[Any]:
    """The documents with as many pods as the workload says; those that are missing are left to its expansion."""
    given, kind = list(documents), str(workload["kind"])
    wanted = _wanted(workload)
    owner, owned = kind, {name}
    if kind == "Deployment":
        sets = _owned(given, "ReplicaSet", namespace, (kind, {name}))
        if not sets:
            return given
        newest = max(sets, key=_age_key)
        scaled = {**newest, "spec": {**newest.get("spec", {}), "replicas": wanted}}
        given = [scaled if one is newest else one for one in given]
        owner, owned = "ReplicaSet", {newest["metadata"]["name"]}
    pods = _owned(given, "Pod", namespace, (owner, owned))
    surplus = sorted(pods, key=_removal_key, reverse=True)[: max(0, len(pods) - wanted)]
    return [one for one in given if not any(one is gone for gone in surplus)]


def _wanted(workload: Json) -> int:
    spec = workload.get("spec")
    given = spec if isinstance(spec, Mapping) else {}
    number = given.get("parallelism" if workload["kind"] == "Job" else "replicas", 1)
    return number if isinstance(number, int) and number >= 0 else 1


def _owned(
    documents: Iterable[Any], kind: str, namespace: str, owners: tuple[str, set[str]]
) -> list[Json]:
    """Objects of a kind that one of these owners, of one kind, made."""
    owner_kind, names = owners
    return [
        one
        for one in documents
        if isinstance(one, Mapping)
        and one.get("kind") == kind
        and (one.get("metadata") or {}).get("namespace", "default") == namespace
        and any(
            reference.get("kind") == owner_kind and reference.get("name") in names
            for reference in (one.get("metadata") or {}).get("ownerReferences") or ()
        )
    ]


def _age_key(one: Json) -> tuple[str, str]:
    meta = one["metadata"]
    return str(meta.get("creationTimestamp") or ""), str(meta.get("name"))


def _removal_key(pod: Json) -> tuple[bool, str, str]:
    spec = pod.get("spec")
    bound = isinstance(spec, Mapping) and bool(spec.get("nodeName"))
    return (not bound, *_age_key(pod))
