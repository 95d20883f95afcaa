"""Whose turn is it to launch a machine? Asked after the record is written and before it is sent (F1, F30).

Two launchers run at once during a rolling update, or as replicas. Each lists its own work, so both may decide to launch
one machine, in different company and so with different tokens. Therefore, of all open records that name a machine only
the oldest is ever sent, and none is sent for a machine that another record's call has served:

    a record was written    the records and then the machines are read once more
    an older one is open    this one was never sent, and goes
    a machine is served     by another call: this one was never sent, and goes; its other machines are asked for anew
    a machine is gone       the same for a new record; one that was found open may have been sent, and goes on

Whoever wrote an older record either has it open still, or has written down what came of it: so one of the two looks
finds it. A launcher that dies between its record and this look leaves a record for which the next one asks the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from services.launcher.launch.record import LaunchRecord, LaunchRecords, Subject
from shared.domain import labels as keys
from shared.domain.machines import Machine
from shared.errors import NotFound
from shared.kube.machines import Machines
from shared.log import get_logger

log = get_logger(__name__)

MOST_ASKED_SINGLY = 16
"""More machines than these are read with one list."""


def is_served_by_another(machine: Machine | None, token: str) -> bool:
    """Pure: has it an instance that another call started? One of an older build does not say, and may be ours."""
    if machine is None or not machine.provider_id:
        return False
    return machine.annotations.get(keys.LAUNCH_TOKEN_ANNOTATION, token) != token


def is_lost(machine: Machine | None) -> bool:
    """Pure: is it gone, or going?"""
    return machine is None or machine.terminating


@dataclass
class LaunchTurns:
    """Settles which record is sent."""

    records: LaunchRecords
    machines: Machines

    async def hold(self, record: LaunchRecord, *, fresh: bool) -> Mapping[str, Machine] | None:
        """The record's machines as they are now, by uid, for the record may be sent. None: it never was, and is
        dropped now.

        ``fresh``: it was written a moment ago. Raises TransientError.
        """
        first = await self.records.is_first(record)
        found = await self._read(record) if first else {}
        listed = [found.get(uid) for uid in record.uids]
        served = any(is_served_by_another(machine, record.token) for machine in listed)
        if first and not served and not (fresh and any(map(is_lost, listed))):
            return found
        log.info("another launch was faster", token=record.token, machines=len(record.uids))
        await self.records.drop(record.token)
        return None

    async def _read(self, record: LaunchRecord) -> dict[str, Machine]:
        wanted = set(record.uids)
        if len(wanted) > MOST_ASKED_SINGLY:
            listed = await self.machines.list()
            return {machine.uid: machine for machine in listed if machine.uid in wanted}
        asked = await asyncio.gather(*(self._get(subject) for subject in record.subjects))
        return {machine.uid: machine for machine in asked if machine and machine.uid in wanted}

    async def _get(self, subject: Subject) -> Machine | None:
        try:
            return await self.machines.get(subject.key)
        except NotFound:
            return None
