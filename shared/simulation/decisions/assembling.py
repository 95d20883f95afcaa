"""Makes a snapshot from the mirror's records. Each record is decoded once, however often snapshots are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import compress
from operator import attrgetter, ne
from typing import Any, Protocol, runtime_checkable

from shared.domain.instance_types.shortages import Shortages
from shared.domain.instance_types.types import Catalogue
from shared.domain.machines.machine import Machine
from shared.domain.records import (
    CAPACITY_BUFFERS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CSI_NODES,
    DAEMON_SETS,
    DEVICE_CLASSES,
    DEVICE_TEMPLATES,
    GANG_SIZES,
    NAMESPACES,
    NODE_CLASSES,
    NODE_POOLS,
    NODES,
    PDBS,
    POD_TEMPLATES,
    PODS,
    PROVISIONING_REQUESTS,
    RECOMMENDATIONS,
    RECORD_TYPES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    VOLUMES,
    decode_record,
)
from shared.domain.snapshot import OfferingKey, Snapshot
from shared.domain.workloads.gang_sizes import with_sizes
from shared.domain.workloads.pods import ENDED
from shared.domain.workloads.recommendations import Recommendations


@runtime_checkable
class CountsChanges(Protocol):
    """Bodies that know what changed lately, as the mirror's reader has them."""

    count: int
    """Changes so far."""

    def changed_since(self, count: int) -> list[str] | None:
        """The keys of the changes after the first ``count``; None when that is longer ago than is remembered."""


class _Kind:
    """The records of one kind, and from which bodies they were decoded."""

    def __init__(self) -> None:
        self.bodies: dict[str, bytes] = {}
        self.records: dict[str, Any] = {}
        self.given: Mapping[str, Any] = {}
        """What callers have: it is not changed any more."""
        self._source: Mapping[str, bytes] = {}
        self._counting: CountsChanges | None = None
        """The same, if it counts its changes: to ask that of an object costs more than all else here."""
        self._count = 0

    def changed(self, source: Mapping[str, bytes]) -> Iterable[str]:
        """Keys of bodies that may differ from those that were decoded."""
        keys = None
        if self._counting is not None and source is self._source:
            keys = self._counting.changed_since(self._count)
        return self._all_changed(source) if keys is None else keys

    def read(self, source: Mapping[str, bytes]) -> None:
        """All of these bodies are decoded."""
        if source is not self._source:
            self._source = source
            self._counting = source if isinstance(source, CountsChanges) else None
        self._count = 0 if self._counting is None else self._counting.count

    def _all_changed(self, source: Mapping[str, bytes]) -> list[str]:
        # In C: there may be a hundred thousand.
        different = map(ne, source.values(), map(self.bodies.get, source))
        changed = list(compress(source, different))
        gone = (
            self.bodies.keys() - source.keys()
            if len(self.bodies) > len(source) - len(changed)
            else ()
        )
        return [*changed, *gone]


@dataclass
class DecodedRecords:
    """Typed records of all kinds, decoded once per change."""

    _kinds: dict[str, _Kind] = field(
        default_factory=lambda: {kind: _Kind() for kind in RECORD_TYPES}
    )

    def of(self, kind: str, bodies: Mapping[str, bytes]) -> Mapping[str, Any]:
        """Key -> record; the same object as before if nothing changed. A body that is equal to the one before is not
        decoded again. Raises msgspec.MsgspecError at each call while a body cannot be read."""
        held = self._kinds[kind]
        changed = held.changed(bodies)
        try:
            for key in changed:
                _update(kind, held, key, bodies.get(key))
        finally:
            if changed:
                held.given = dict(held.records)
        # Not before: after a body that cannot be read, the next call looks at the same changes.
        held.read(bodies)
        return held.given


def _update(kind: str, held: _Kind, key: str, body: bytes | None) -> None:
    if body is None:
        held.bodies.pop(key, None)
        held.records.pop(key, None)
    elif held.bodies.get(key) != body:
        held.records[key] = decode_record(kind, body)
        held.bodies[key] = body


def assembled(
    records: Callable[[str], Mapping[str, Any]],
    *,
    generation: int,
    machines: Iterable[Machine],
    catalogue: Catalogue,
    unavailable: frozenset[OfferingKey],
    shortages: Shortages = (),
) -> Snapshot:
    """One snapshot, in a fixed order. ``records``: of one kind by key; ``machines``: of the mirror, and ours."""

    def by_name(kind: str) -> tuple[Any, ...]:
        return _sorted(records(kind).values())

    # No call for each pod: there may be a hundred thousand.
    living = [pod for pod in records(PODS).values() if pod.phase not in ENDED]
    recommended = Recommendations(records(RECOMMENDATIONS).values())
    pods = recommended.of_pods(with_sizes(living, records(GANG_SIZES).values()))
    return Snapshot(
        generation=generation,
        pods=tuple(sorted(pods, key=attrgetter("uid"))),
        nodes=by_name(NODES),
        machines=_sorted(machines),
        pools=by_name(NODE_POOLS),
        node_classes=by_name(NODE_CLASSES),
        daemon_sets=tuple(sorted(records(DAEMON_SETS).values(), key=lambda one: one.key)),
        catalogue=catalogue,
        unavailable=unavailable,
        claims=by_name(CLAIMS),
        volumes=by_name(VOLUMES),
        storage_classes=by_name(STORAGE_CLASSES),
        csi_nodes=by_name(CSI_NODES),
        pdbs=tuple(sorted(records(PDBS).values(), key=lambda pdb: pdb.key)),
        namespaces=by_name(NAMESPACES),
        buffers=by_name(CAPACITY_BUFFERS),
        pod_templates=recommended.of_templates(by_name(POD_TEMPLATES)),
        requests=by_name(PROVISIONING_REQUESTS),
        shortages=shortages,
        device_classes=by_name(DEVICE_CLASSES),
        resource_claims=by_name(RESOURCE_CLAIMS),
        claim_templates=by_name(CLAIM_TEMPLATES),
        resource_slices=by_name(RESOURCE_SLICES),
        device_templates=by_name(DEVICE_TEMPLATES),
    )


def _sorted(records: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(records, key=lambda record: (record.name, getattr(record, "key", ""))))
