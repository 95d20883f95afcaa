"""Sets of instance types: the same answers as comparing amounts one by one, and one object per set."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.solver.pools.type_sets import TypeSets

AMOUNTS = st.integers(-3, 9)
TYPES = st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=40)


def sets_of(types: list[tuple[int, int]]) -> TypeSets:
    """Types of (CPU, memory)."""
    return TypeSets(np.array(types, dtype=np.int64).T)


@given(TYPES, AMOUNTS, AMOUNTS, st.data())
def test_sch_35_types_that_hold_the_pods_are_kept_and_no_others(
    types: list[tuple[int, int]], cpu: int, memory: int, data: st.DataObject
) -> None:
    chosen = data.draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types)))
    sets = sets_of(types)
    given_types = sets.of(np.array(chosen, dtype=np.bool_))
    kept = sets.large_enough(given_types, (cpu, memory))
    assert kept.rows.tolist() == [
        row
        for row, (has_cpu, has_memory) in enumerate(types)
        if chosen[row] and has_cpu >= cpu and has_memory >= memory
    ]
    assert len(kept) == len(kept.rows)
    assert (kept is given_types) == (len(kept) == len(given_types))


@given(TYPES, st.data())
def test_the_roomiest_amounts_are_the_largest_of_each_resource(
    types: list[tuple[int, int]], data: st.DataObject
) -> None:
    rows = sorted(data.draw(st.sets(st.integers(0, len(types) - 1), min_size=1)))
    found = sets_of(types).of_rows(np.array(rows))
    assert found.largest_amounts.tolist() == [
        max(types[row][column] for row in rows) for column in (0, 1)
    ]


@given(TYPES, st.data())
def test_equal_sets_are_one_object_however_they_came_about(
    types: list[tuple[int, int]], data: st.DataObject
) -> None:
    rows = st.sets(st.integers(0, len(types) - 1)).map(sorted)
    one, other = data.draw(rows), data.draw(rows)
    sets = sets_of(types)
    first, second = (sets.of_rows(np.array(r, dtype=np.intp)) for r in (one, other))
    common = sets.intersection(first, second)
    assert common.rows.tolist() == sorted({*one} & {*other})
    assert common is sets.of(first.mask & second.mask)
