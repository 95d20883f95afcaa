"""``GET /explain/ledgers/regret``: what the consolidations of the last hours saved, against what they promised.

The archive is read in a process of its own, one question at a time: a week of records takes seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from services.scheduler.status.explain import STANDBY
from services.scheduler.status.explain_record import NOT_RECORDED
from services.scheduler.status.one_at_a_time import OneAtATime
from shared.concurrency.clock import Clock
from shared.errors import DovetailError
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.reading import Archive
from shared.runtime.archive.regret import regret_document, regret_of
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer

PATH = "/explain/ledgers/regret"
HOURS, MOST_HOURS = 24, 31 * 24
MOST_COMMANDS = 200
BOUNDS = Bounds("the ledger of consolidations", seconds=60.0, memory_bytes=1024 << 20, niceness=19)
WRONG_HOURS = f"hours: give a whole number from 1 to {MOST_HOURS}, such as hours={HOURS}"


class Period(NamedTuple):
    """What the reading process is given. Seconds since the epoch."""

    place: ArchivePlace
    begin: float
    end: float


@dataclass
class RegretLedger:
    """Answers one question at a time."""

    place: ArchivePlace
    clock: Clock
    leading: Callable[[], bool]
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "the ledger is being computed; try again when it is",
            "ask about fewer hours, or run `dovetail ledger regret`",
        ),
        init=False,
    )

    async def answer(self, _body: bytes, query: Mapping[str, str]) -> Answer:
        """400 for a wrong number of ``hours``; 404 where nothing is recorded; otherwise the newest commands, newest
        first, and the totals of all."""
        hours = query.get("hours", str(HOURS))
        if not (hours.isascii() and hours.isdigit() and 1 <= int(hours[:9]) <= MOST_HOURS):
            return json_answer(400, {"error": WRONG_HOURS})
        if not self.place.address:
            return json_answer(404, {"error": NOT_RECORDED})
        if not self.leading():
            # A directory may be a disk of this replica, where only a leader writes.
            return json_answer(503, {"error": STANDBY, "standby": True})
        end = self.clock.now()
        period = Period(self.place, end - 3600 * int(hours), end)
        return await self._turn.answer(partial(in_child, answer_request, period, self.bounds))


def answer_request(period: Period) -> Answer:
    """The body of the reading process."""
    return asyncio.run(_answered(*period))


async def _answered(place: ArchivePlace, begin: float, end: float) -> Answer:
    store = open_store(place.address, endpoint_url=place.endpoint_url)
    try:
        found, gaps = await regret_of(Archive(store, place.cluster, place.role), begin, end)
    except DovetailError as error:
        return json_answer(503, {"error": str(error)})
    finally:
        await store.close()
    document = regret_document(found, begin, end, gaps)
    document["commands"] = document["commands"][: -MOST_COMMANDS - 1 : -1]
    return json_answer(200, document)
