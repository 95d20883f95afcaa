"""Which instance is whose, and what is written down before (F1, F19)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.launcher.launch.assignment import assign, assign_found
from services.launcher.launch.fleet import LaunchRecord, read_record, record_body, subjects_of
from shared.cloud.ec2.records import FleetInstance, Instance
from tests.support.planning.builders import make_machine


def fleet_instance(name: str) -> FleetInstance:
    return FleetInstance(name, "m5.large", "us-west-2a", "subnet-1", "on-demand", "lt-1")


def instance(name: str) -> Instance:
    return Instance(
        name, "m5.large", "us-west-2a", "on-demand", "ami-1", "running", 0.0, "", {}, "s", ()
    )


def record(number: int) -> LaunchRecord:
    machines = [make_machine(f"m-{n:02d}") for n in range(number)]
    return LaunchRecord("lr-1", subjects_of(machines), {"ClientToken": "lr-1"}, 1.7e9)


@pytest.mark.parametrize("number", [1, 7, 50])
def test_every_partial_answer_is_dealt_in_order(number: int) -> None:
    """F19: k of n for every k in 0..n+1."""
    for given_out in range(number + 2):
        instances = [fleet_instance(f"i-{n:03d}") for n in range(given_out)]
        pairs, short = assign(record(number), instances, {})
        assert len(pairs) == min(given_out, number)
        assert len(pairs) + len(short) == number
        assert all(subject.key[-2:] == one.id[-2:] for subject, one in pairs)


@given(st.lists(st.text("abcdef0123456789", min_size=1), unique=True, max_size=9), st.randoms())
def test_a_replay_deals_alike(names: list[str], random: object) -> None:
    """F1: whatever order EC2 answers in."""
    forth, back = ([fleet_instance(n) for n in order] for order in (names, names[::-1]))
    assert assign(record(5), forth, {}) == assign(record(5), back, {})


@given(st.integers(0, 6), st.permutations(range(5)), st.integers(0, 5), st.sets(st.integers(0, 4)))
def test_a_replay_leaves_what_was_adopted_where_it_is(
    number: int, order: list[int], adopted_before: int, left_alone: set[int]
) -> None:
    """F1, F20: whoever has one of the instances keeps it, nobody gets a second, and none has two machines."""
    intent = record(5)
    instances = [fleet_instance(f"i-{n}") for n in range(number)]
    pairs_before = zip(order, range(min(adopted_before, number)), strict=False)
    owned = {intent.uids[who]: f"i-{what}" for who, what in pairs_before if who not in left_alone}
    pairs, short = assign(intent, instances, owned)
    given_out = {subject.uid: one.id for subject, one in pairs}
    assert len(set(given_out.values())) == len(given_out) == len(pairs)
    after = {**given_out, **owned}
    assert all(given_out.get(uid, one) == one for uid, one in owned.items())
    assert len(set(after.values())) == len(after) == min(5, number)
    assert {subject.uid for subject in short} == set(intent.uids) - after.keys()


@given(st.permutations(["b", "a", "c"]), st.permutations(["i-2", "i-1", "i-3"]))
def test_adoption_takes_what_nobody_has(machines: list[str], instances: list[str]) -> None:
    """F1: sorted instances to sorted machines, without those that were assigned before the crash."""
    waiting = [make_machine(name) for name in machines]
    found = [instance(name) for name in instances]
    pairs = assign_found(waiting[:2], found, ["aws:///us-west-2a/i-1", ""])
    assert [one.id for _, one in pairs] == ["i-2", "i-3"]
    assert [m.name for m, _ in pairs] == sorted(m.name for m in waiting[:2])


def test_a_record_comes_back_as_it_was_written() -> None:
    """F1: a later build replays it."""
    machines = [make_machine("b"), make_machine("a", generation_api="v1")]
    written = LaunchRecord(
        token="lr-1",
        subjects=subjects_of(machines),
        request={"Type": "instant", "ClientToken": "lr-1"},
        created_at=1.7e9,
        images={"lt-1": "ami-1"},
        reservations={"lt-1": "cr-1"},
        attempt=3,
        epoch=7,
    )
    assert read_record(record_body(written)) == written
    assert [subject.key for subject in written.subjects] == ["NodeClaim/a", "Machine/b"]
    assert written.capacity_type == "reserved"


def test_a_record_of_the_first_build_is_readable() -> None:
    """F30: no kind, no images, no reservations."""
    spec = {
        "machines": [{"name": "a", "uid": "u"}],
        "clientToken": "lr-1",
        "request": {},
        "createdAt": "2026-01-01T00:00:00Z",
    }
    found = read_record({"metadata": {"name": "lr-1"}, "spec": spec})
    assert (found.subjects[0].key, found.attempt, found.epoch) == ("Machine/a", 0, 0)
