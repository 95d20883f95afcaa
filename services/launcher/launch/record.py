"""LaunchRecords: what is about to be asked of EC2, written down before it is asked (F1).

One record per call, named by the call's client token, written with one POST and never changed. It names every machine
of the call, sorted, and holds the exact request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import replace

from services.launcher.launch.fleet import Json, capacity_type_of, overrides_of
from shared.clock import Clock, parse_rfc3339, rfc3339
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.errors import AlreadyExists, NotFound
from shared.kube.client import Kube
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger

log = get_logger(__name__)


READ_OF_OVERRIDES = ("InstanceType", "AvailabilityZone", "SubnetId")


class Subject(msgspec.Struct, frozen=True):
    """One machine that a call is for."""

    key: str
    uid: str


class LaunchRecord(msgspec.Struct, frozen=True):
    """One intended call. ``request`` holds token, number and tags as well."""

    token: str
    subjects: tuple[Subject, ...]
    request: Json
    created_at: float
    images: dict[str, str] = {}
    """Launch template id -> image that it starts, which EC2 will not say in its answer (LCH-58)."""
    reservations: dict[str, str] = {}
    """Launch template id -> capacity reservation that it starts in."""
    attempt: int = 0
    epoch: int = 0
    revision: int = 0
    """The API server's, in the order of creation; 0 for one that is not stored, or whose server counts otherwise."""

    @property
    def capacity_type(self) -> str:
        """What the call asks for. EC2 takes reserved capacity for a kind of on-demand."""
        return keys.RESERVED if self.reservations else capacity_type_of(self.request)

    @property
    def uids(self) -> tuple[str, ...]:
        return tuple(subject.uid for subject in self.subjects)


def subjects_of(machines: Sequence[Machine]) -> tuple[Subject, ...]:
    """In the order in which instances are dealt to them."""
    ordered = sorted(machines, key=lambda machine: (machine.name, machine.kind))
    return tuple(Subject(machine.key, machine.uid) for machine in ordered)


def read_record(raw: Mapping[str, Any]) -> LaunchRecord:
    """A stored record. One of an older build lacks what came later."""
    spec = raw["spec"]
    return LaunchRecord(
        token=str(spec["clientToken"]),
        subjects=tuple(
            Subject(f"{one.get('kind') or 'Machine'}/{one['name']}", str(one["uid"]))
            for one in spec["machines"]
        ),
        request=_checked(spec["request"]),
        created_at=parse_rfc3339(str(spec["createdAt"])),
        images=spec.get("images") or {},
        reservations=spec.get("reservations") or {},
        attempt=int(spec.get("attempt") or 0),
        epoch=int(spec.get("epoch") or 0),
        revision=revision_of(raw),
    )


def _checked(request: Json) -> Json:
    """Raises KeyError, TypeError or AttributeError for one that nobody could go on with."""
    capacity_type_of(request)
    for override in overrides_of(request):
        if not all(isinstance(override[field], str) for field in READ_OF_OVERRIDES):
            raise TypeError("an override without type, zone or subnet")
    return request


def revision_of(raw: Mapping[str, Any]) -> int:
    """When the API server took it, counted in its changes: a record is never changed after that."""
    text = str((raw.get("metadata") or {}).get("resourceVersion") or "")
    return int(text) if text.isascii() and text.isdigit() else 0


def record_body(record: LaunchRecord) -> Json:
    """What is stored of it."""
    reserved = {"reservations": record.reservations} if record.reservations else {}
    return {
        "metadata": {"name": record.token},
        "spec": {
            "machines": [_stored(subject) for subject in record.subjects],
            "clientToken": record.token,
            "attempt": record.attempt,
            "request": record.request,
            "images": record.images,
            "epoch": record.epoch,
            "createdAt": rfc3339(record.created_at),
            **reserved,
        },
    }


def _stored(subject: Subject) -> Json:
    kind, _, name = subject.key.rpartition("/")
    return {"kind": kind, "name": name, "uid": subject.uid}


@dataclass
class LaunchRecords:
    """The open records on the API server."""

    kube: Kube
    clock: Clock

    async def look(self) -> tuple[list[LaunchRecord], frozenset[str]]:
        """The readable records, and the uids of machines in unreadable ones: these must not be started twice."""
        found: list[LaunchRecord] = []
        unreadable: set[str] = set()
        for raw in (await self.kube.list(LAUNCH_RECORDS)).items:
            try:
                found.append(read_record(raw))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                name = raw["metadata"]["name"]
                log.warning("unreadable launch record", name=name, error=repr(error))
                unreadable |= _uids_in(raw)
        return found, frozenset(unreadable)

    async def write(self, record: LaunchRecord) -> tuple[LaunchRecord, bool]:
        """Store it, or find what another launcher stored under this token: that one counts. True: it is new.

        Raises TransientError: no record, no call.
        """
        try:
            stored = await self.kube.create(LAUNCH_RECORDS, record_body(record))
        except AlreadyExists:
            return read_record(await self.kube.get(LAUNCH_RECORDS, record.token)), False
        return replace(record, revision=revision_of(stored)), True

    async def is_first(self, record: LaunchRecord) -> bool:
        """Does no other open record, older than this one, name any of its machines? One without a revision, and one
        that cannot be read, count as older.
        """
        records, unreadable = await self.look()
        mine = set(record.uids)
        return mine.isdisjoint(unreadable) and not any(
            other.token != record.token
            and not mine.isdisjoint(other.uids)
            and not 0 < record.revision < other.revision
            for other in records
        )

    async def drop(self, token: str) -> None:
        """The call is over, all that came of it is written down."""
        try:
            await self.kube.delete(LAUNCH_RECORDS, token)
        except NotFound:
            return

    def age(self, record: LaunchRecord) -> float:
        """Seconds since it was written. A clock that was set back makes it young, never negative."""
        return max(0.0, self.clock.now() - record.created_at)


def _uids_in(raw: Mapping[str, Any]) -> set[str]:
    spec = raw.get("spec")
    listed = spec.get("machines") if isinstance(spec, Mapping) else None
    named = listed if isinstance(listed, list) else []
    return {str(one["uid"]) for one in named if isinstance(one, Mapping) and "uid" in one}
