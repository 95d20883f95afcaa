"""The order in which open machines are tried: fewest pods first, then oldest, with or without some zones (SCH-32)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from shared.solver.placement.machine_order import NOWHERE, MachineOrder

ZONES = st.sampled_from((NOWHERE, 0, 1, 2))
STEPS = st.lists(
    st.one_of(
        st.none(),  # a machine is opened
        st.tuples(st.integers(0, 30), ZONES, st.integers(0, 3)),  # it takes pods
        st.frozensets(ZONES),  # somebody asks for machines outside these zones
    ),
    max_size=80,
)


@given(STEPS)
def test_sch_32_machines_come_fewest_pods_first_then_oldest(steps: list[object]) -> None:
    order = MachineOrder()
    machines: list[tuple[int, int]] = []  # (pods, zone)
    for step in steps:
        if step is None:
            machines.append((0, NOWHERE))
            order.append()
        elif isinstance(step, tuple) and machines:
            row = step[0] % len(machines)
            machines[row] = machines[row][0] + step[2], step[1]
            order.move(row, step[1], machines[row][0])
        elif isinstance(step, frozenset):
            found = list(dict.fromkeys(order.outside(step)))  # the first ones may come twice
            expected = sorted(
                (pods, row) for row, (pods, zone) in enumerate(machines) if zone not in step
            )
            assert found == [row for _, row in expected]
    assert order.pods == [pods for pods, _ in machines]


def test_the_zone_of_a_machine_is_known_although_nobody_asked_before() -> None:
    order = MachineOrder()
    for zone in (0, 1):
        order.append()
        order.move(zone, zone, 1)
    assert list(order.outside({0})) == [1]
    assert list(order.outside({0, 1})) == []
