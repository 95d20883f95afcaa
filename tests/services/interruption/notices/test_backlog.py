"""Order by deadline and by what is lost, not by arrival; bounded; nothing that has run out is handled."""

from __future__ import annotations

import asyncio
import itertools
import random

from hypothesis import given
from hypothesis import strategies as st

from services.interruption.notices.backlog import Backlog, Entry, never
from services.interruption.notices.notice import SAME_DEADLINE_SECONDS, Notice, NoticeKind, rank
from tests.support.clock.fake import FakeClock


def notice(name: str = "n", kind: str = NoticeKind.SPOT, **fields: float | None) -> Notice:
    return Notice(name, kind, ("i-1",), **fields)  # type: ignore[arg-type]


ORDERED = [
    (notice("terminated", NoticeKind.TERMINATED, deadline=1000.0, at=1000.0), 1),
    (notice("spot, large", deadline=1120.0, at=1003.0), 9),
    (notice("spot, older", deadline=1121.0, at=1001.0), 1),
    (notice("spot, newer", deadline=1120.0, at=1002.0), 1),
    (notice("maintenance", NoticeKind.SCHEDULED, deadline=90_000.0, at=900.0), 50),
    (notice("maintenance without a start", NoticeKind.SCHEDULED, at=900.0), 50),
    (notice("recommendation", NoticeKind.REBALANCE, at=1.0), 1),
]
"""(notice, machines of ours) in the order in which they must be acted on."""


async def test_the_most_urgent_comes_out_first_whatever_came_first() -> None:
    """Deadline, then blast radius, then age; what is only observed comes last."""
    backlog = Backlog()
    shuffled = random.Random(5).sample(ORDERED, len(ORDERED))
    for one, ours in shuffled:
        await backlog.put(Entry(one), rank(one, ours))
    found = [(await backlog.take(lambda: 0.0)).notice.id for _ in ORDERED]
    assert found == [one.id for one, _ in ORDERED]


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.integers(0, 5)), max_size=20))
def test_ranks_order_any_notices(found: list[tuple[float | None, int]]) -> None:
    """A total order: an earlier deadline is never behind a much later one."""
    ranked = sorted((rank(notice(deadline=d), ours), d) for d, ours in found if d is not None)
    deadlines = [d for _, d in ranked]
    assert all(a <= b + SAME_DEADLINE_SECONDS for a, b in itertools.pairwise(deadlines))
    assert all(rank(notice(), 0) > r for r, _ in ranked)


async def test_a_full_backlog_makes_its_source_wait() -> None:
    """Bounded: SQS keeps what does not fit."""
    backlog, one = Backlog(limit=1), notice(deadline=1.0)
    await backlog.put(Entry(one), rank(one, 1))
    second = asyncio.create_task(backlog.put(Entry(one), rank(one, 1)))
    await asyncio.sleep(0)
    assert not second.done()
    await backlog.take(lambda: 0.0)
    await second
    assert len(backlog) == 1


async def test_a_delivery_that_has_run_out_is_not_handled() -> None:
    """SQS has given the message to somebody else by then."""
    backlog, clock = Backlog(), FakeClock(wall=0.0)
    late, good = notice("late", deadline=1.0), notice("good", deadline=2.0)
    await backlog.put(Entry(late, until=clock.monotonic), rank(late, 1))
    await backlog.put(Entry(good, until=never), rank(good, 1))
    assert (await backlog.take(clock.monotonic)).notice is good
    assert backlog.expired == 1
