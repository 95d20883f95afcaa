"""The open LaunchRecords on the API server. Each is written with one POST and never changed (F1)."""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from services.launcher.launch.record import (
    LaunchRecord,
    read_record,
    record_body,
    revision_of,
    uids_in,
)
from services.launcher.ports import Ports
from shared.errors import AlreadyExists, NotFound
from shared.kube.resources import LAUNCH_RECORDS
from shared.log import get_logger

log = get_logger(__name__)


@dataclass
class LaunchRecords:
    """The open records on the API server."""

    ports: Ports

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
        return replace(record, revision=revision_of(stored)), True

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
        try:
            await self.ports.kube.delete(LAUNCH_RECORDS, token)
        except NotFound:
            return

    def age(self, record: LaunchRecord) -> float:
        """Seconds since it was written. A clock that was set back makes it young, never negative."""
        return max(0.0, self.ports.clock.now() - record.created_at)
