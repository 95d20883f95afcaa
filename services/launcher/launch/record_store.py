"""The open LaunchRecords on the API server, each written with one POST and never changed, and the turn to launch a
machine: of all open records that name it, only the oldest may be sent (F1, F30).

Two launchers run at once during a rolling update, or as replicas. Each lists its own work, so both may decide to launch
one machine, together with different other machines and so with different tokens. Therefore, after a record is written
and before it is sent, the records and then the machines are read once more:

    an older record is open    this one was never sent, and is deleted
    a machine has an instance  of another call: this one was never sent, and is deleted; its other machines ask anew
    a machine is gone          the same for a new record; one that was found open may have been sent, and goes on

Whoever sends a record of another launcher says so on the record's machines first. So a launcher whose call is refused
learns whether another one may have sent its record: only if not, the refusal proves that nothing was started.

The order of the two reads matters. Whoever wrote an older record either has it open still, or has written its result to
the machines before deleting it: so one of the two reads finds it. A launcher that dies between its record and these
reads leaves a record for which the next one does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from msgspec.structs import replace

from services.launcher.launch.fleet import (
    LaunchRecord,
    read_record,
    record_body,
    revision_of,
    uids_in,
)
from services.launcher.ports import Ports
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.errors import AlreadyExists, NotFound
from shared.kube.machines import Machines
from shared.kube.reading import or_none
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger

log = get_logger(__name__)

MOST_WRITTEN = 1000
"""Records that are known to be our own; to forget them costs a write for each machine of a repeated call."""
MOST_READ_SINGLY = 16
"""More machines than these are read with one list."""


@dataclass
class LaunchRecords:
    """The open records on the API server, and which of them may be sent."""

    ports: Ports
    machines: Machines
    _written: set[str] = field(default_factory=set)
    """Tokens of the open records that this process wrote."""

    async def list_open(self) -> tuple[list[LaunchRecord], frozenset[str]]:
        """The readable records, and the uids of machines in unreadable ones, which must not be launched twice."""
        found: list[LaunchRecord] = []
        unreadable: set[str] = set()
        for raw in (await self.ports.kube.list(LAUNCH_RECORDS)).items:
            try:
                found.append(read_record(raw))
            except (KeyError, TypeError, ValueError, AttributeError) as error:
                name = raw["metadata"]["name"]
                log.warning("unreadable launch record", name=name, error=repr(error))
                unreadable |= uids_in(raw)
        return found, frozenset(unreadable)

    async def write(self, record: LaunchRecord) -> tuple[LaunchRecord, bool]:
        """Store it, or find what another launcher stored under this token: that one counts. True: it is new.

        Raises TransientError: no record, no call.
        """
        try:
            stored = await self.ports.kube.create(LAUNCH_RECORDS, record_body(record))
        except AlreadyExists:
            return read_record(await self.ports.kube.get(LAUNCH_RECORDS, record.token)), False
        if len(self._written) >= MOST_WRITTEN:
            self._written.clear()
        self._written.add(record.token)
        return replace(record, revision=revision_of(stored)), True

    def is_of_another(self, record: LaunchRecord) -> bool:
        """Did another process write it, before this one began or beside it?"""
        return record.token not in self._written

    async def is_first(self, record: LaunchRecord) -> bool:
        """Does no other open record, older than this one, name any of its machines? One without a revision, and one
        that cannot be read, count as older.
        """
        records, unreadable = await self.list_open()
        mine = set(record.uids)
        return mine.isdisjoint(unreadable) and not any(
            other.token != record.token
            and not mine.isdisjoint(other.uids)
            and not 0 < record.revision < other.revision
            for other in records
        )

    async def drop(self, token: str) -> None:
        """Delete it: the call is over, and its result is written to the machines."""
        with suppress(NotFound):
            await self.ports.kube.delete(LAUNCH_RECORDS, token)
        self._written.discard(token)

    async def age(self, record: LaunchRecord) -> float:
        """Seconds since it was written. A clock that was set back makes it young, never negative."""
        return max(0.0, await self.ports.shared_now() - record.created_at)

    async def take_turn(self, record: LaunchRecord, *, fresh: bool) -> Mapping[str, Machine] | None:
        """The record's machines as they are now, by uid, when the record may be sent. None when it may not: it was
        never sent, and is deleted now.

        ``fresh``: it was written a moment ago. Raises TransientError.
        """
        first = await self.is_first(record)
        found = await self._read(record) if first else {}
        listed = [found.get(uid) for uid in record.uids]
        served = any(is_served_by_another(machine, record.token) for machine in listed)
        if first and not served and not (fresh and any(map(is_gone, listed))):
            return found
        log.info("another launch was faster", token=record.token, machines=len(record.uids))
        await self.drop(record.token)
        return None

    async def is_repeated(self, record: LaunchRecord) -> bool:
        """Has another launcher sent this record, or is about to? Raises TransientError."""
        found = (await self._read(record)).values()
        return any(
            machine.annotations.get(keys.REPEATED_CALL_ANNOTATION) == record.token
            for machine in found
        )

    async def _read(self, record: LaunchRecord) -> dict[str, Machine]:
        desired = set(record.uids)
        if len(desired) > MOST_READ_SINGLY:
            listed = await self.machines.list()
            return {machine.uid: machine for machine in listed if machine.uid in desired}
        gets = (or_none(self.machines.get(subject.key)) for subject in record.subjects)
        read = await asyncio.gather(*gets)
        return {machine.uid: machine for machine in read if machine and machine.uid in desired}


def is_served_by_another(machine: Machine | None, token: str) -> bool:
    """Has it an instance that another call started? A machine of an older build names no call, and counts as ours."""
    if machine is None or not machine.provider_id:
        return False
    return machine.annotations.get(keys.LAUNCH_TOKEN_ANNOTATION, token) != token


def is_gone(machine: Machine | None) -> bool:
    """Is it deleted, or being deleted?"""
    return machine is None or machine.terminating
