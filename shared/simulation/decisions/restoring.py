"""From a snapshot to what a record keeps of it, and back.

The log has the mirror. A record keeps what its snapshot had beside it: the overlay, the catalogue's digest, and the
offerings that EC2 had refused, now and before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from operator import is_
from typing import Any

import msgspec
from msgspec.structs import replace

from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.records import MACHINES
from shared.domain.snapshot import Snapshot
from shared.domain.workloads.pods import Pod
from shared.simulation.decisions.assembling import DecodedRecords, assembled
from shared.simulation.decisions.contents import Contents
from shared.simulation.decisions.records import Input, Overlay

_ENCODER = msgspec.json.Encoder()
_MACHINE = msgspec.json.Decoder(Machine)


def overlay_of(shown: Snapshot, snapshot: Snapshot, own: Iterable[Machine]) -> Overlay:
    """What ``snapshot`` has beyond the mirror. ``shown``: the snapshot as the mirror had it; a pod that is the same is
    the same object in both. ``own``: machines that the scheduler created; those that the snapshot has are kept."""
    pods = {after.uid: _changed(before, after) for before, after in _differing(shown, snapshot)}
    own = tuple(own)
    held = {id(machine) for machine in snapshot.machines} if own else frozenset()
    machines = (msgspec.Raw(_ENCODER.encode(one)) for one in own if id(one) in held)
    return Overlay(pods, tuple(machines))


def _differing(shown: Snapshot, snapshot: Snapshot) -> Iterator[tuple[Pod, Pod]]:
    """The pods that are not the same object in both, before and after."""
    if shown.pods is snapshot.pods:
        return
    if len(shown.pods) == len(snapshot.pods):
        # Nearly always: a decision changes some pods in their places, if any, and the others are the same objects.
        if all(map(is_, shown.pods, snapshot.pods)):
            return
        others = [at for at, same in enumerate(map(is_, shown.pods, snapshot.pods)) if not same]
        if all(shown.pods[at].uid == snapshot.pods[at].uid for at in others):
            yield from ((shown.pods[at], snapshot.pods[at]) for at in others)
            return
    before = {pod.uid: pod for pod in shown.pods}
    yield from ((before[pod.uid], pod) for pod in snapshot.pods if pod is not before[pod.uid])


def _changed(before: Pod, after: Pod) -> dict[str, Any]:
    fields = Pod.__struct_fields__
    pairs = ((name, getattr(before, name), getattr(after, name)) for name in fields)
    return {name: msgspec.to_builtins(new) for name, old, new in pairs if old != new}


def input_digest(contents: bytes, found: Input) -> str:
    """Digest of a whole snapshot. ``contents``: that of the mirror's objects."""
    parts: tuple[Any, ...] = (found.generation, found.catalogue, found.unavailable, found.overlay)
    if found.shortages:
        parts = (*parts, found.shortages)
    return sha256(contents + _ENCODER.encode(parts)).hexdigest()[:32]


def restored(
    contents: Contents, decoded: DecodedRecords, catalogue: Catalogue, found: Input
) -> Snapshot:
    """The snapshot of a record. ``contents``: the mirror at its position; ``decoded``: kept between two calls, for
    speed. Raises msgspec.ValidationError for records of another version."""

    def records(kind: str) -> Mapping[str, Any]:
        return decoded.of(kind, contents.kinds.get(kind, {}))

    own = [_MACHINE.decode(one) for one in found.overlay.machines]
    machines = {**records(MACHINES), **{one.key: one for one in own}}
    snapshot = assembled(
        records,
        generation=found.generation,
        machines=machines.values(),
        catalogue=catalogue,
        unavailable=frozenset(found.unavailable),
        shortages=found.shortages,
    )
    if not found.overlay.pods:
        return snapshot
    return replace(snapshot, pods=tuple(_laid_over(snapshot.pods, found.overlay.pods)))


def _laid_over(pods: Iterable[Pod], changes: Mapping[str, dict[str, Any]]) -> Iterable[Pod]:
    types = {field.name: field.type for field in msgspec.structs.fields(Pod)}
    for pod in pods:
        fields = changes.get(pod.uid)
        if fields is None:
            yield pod
            continue
        typed = {name: msgspec.convert(value, types[name]) for name, value in fields.items()}
        yield replace(pod, **typed)
