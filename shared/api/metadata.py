"""Metadata of an object, from an API server or from a file: what is missing or odd there counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from shared.api.faults import Fault
from shared.domain import labels as keys
from shared.domain.nodepools import PACKING_POLICIES, NodePool


class Metadata(NamedTuple):
    """What a record takes from it. A file gives neither uid nor generation."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    terminating: bool = False
    packing: str = ""
    """Of a pool: the packing policy it asks for; empty when it asks for none, or for one that there is not."""


def read_metadata(raw: Mapping[str, Any]) -> Metadata:
    """Of a whole object. Never raises."""
    meta = raw.get("metadata")
    if not isinstance(meta, Mapping):
        return Metadata()
    name, uid, generation = (meta.get(key) for key in ("name", "uid", "generation"))
    return Metadata(
        name=name if isinstance(name, str) else "",
        uid=uid if isinstance(uid, str) else "",
        generation=generation if type(generation) is int else 0,
        terminating=meta.get("deletionTimestamp") is not None,
        packing=_packing(meta) if _packing(meta) in PACKING_POLICIES else "",
    )


def packing_faults(raw: Mapping[str, Any]) -> tuple[Fault, ...]:
    """Of a pool: an annotation that asks for a packing policy that there is not."""
    meta = raw.get("metadata")
    asked = _packing(meta) if isinstance(meta, Mapping) else ""
    if not asked or asked in PACKING_POLICIES:
        return ()
    path = ("metadata", "annotations", keys.PACKING_ANNOTATION)
    return (Fault(path, f"{str(asked)[:40]!r} is not one of {', '.join(PACKING_POLICIES)}"),)


def _packing(meta: Mapping[str, Any]) -> Any:
    annotations = meta.get("annotations")
    return annotations.get(keys.PACKING_ANNOTATION) if isinstance(annotations, Mapping) else ""


def pool_metadata(pool: NodePool) -> dict[str, Any]:
    """The inverse, for a document."""
    annotations = {"annotations": {keys.PACKING_ANNOTATION: pool.packing}} if pool.packing else {}
    return {"name": pool.name, **annotations}
