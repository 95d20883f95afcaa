"""The few fields of each machine and node that the watcher's timed work needs, read again only when a record changed.

A record of a machine names up to 600 instance types: to decode thousands of them every two seconds would block the
event loop for a tenth of a second each time, and to keep them decoded would take hundreds of megabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from shared.api.hashes import METHOD
from shared.domain import labels as keys
from shared.domain.machines.machine import DRIFTED, Machine
from shared.domain.nodes import Node
from shared.domain.pools.generations import OF_KIND, Generation
from shared.domain.records import decode_record


class Member(msgspec.Struct, frozen=True, omit_defaults=True):
    """One machine or node of a pool, or of none."""

    name: str
    uid: str
    provider_id: str
    pool_key: str
    capacity: dict[str, int]
    terminating: bool
    key: str = ""
    """Of a machine. A node has none of the fields from here on."""
    node_name: str = ""
    node_class_key: str = ""
    last_pod_event_at: float = 0.0
    lacks_hashes: bool = False
    """Its hashes were made by an older method, and nothing is decided by them (NP-20)."""

    @property
    def api(self) -> Generation:
        """The rules of a machine's generation."""
        return OF_KIND[self.key.partition("/")[0]]


def machine_member(machine: Machine) -> Member:
    hashed = machine.annotations.get(keys.HASHED_BY) == METHOD
    return Member(
        name=machine.name,
        uid=machine.uid,
        provider_id=machine.provider_id,
        pool_key=machine.pool_key,
        capacity=machine.capacity,
        terminating=machine.terminating,
        key=machine.key,
        node_name=machine.node_name,
        node_class_key=machine.node_class_key,
        last_pod_event_at=machine.last_pod_event_at,
        lacks_hashes=not hashed and not machine.has(DRIFTED) and not machine.terminating,
    )


def node_member(node: Node) -> Member:
    return Member(
        name=node.name,
        uid=node.uid,
        provider_id=node.provider_id,
        pool_key=node.pool_key,
        capacity=node.capacity if node.is_managed else {},
        terminating=node.terminating,
    )


@dataclass
class Members:
    """The members of one kind of record, as last seen."""

    kind: str
    member: Callable[[Any], Member]
    _held: dict[str, tuple[bytes, Member]] = field(default_factory=dict)

    def of(self, records: Mapping[str, bytes]) -> list[Member]:
        """Of these records, by key. A record that is the same object as the last time is not read again."""
        before, self._held = self._held, {}
        for key, body in records.items():
            known = before.get(key)
            self._held[key] = known if known and known[0] is body else (body, self._read(body))
        return [member for _, member in self._held.values()]

    def _read(self, body: bytes) -> Member:
        return self.member(decode_record(self.kind, body))
