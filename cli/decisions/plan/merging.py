"""The objects of a cluster as they would be after ``kubectl apply`` of changed manifests. Pure.

An object of the manifests takes the place of the one with its kind and name: spec and data as written, labels and
annotations added. ``status``, ``uid`` and creation time stay. What a manifest does not say about replicas stays too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cli.decisions.plan.workloads import WORKLOADS, with_replicas, without_pods
from shared.api.faults import Parsed
from shared.api.registry import identity
from shared.api.v1.ec2_node_classes import parse_ec2_node_class
from shared.api.v1.node_pools import parse_node_pool
from shared.api.v1alpha5.node_templates import parse_node_template
from shared.api.v1alpha5.provisioners import parse_provisioner
from shared.simulation.objects import DEFAULT_NAMESPACE, EPOCH, KINDS

Json = Mapping[str, Any]
Key = tuple[str, str, str]
"""(kind, namespace, name); the namespace of a cluster-wide object is empty."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
KEPT = ("metadata", "status")
MOST_FIELDS = 20
_READERS: dict[str, Callable[[Json], Parsed[Any]]] = {
    "NodePool": parse_node_pool,
    "EC2NodeClass": parse_ec2_node_class,
    "Provisioner": parse_provisioner,
    "AWSNodeTemplate": parse_node_template,
}


@dataclass(frozen=True)
class ObjectChange:
    """One object of the manifests that differs from the cluster's."""

    kind: str
    name: str
    """``namespace/name``, or the name of a cluster-wide object."""
    is_new: bool
    fields: tuple[str, ...]
    """Paths of the fields that differ, at most MOST_FIELDS; none of a new object."""


@dataclass(frozen=True)
class Merged:
    """``documents``: all objects as they would be."""

    documents: list[Any]
    changes: tuple[ObjectChange, ...]


def key_of(document: Json) -> Key | None:
    """None for an object without kind or name, and for a kind that planning does not use."""
    meta = document.get("metadata")
    kind = identity(document)[1]
    name = meta.get("name") if isinstance(meta, Mapping) else None
    if kind not in KINDS or not isinstance(meta, Mapping) or not isinstance(name, str):
        return None
    namespace = str(meta.get("namespace") or DEFAULT_NAMESPACE) if KINDS[kind].namespaced else ""
    return kind, namespace, name


def merged(held: Iterable[Any], manifests: Iterable[Any]) -> Merged:
    """``held``: the cluster's objects; ``manifests``: what would be applied, in this order."""
    documents = list(held)
    changes: list[ObjectChange] = []
    for manifest in manifests:
        key = key_of(manifest) if isinstance(manifest, Mapping) else None
        if key is None:
            documents.append(manifest)  # the reader of the inputs reports its faults
            continue
        documents, change = _with(documents, manifest, key)
        changes += [change] if change else []
    return Merged(documents, tuple(changes))


def _with(documents: list[Any], manifest: Json, key: Key) -> tuple[list[Any], ObjectChange | None]:
    kind, namespace, name = key
    shown = f"{namespace}/{name}" if namespace else name
    old = next((one for one in documents if isinstance(one, Mapping) and key_of(one) == key), None)
    if old is None:
        return [*documents, manifest], ObjectChange(kind, shown, True, ())
    new = _applied(old, manifest)
    fields = tuple(dict.fromkeys([*_differing(old, new, ()), *_removed(old, new, kind)]))
    if not fields or _reads_the_same(kind, old, new):
        return documents, None
    kept = [new if one is old else one for one in documents]
    if kind in WORKLOADS:
        template_changed = not _covers(_template(old), _template(manifest))
        kept = (
            without_pods(kept, kind, namespace, name)
            if template_changed
            else with_replicas(kept, new, namespace, name)
        )
    return kept, ObjectChange(kind, shown, False, fields[:MOST_FIELDS])


def _applied(old: Json, manifest: Json) -> dict[str, Any]:
    """As the API server would store it."""
    found = {name: value for name, value in old.items() if name in KEPT}
    found |= {name: value for name, value in manifest.items() if name not in KEPT}
    before, after = old["metadata"], manifest["metadata"]
    metadata = dict(before)
    for name in ("labels", "annotations"):
        gone = _applied_before(before, name).keys() - _entries(after, name).keys()
        entries = {k: v for k, v in _entries(before, name).items() if k not in gone}
        metadata[name] = {**entries, **_entries(after, name)}
    found["metadata"] = metadata
    if identity(manifest)[1] in WORKLOADS:
        found["spec"] = {**_replicas_of(old), **_entries(manifest, "spec")}
    return found


def _replicas_of(workload: Json) -> dict[str, Any]:
    spec = _entries(workload, "spec")
    return {name: spec[name] for name in ("replicas", "parallelism") if name in spec}


def _applied_before(metadata: Json, field: str) -> Json:
    """Labels or annotations that an earlier ``kubectl apply`` wrote: without them in the manifest it removes them."""
    return _entries(_entries(_last_applied(metadata), "metadata"), field)


def _last_applied(metadata: Json) -> Json:
    """The manifest of the last ``kubectl apply``; empty when that is not known."""
    try:
        written = json.loads(str(_entries(metadata, "annotations").get(LAST_APPLIED, "{}")))
    except ValueError:
        return {}
    return written if isinstance(written, Mapping) else {}


def _reads_the_same(kind: str, old: Json, new: Json) -> bool:
    """Do both say the same, although one leaves out what is the default?"""
    read = _READERS.get(kind)
    if read is None:
        return False
    records = [read(_named(one)).record for one in (old, new)]
    return records[0] is not None and records[0] == records[1]


def _named(document: Json) -> dict[str, Any]:
    """With the metadata that an API server sets, which the readers need."""
    metadata = {"uid": "", "creationTimestamp": EPOCH, **document["metadata"]}
    return {**document, "metadata": metadata}


def _removed(old: Json, new: Json, kind: str) -> Iterator[str]:
    """Paths in the spec that the manifest does not have any more. A workload keeps what the API server added."""
    if kind in WORKLOADS:
        return
    before = _last_applied(old["metadata"]) or old
    yield from _missing(before.get("spec"), new.get("spec"), ("spec",))


def _missing(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    if not isinstance(old, Mapping):
        return
    held = new if isinstance(new, Mapping) else {}
    for name, value in old.items():
        if name not in held:
            yield ".".join((*path, str(name)))
        else:
            yield from _missing(value, held[name], (*path, str(name)))


def _entries(value: Json, name: str) -> Json:
    found = value.get(name)
    return found if isinstance(found, Mapping) else {}


def _template(workload: Json) -> Any:
    return _entries(workload, "spec").get("template")


def _covers(held: Any, written: Any) -> bool:
    """Is everything that is written held already? The API server adds defaults to what is held."""
    if isinstance(written, Mapping):
        return isinstance(held, Mapping) and all(
            _covers(held.get(name), value) for name, value in written.items()
        )
    if isinstance(written, list):
        return (
            isinstance(held, list)
            and len(held) == len(written)
            and all(_covers(one, value) for one, value in zip(held, written, strict=True))
        )
    return bool(held == written) or str(held) == str(written)


def _differing(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Paths at which ``new`` says something else than ``old``; what only ``old`` has may be a default."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        for name, value in new.items():
            if path == () and name in ("status", "apiVersion", "kind"):
                continue
            if path == ("metadata",) and name not in ("labels", "annotations"):
                continue
            yield from _differing(old.get(name), value, (*path, str(name)))
        if path[:1] == ("metadata",) and len(path) == 2:
            yield from (".".join((*path, str(name))) for name in old.keys() - new.keys())
    elif not _covers(old, new) and not (old is None and new in ({}, [], "")):
        yield ".".join(path)
