"""The mirror: what Redis holds of the cluster equals what the API server holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from services.watcher.conversion import Kind
from services.watcher.optional_kinds import kinds
from shared.domain.feature_gates import FeatureGates
from shared.errors import InvalidObject
from shared.redis.mirror.change import MirrorKeys
from shared.redis.mirror.integrity.digests import split
from simulation.invariants.delivery import prefix_of

if TYPE_CHECKING:
    from simulation.world import World

SHOWN = 5
"""Differences that a sentence names."""


@dataclass
class MirrorIsEqual:
    """I8, R2: at the end the mirror holds the record of each object as the API server has it, and no other."""

    name: str = "the mirror equals the API server"

    def check(self, world: World) -> list[str]:
        """Entries that differ, by kind."""
        keys = MirrorKeys(prefix_of(world))
        found = []
        for name, expected in expected_entries(world).items():
            stored = {
                key.decode(): split(value)[1]
                for key, value in world.redis.hash(keys.objects(name)).items()
            }
            found += _differences(name, expected, stored)
        return found


def expected_entries(world: World) -> dict[str, dict[str, bytes]]:
    """Kind of the mirror -> key -> record, converted from the API server's own objects."""
    found: dict[str, dict[str, bytes]] = {}
    for kind in kinds(FeatureGates()):
        entries = found.setdefault(kind.name, {})
        for raw in world.store.list(kind.resource.plural, group=kind.resource.group):
            body = _record(kind, raw)
            if body is not None:
                entries[kind.key(raw)] = body
    return found


def _record(kind: Kind, raw: dict[str, object]) -> bytes | None:
    try:
        record = kind.convert(raw).record
    except InvalidObject:
        return None
    return None if record is None else msgspec.json.encode(record)


def _differences(kind: str, expected: dict[str, bytes], stored: dict[str, bytes]) -> list[str]:
    missing = sorted(expected.keys() - stored.keys())
    surplus = sorted(stored.keys() - expected.keys())
    both = expected.keys() & stored.keys()
    stale = sorted(key for key in both if not _is_same(expected[key], stored[key]))
    named = (("are missing", missing), ("should be gone", surplus), ("are out of date", stale))
    return [
        f"{len(names)} {kind} {what} in the mirror: {', '.join(names[:SHOWN])}"
        for what, names in named
        if names
    ]


def _is_same(expected: bytes, stored: bytes) -> bool:
    """The order of the fields of a mapping says nothing: it differs between processes."""
    if expected == stored:
        return True
    try:
        return bool(msgspec.json.decode(expected) == msgspec.json.decode(stored))
    except msgspec.DecodeError:
        return False
