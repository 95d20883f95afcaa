"""Metadata of an object, from an API server or from a file: what is missing or odd there counts as absent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Metadata(NamedTuple):
    """What a record takes from it. A file gives neither uid nor generation."""

    name: str = ""
    uid: str = ""
    generation: int = 0
    terminating: bool = False


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
    )
