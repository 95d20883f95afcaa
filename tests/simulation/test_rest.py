"""When a run must have come to rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from simulation.rest import Missing, come_to_rest
from simulation.users import lifted_budgets
from tests.support.clock.leaping import run_leaping

MISSING = ("deletions end", ["NodeClaim/one is still being deleted"])


async def rests(find_missing: Callable[[int], Missing | None]) -> tuple[Missing | None, int]:
    """What is missing in the end, and how often people hurried. ``find_missing`` gets that number, too."""
    hurried = 0

    async def hurry() -> None:
        nonlocal hurried
        hurried += 1

    return await come_to_rest(lambda: find_missing(hurried), hurry, 60.0), hurried


@pytest.mark.parametrize(
    ("find_missing", "expected"),
    [
        (lambda _: None, (None, 0)),
        (lambda hurried: None if hurried else MISSING, (None, 1)),
        (lambda _: MISSING, (MISSING, 1)),
    ],
    ids=["at once", "one machine after the other", "never"],
)
def test_budgets_may_make_it_slow_and_nothing_else(
    find_missing: Callable[[int], Missing | None], expected: tuple[Missing | None, int]
) -> None:
    """Seed 2000 of stale: 25 drifted machines, one at a time and each held for a minute by a PodDisruptionBudget."""
    assert run_leaping(rests(find_missing)) == expected


def test_people_lift_the_budgets_of_every_pool() -> None:
    actions = lifted_budgets(7.0, ["one", "two"])
    assert [action.text for action in actions] == [
        f"patch nodepools {name}: spec.disruption.budgets=[{{'nodes': '100%'}}]"
        for name in ("one", "two")
    ]
