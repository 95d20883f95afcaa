"""What is launched, what may come, and what has room (BAT-08, I4, I10)."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from services.launcher.launch.limits import PoolLimits, ReservedRoom, SafetyLimits
from services.launcher.launch_template.variants import Choice
from shared.domain import labels as keys
from shared.domain.machines.commands import CommandRecord, written
from shared.domain.machines.machine import INSTANCE_TERMINATING, LAUNCHED, Condition, Machine
from shared.domain.pools.usage import Counting
from tests.support.planning.builders import make_machine, make_type

NOW = 1000.0
POOL = "Provisioner/default"


def choice(cpu: int) -> Choice:
    kind = make_type(f"m5.x{cpu}", cpu)
    return Choice(kind, kind.offerings)


def launched(name: str = "a", cpu: int = 4, since: float = 0.0, **changes: Any) -> Machine:
    conditions = {LAUNCHED: Condition("True", since=since)}
    capacity = {"cpu": cpu * 1000}
    return make_machine(
        name, provider_id=f"aws:///z/i-{name}", capacity=capacity, conditions=conditions, **changes
    )


def ledger(*machines: Machine, **reserved: int) -> PoolLimits:
    kept = {uid: ReservedRoom(POOL, {"cpu": cpu * 1000}) for uid, cpu in reserved.items()}
    return PoolLimits(machines, kept, now=NOW)


def sizes(book: PoolLimits, limits: dict[str, int], *cpus: int) -> list[int]:
    found = book.within(make_machine("new"), limits, map(choice, cpus))
    return [one.type.capacity["cpu"] // 1000 for one in found]


def test_only_types_that_the_pool_has_room_for_are_asked_for() -> None:
    """BAT-08: 4 of 10 cores are used."""
    assert sizes(ledger(launched()), {"cpu": 10_000}, 2, 6, 8) == [2, 6]
    assert sizes(ledger(launched()), {"cpu": 4000}, 2) == []
    assert sizes(ledger(launched()), {}, 2, 200) == [2, 200]


def test_the_number_of_nodes_is_a_limit_too() -> None:
    """SCH-101: types beyond the limits."""
    assert sizes(ledger(launched()), {"nodes": 2}, 2) == [2]
    assert sizes(ledger(launched(), b=2), {"nodes": 2}, 2) == []


def test_what_is_written_down_and_not_answered_counts_at_its_largest() -> None:
    """I4: launched and recorded together."""
    assert sizes(ledger(launched(), other=4), {"cpu": 10_000}, 2, 4) == [2]


def test_a_machine_counts_once() -> None:
    """Its launch ended after its room was looked up."""
    machine = launched()
    kept = {machine.uid: ReservedRoom(POOL, {"cpu": 64_000})}
    assert sizes(PoolLimits([machine], kept, now=NOW), {"cpu": 10_000}, 6) == [6]


def test_a_machine_that_goes_counts_until_its_instance_does() -> None:
    """SCH-100 as the planner counts: all but one, whose pods need a place before it can go. The safety limit counts
    instances."""
    going = [launched(name, terminating=True) for name in "abc"]
    assert sizes(ledger(*going), {"cpu": 12_000}, 4, 8) == [4]
    assert sizes(ledger(*going), {"cpu": 8_000}, 2) == []
    assert ledger(*going).refusal(SafetyLimits(max_nodes=3))
    ended = replace(going[0], conditions={INSTANCE_TERMINATING: Condition("True")})
    assert sizes(ledger(ended, *going[1:]), {"cpu": 8_000}, 4) == [4]


def test_as_in_karpenter_no_machine_that_goes_counts() -> None:
    """LIMITS_COUNT_TERMINATING=false."""
    going = [launched(name, terminating=True) for name in "abc"]
    book = PoolLimits(going, {}, now=NOW, counting=Counting(terminating=False))
    assert sizes(book, {"cpu": 4_000}, 4) == [4]


def commanded(name: str, *replacements: str, **changes: Any) -> Machine:
    """It is replaced by these."""
    record = CommandRecord("c", "drift", "Drifted", (f"Machine/{name}",), replacements)
    return launched(name, annotations={keys.COMMAND_ANNOTATION: written(record)}, **changes)


def test_a_replacement_has_the_room_of_what_it_replaces_and_no_more() -> None:
    """Drift goes on in a pool that is at its limit, one machine after the other."""
    old, other = commanded("a", "Machine/new"), commanded("b", "Machine/next")
    book, limits = ledger(old, other), {"cpu": 8_000, "nodes": 2}
    assert sizes(book, limits, 2, 4, 8) == [2, 4]
    stranger = make_machine("stranger")
    assert book.within(stranger, limits, [choice(2)]) == []
    book.admit(POOL, [choice(4)])
    next_one = make_machine("next")
    assert book.within(next_one, limits, [choice(2)]) == [], "the first one's place is given away"
    draining = replace(old, terminating=True)
    book = ledger(draining, other, launched("new"))
    assert book.within(next_one, limits, [choice(2)]) == [], "the first one still costs"
    gone = ledger(other, launched("new"))
    assert gone.within(next_one, limits, [choice(4)])


def test_a_record_that_was_copied_gives_no_room() -> None:
    """Only the machine that a command holds is replaced by it."""
    record = CommandRecord("c", "drift", "Drifted", ("Machine/x",), ("Machine/new",))
    note = {keys.COMMAND_ANNOTATION: written(record)}
    assert sizes(ledger(launched(annotations=note)), {"cpu": 4_000}, 2) == []


def test_pools_do_not_share_their_limits() -> None:
    assert sizes(ledger(launched(pool="other")), {"cpu": 2000}, 2) == [2]


def test_each_admission_takes_its_room() -> None:
    """Machines of one round see each other."""
    book = ledger()
    book.admit(POOL, [choice(2), choice(4)])
    assert sizes(book, {"cpu": 6000}, 2, 4) == [2]
    assert "cpu 4 of 6" in book.exceeded(make_machine("new"), {"cpu": 6000})


def test_safety_limits_are_told_in_words() -> None:
    """Settings, 0 = off."""
    book = ledger(launched(since=NOW - 59), launched("b", since=NOW - 61))
    assert book.refusal(SafetyLimits()) == ""
    assert book.refusal(SafetyLimits(max_nodes=3, launches_per_minute=2)) == ""
    assert "MAX_NODES of 2" in book.refusal(SafetyLimits(max_nodes=2))
    assert "LAUNCHES_PER_MINUTE of 1" in book.refusal(SafetyLimits(launches_per_minute=1))


@given(
    st.lists(st.lists(st.integers(1, 16), min_size=1, max_size=4), max_size=12),
    st.integers(0, 64),
    st.data(),
)
def test_no_pool_exceeds_its_limits_whatever_ec2_chooses(
    wishes: list[list[int]], most: int, data: st.DataObject
) -> None:
    """I4: EC2 may take any type that was asked for."""
    book, used = ledger(), 0
    for wish in wishes:
        kept = book.within(make_machine("new"), {"cpu": most * 1000}, map(choice, wish))
        if kept:
            book.admit(POOL, kept)
            used += data.draw(st.sampled_from([c.type.capacity["cpu"] // 1000 for c in kept]))
    assert used <= most
