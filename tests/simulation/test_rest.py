"""When a run must have come to rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from simulation.rest import MOST_PERIODS, Missing, come_to_rest
from tests.support.clock.leaping import run_leaping

SECONDS = 60.0
MINUTES = SECONDS
Names = set[str]


def one_by_one(minute: int, of: int) -> Names:
    """Machines that wait still, when each minute one has its turn."""
    return {str(number) for number in range(minute, of)}


def ended_after(
    find_missing: Callable[[int], Missing | None], waiting: Callable[[int], Names]
) -> tuple[Missing | None, int]:
    """What is missing in the end, and after how many periods. Both functions get the minutes that have passed."""

    async def rests() -> tuple[Missing | None, int]:
        loop = asyncio.get_running_loop()
        begun = loop.time()

        def minute() -> int:
            return int((loop.time() - begun) / MINUTES)

        missing = await come_to_rest(
            lambda: find_missing(minute()), lambda: waiting(minute()), SECONDS
        )
        return missing, minute()

    return run_leaping(rests())


def deleted(minute: int) -> Missing:
    """Another machine at each time."""
    return "deletions end", [f"NodeClaim/{minute} is still being deleted"]


def stuck(_: int) -> Missing:
    return "deletions end", ["NodeClaim/0 is still being deleted", "NodeClaim/1 too"]


def test_nothing_is_waited_for_where_nothing_is_missing() -> None:
    assert ended_after(lambda _: None, lambda _: set()) == (None, 0)


def test_machines_that_go_one_after_the_other_have_more_time() -> None:
    """Seed 2000 of stale: 25 drifted machines, one at a time and each held for a minute by a PodDisruptionBudget."""
    assert ended_after(
        lambda minute: deleted(minute) if minute < 3 else None, lambda minute: one_by_one(minute, 3)
    ) == (None, 3)


@pytest.mark.parametrize(
    ("find_missing", "waiting"),
    [
        (deleted, lambda _: set()),
        (deleted, lambda _: {"a", "b"}),
        (deleted, lambda minute: one_by_one(minute, 1)),
        (stuck, lambda minute: one_by_one(minute, 9)),
        (lambda minute: (stuck(0)[0], stuck(0)[1][minute % 2 :]), lambda m: one_by_one(m, 9)),
    ],
    ids=["nothing waits", "none has its turn", "the last had it", "the same", "one is the same"],
)
def test_nothing_else_has_more_time(
    find_missing: Callable[[int], Missing | None], waiting: Callable[[int], Names]
) -> None:
    """A repair that comes too late, budgets that let none go, and what stays wrong while machines are replaced."""
    missing, periods = ended_after(find_missing, waiting)
    assert missing is not None
    assert periods == 1


def test_turns_without_end_are_not_waited_for() -> None:
    missing, periods = ended_after(deleted, lambda minute: one_by_one(minute, 99))
    assert missing is not None
    assert periods == MOST_PERIODS
