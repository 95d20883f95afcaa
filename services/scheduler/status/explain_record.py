"""``GET /explain/decisions/ID``: all that was recorded of one decision, as ``dovetail explain decision`` shows it.

The archive is read in a process of its own, one question at a time: a week of records takes seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from services.scheduler.status.one_at_a_time import OneAtATime
from shared.errors import DovetailError, NotFound
from shared.runtime.archive.explaining import decision_document
from shared.runtime.archive.opening import open_store
from shared.runtime.archive.place import ArchivePlace
from shared.runtime.archive.reading import Archive
from shared.runtime.child import Bounds, in_child
from shared.runtime.services import Answer, json_answer

PATH = "/explain/decisions/{id}"
NOT_RECORDED = "decisions are not recorded here: set RECORD_STORE on the scheduler"
BOUNDS = Bounds("the explanation", seconds=60.0, memory_bytes=1024 << 20, niceness=10)


@dataclass
class RecordExplainer:
    """Answers about one recorded decision at a time."""

    place: ArchivePlace
    bounds: Bounds = BOUNDS
    _turn: OneAtATime = field(
        default_factory=lambda: OneAtATime(
            "another decision is being explained; try again when it is done"
        ),
        init=False,
    )

    async def answer(self, _body: bytes, query: Mapping[str, str]) -> Answer:
        """404 for a decision that is not recorded, or not yet: records are stored within ten seconds."""
        if not self.place.address:
            return json_answer(404, {"error": NOT_RECORDED})
        return await self._turn.answer(partial(self._answer, query.get("id", "")))

    async def _answer(self, id_: str) -> Answer:
        return await in_child(answer_request, (self.place, id_), self.bounds)


def answer_request(request: tuple[ArchivePlace, str]) -> Answer:
    """The body of the reading process."""
    return asyncio.run(_answered(*request))


async def _answered(place: ArchivePlace, id_: str) -> Answer:
    store = open_store(place.address, endpoint_url=place.endpoint_url)
    try:
        record = await Archive(store, place.cluster, place.role).find(id_)
        return json_answer(200, decision_document(record))
    except NotFound as error:
        return json_answer(404, {"error": error.message})
    except DovetailError as error:
        return json_answer(503, {"error": str(error)})
    finally:
        await store.close()
