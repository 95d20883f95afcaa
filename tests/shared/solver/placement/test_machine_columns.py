"""The search over open machines: it leaves out exactly those that cannot take a pod."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shared.solver.encode import Indices
from shared.solver.placement.machine_columns import MachineColumns

AMOUNTS = st.integers(0, 5)
MACHINES = st.lists(st.tuples(AMOUNTS, AMOUNTS, st.integers(1, 4), st.booleans()), max_size=80)


def columns_of(machines: list[tuple[int, int, int, bool]]) -> MachineColumns:
    """Machines of (free CPU, free memory, pods, may the class go there)."""
    columns = MachineColumns.empty(2)
    for index, (cpu, memory, pods, _) in enumerate(machines):
        columns.append()
        columns.free[:, index] = cpu, memory
        columns.pods[index] = pods
    return columns


def rows_of(machines: list[tuple[int, int, int, bool]]) -> Indices:
    """The machines where the class may go."""
    return np.array([may for *_, may in machines], dtype=np.bool_).nonzero()[0]


@given(MACHINES, AMOUNTS, AMOUNTS)
def test_sch_32_machines_with_room_come_fewest_pods_first_then_oldest(
    machines: list[tuple[int, int, int, bool]], cpu: int, memory: int
) -> None:
    allowed = rows_of(machines)
    number, found = columns_of(machines).candidates((cpu, memory), allowed)
    expected = [
        (pods, index)
        for index, (free_cpu, free_memory, pods, may) in enumerate(machines)
        if may and free_cpu >= cpu and free_memory >= memory
    ]
    assert list(found) == [index for _, index in sorted(expected)]
    assert number == len(expected)


@given(MACHINES)
def test_without_rules_every_machine_is_a_candidate_for_a_pod_that_asks_nothing(
    machines: list[tuple[int, int, int, bool]],
) -> None:
    number, found = columns_of(machines).candidates((0, 0), None)
    assert number == len(machines) == len(list(found))


def test_rows_keep_their_values_when_the_columns_grow() -> None:
    columns = columns_of([(index, 1, 1, True) for index in range(200)])
    assert columns.free[0, :200].tolist() == list(range(200))
    assert (columns.zone == -1).all()
