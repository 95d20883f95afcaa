"""What a recorded period has cost, from the changes of machines, nodes and pods."""

from __future__ import annotations

from itertools import pairwise

import pytest
from msgspec.structs import replace

from shared.domain.machines.machine import INSTANCE_TERMINATING, LAUNCHED, Condition, Machine
from shared.simulation.ledgers.allocation import IDLE, Charge
from shared.simulation.ledgers.instances import HOUR
from shared.simulation.ledgers.spending import Spending, edges_of
from tests.support.planning.builders import ZONES
from tests.support.planning.disruption import NOW, Running, make_running, pods_on

KIND = "m5.x004"
PRICES = {(KIND, ZONES[0], "on-demand"): 400_000}


def spending(*edges: float) -> Spending[str]:
    found = Spending([NOW, *(NOW + edge for edge in edges)], namespace_of)
    found.priced(NOW, PRICES)
    return found


def namespace_of(charge: Charge) -> str:
    return charge.namespace


def launched(at: float) -> Running:
    since = {LAUNCHED: Condition("True", LAUNCHED, "", NOW + at)}
    return make_running("a", KIND, created_at=NOW + at - 1, conditions=since)


def ended(machine: Machine, at: float) -> Machine:
    since = {INSTANCE_TERMINATING: Condition("True", INSTANCE_TERMINATING, "", NOW + at)}
    return replace(machine, terminating=True, conditions={**machine.conditions, **since})


def see(found: Spending[str], at: float, running: Running) -> None:
    found.machine(NOW + at, running.machine.key, running.machine)
    found.node(NOW + at, running.node.name, running.node)


def test_an_instance_costs_from_its_launch_to_the_order_to_end_it() -> None:
    """The mirror shows both a little later."""
    found = spending(10 * HOUR)
    one = launched(HOUR)
    see(found, HOUR + 5, one)
    found.machine(NOW + 3 * HOUR + 9, one.machine.key, ended(one.machine, 3 * HOUR))
    found.machine(NOW + 3 * HOUR + 60, one.machine.key, None)
    assert found.finish(NOW + 9 * HOUR) == {(0, IDLE): pytest.approx(800_000)}


def test_what_somebody_else_ended_costs_until_then_though_it_is_seen_later() -> None:
    """EC2 says when; meanwhile a pod went, so a part was counted already."""
    found = spending(10 * HOUR)
    one = launched(HOUR)
    see(found, HOUR, one)
    (pod,) = pods_on("a", 1, cpu="2")
    found.pod(NOW + HOUR, pod.key, pod)
    found.pod(NOW + 4 * HOUR, pod.key, None)
    found.machine(NOW + 5 * HOUR, one.machine.key, ended(one.machine, 3 * HOUR))
    parts = found.finish(NOW + 9 * HOUR)
    assert sum(parts.values()) == pytest.approx(800_000, abs=200)
    assert parts[0, "default"] == pytest.approx(600_000)


def test_a_pod_pays_from_when_it_has_a_node_until_it_goes() -> None:
    """Half of the node, for one of two hours."""
    found = spending(2 * HOUR)
    see(found, 0, launched(0))
    (pod,) = pods_on("a", 1, cpu="2")
    found.pod(NOW + HOUR / 2, pod.key, pod)
    found.pod(NOW + HOUR, pod.key, replace(pod, phase="Running", labels=pod.labels))
    found.pod(NOW + 3 * HOUR / 2, pod.key, None)
    parts = found.finish(NOW + 2 * HOUR)
    assert parts == {(0, "default"): pytest.approx(200_000), (0, IDLE): pytest.approx(600_000)}


def test_what_runs_over_an_edge_counts_in_both_periods() -> None:
    found = spending(HOUR, 4 * HOUR)
    see(found, 0, launched(0))
    assert found.finish(NOW + 3 * HOUR) == {(0, IDLE): 400_000, (1, IDLE): 800_000}


def test_prices_count_from_when_they_were_known() -> None:
    found = spending(2 * HOUR)
    see(found, 0, launched(0))
    found.priced(NOW + HOUR, {(KIND, ZONES[0], "on-demand"): 100_000})
    assert found.finish(NOW + 2 * HOUR) == {(0, IDLE): 500_000}


def test_a_machine_without_a_price_is_named_and_not_counted() -> None:
    found = Spending([NOW, NOW + HOUR], namespace_of)
    one = launched(0)
    see(found, 0, one)
    assert found.finish(NOW + HOUR) == {}
    assert found.unpriced == {one.machine.key}


@pytest.mark.parametrize(
    ("every", "edges"),
    [
        ("", ["10:30", "12:15"]),
        ("hour", ["10:30", "11:00", "12:00", "12:15"]),
        ("day", ["10:30", "12:15"]),
    ],
)
def test_periods_begin_with_the_hours_of_utc(every: str, edges: list[str]) -> None:
    def at(text: str) -> float:
        hours, minutes = map(int, text.split(":"))
        return 86_400.0 * 20_000 + hours * 3600 + minutes * 60

    assert edges_of(at("10:30"), at("12:15"), every) == [at(edge) for edge in edges]


def test_months_have_their_own_lengths() -> None:
    january, april = 1_767_225_600.0, 1_775_001_600.0  # 2026-01-01 and 2026-04-01
    days = [31, 28, 31]
    edges = edges_of(january, april, "month")
    assert [(b - a) / 86_400 for a, b in pairwise(edges)] == days
