"""The turn to launch a machine: of all open records that name it, only the oldest may be sent (F1, F30).

Two launchers run at once during a rolling update, or as replicas. Each lists its own work, so both may decide to launch
one machine, together with different other machines and so with different tokens. Therefore, after a record is written
and before it is sent, the records and then the machines are read once more:

    an older record is open    this one was never sent, and is deleted
    a machine has an instance  of another call: this one was never sent, and is deleted; its other machines ask anew
    a machine is gone          the same for a new record; one that was found open may have been sent, and goes on

The order of the two reads matters. Whoever wrote an older record either has it open still, or has written its result to
the machines before deleting it: so one of the two reads finds it. A launcher that dies between its record and these
reads leaves a record for which the next one does the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from services.launcher.launch.record import LaunchRecord, Subject
from services.launcher.launch.record_store import LaunchRecords
from shared.domain import labels as keys
from shared.domain.machines.machine import Machine
from shared.errors import NotFound
from shared.kube.machines import Machines
from shared.log import get_logger

log = get_logger(__name__)

MOST_READ_SINGLY = 16
"""More machines than these are read with one list."""


def is_served_by_another(machine: Machine | None, token: str) -> bool:
    """Has it an instance that another call started? A machine of an older build names no call, and counts as ours."""
    if machine is None or not machine.provider_id:
        return False
    return machine.annotations.get(keys.LAUNCH_TOKEN_ANNOTATION, token) != token


def is_gone(machine: Machine | None) -> bool:
    """Is it deleted, or being deleted?"""
    return machine is None or machine.terminating


@dataclass
class LaunchTurns:
    """Decides whether a record may be sent."""

    records: LaunchRecords
    machines: Machines

    async def take(self, record: LaunchRecord, *, fresh: bool) -> Mapping[str, Machine] | None:
        """The record's machines as they are now, by uid, when the record may be sent. None when it may not: it was
        never sent, and is deleted now.

        ``fresh``: it was written a moment ago. Raises TransientError.
        """
        first = await self.records.is_first(record)
        found = await self._read(record) if first else {}
        listed = [found.get(uid) for uid in record.uids]
        served = any(is_served_by_another(machine, record.token) for machine in listed)
        if first and not served and not (fresh and any(map(is_gone, listed))):
            return found
        log.info("another launch was faster", token=record.token, machines=len(record.uids))
        await self.records.drop(record.token)
        return None

    async def _read(self, record: LaunchRecord) -> dict[str, Machine]:
        wanted = set(record.uids)
        if len(wanted) > MOST_READ_SINGLY:
            listed = await self.machines.list()
            return {machine.uid: machine for machine in listed if machine.uid in wanted}
        read = await asyncio.gather(*(self._get(subject) for subject in record.subjects))
        return {machine.uid: machine for machine in read if machine and machine.uid in wanted}

    async def _get(self, subject: Subject) -> Machine | None:
        try:
            return await self.machines.get(subject.key)
        except NotFound:
            return None
