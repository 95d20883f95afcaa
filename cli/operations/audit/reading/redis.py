"""Redis: the depth of each stream, and the mirror beside the API server's own objects.

The rights are those of the user ``operator``. Where Redis cannot be reached, the console says the depths.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from cli.operations.audit.picture import Difference, Mirror, Queue
from services.watcher.conversion import KINDS, Kind
from services.watcher.optional_kinds import DEVICES, GATES
from shared.domain.records import PODS
from shared.errors import InvalidObject, NotFound
from shared.kube.client import Kube
from shared.redis.bus import Bus
from shared.redis.bus.connection import call, pairs, server_time
from shared.redis.mirror.change import MirrorKeys
from shared.redis.mirror.integrity.digests import split
from shared.redis.streams import GROUPS

MOST_DIFFERENCES = 1_000
Json = Mapping[str, Any]
PLANNING_AIDS = ("parts", "next_requests")
"""Fields of a pod that are filled in with a feature gate only."""


async def read_queues(bus: Bus) -> list[Queue]:
    """Every stream. Raises TransientError and Unauthorized."""
    found = []
    for stream in GROUPS:
        depth = await bus.depth(stream)
        oldest = {}
        for name, group in depth.groups.items():
            times = (
                await bus.oldest_pending(stream, name),
                (await bus.unread(stream, group)).oldest,
            )
            known = [at for at in times if at is not None]
            if known:
                oldest[name] = min(known)
        delayed = await bus.delayed(stream)
        found.append(Queue(stream, depth.length, depth.dead, delayed, oldest))
    return found


def queues_in(report: Json, now: float) -> list[Queue]:
    """The same from the console's report."""
    return [
        Queue(
            str(one["stream"]), int(one["length"]), int(one["dead"]), int(one["delayed"]),
            {
                str(group["name"]): now - float(group["oldestSeconds"])
                for group in one["groups"]
                if group["oldestSeconds"] is not None
            },
        )
        for one in report["queues"]
    ]  # fmt: skip


async def read_mirror(bus: Bus, kube: Kube) -> Mirror:
    """The mirror's state, and up to 1,000 entries that differ, of the kinds that every watcher mirrors.

    Objects are listed before the entries are read. Raises DovetailError.
    """
    keys = MirrorKeys(bus.prefix)
    complete = bool(await call(bus.redis, "look for the mirror", "EXISTS", keys.complete))
    written = await call(bus.redis, "read the heartbeat", "GET", keys.heartbeat)
    now = await server_time(bus.redis)
    age = max(0.0, now - int(written) / 1000) if written is not None else None
    length = int(await call(bus.redis, "read the length", "XLEN", keys.stream))
    found: list[Difference] = []
    for name, kinds in _by_name().items():
        expected: dict[str, Entry] = {}
        for kind in kinds:
            expected |= await _expected(kube, kind)
        stored = pairs(await call(bus.redis, "read the mirror", "HGETALL", keys.objects(name)))
        found += differences(name, expected, {key.decode(): body for key, body in stored.items()})
    return Mirror(complete, age, length, tuple(found[:MOST_DIFFERENCES]))


class Entry(msgspec.Struct, frozen=True):
    """What the mirror should hold: the record as JSON, and the object's resourceVersion."""

    body: bytes
    version: str


def _by_name() -> dict[str, list[Kind]]:
    """The kinds that no setting asks for, by their name in the mirror. Two generations share a name."""
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        found.setdefault(kind.name, []).append(kind)
    return {
        name: kinds
        for name, kinds in found.items()
        if not any(kind.resource in GATES or kind.resource in DEVICES for kind in kinds)
    }


async def _expected(kube: Kube, kind: Kind) -> dict[str, Entry]:
    def read(raw: Json) -> tuple[str, Entry] | None:
        try:
            record = kind.convert(raw).record
        except InvalidObject:
            return None
        if record is None:
            return None
        version = str(raw["metadata"].get("resourceVersion", ""))
        return kind.key(raw), Entry(msgspec.json.encode(record), version)

    try:
        listed = await kube.read_all(kind.resource, read)
    except NotFound:
        return {}
    return dict(one for one in listed if one is not None)


def differences(
    name: str, expected: Mapping[str, Entry], stored: Mapping[str, bytes]
) -> list[Difference]:
    """Pure. ``stored``: key -> tag and record, as the mirror holds them."""
    found = []
    for key, entry in sorted(expected.items()):
        if key not in stored:
            found.append(Difference(f"{name} {key}", "missing", entry.version))
            continue
        tag, body = split(stored[key])
        if not _is_same(name, entry.body, body):
            found.append(Difference(f"{name} {key}", "stale", f"{entry.version} {tag.hex()}"))
    return found + [
        Difference(f"{name} {key}", "surplus", split(stored[key])[0].hex())
        for key in sorted(stored.keys() - expected.keys())
    ]


def _is_same(name: str, expected: bytes, stored: bytes) -> bool:
    """The order of the fields of a mapping says nothing: it differs between processes."""
    return expected == stored or _plain(name, expected) == _plain(name, stored)


def _plain(name: str, body: bytes) -> object:
    try:
        value = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return body
    if name == PODS and isinstance(value, dict):
        return {key: part for key, part in value.items() if key not in PLANNING_AIDS}
    return value
